"""A folder of pictures."""

import pytest

from tests.data.pictures import save


@pytest.fixture
def animals(tmp_path):
    place = tmp_path / "animals"
    save(place / "cat", 20)
    save(place / "dog", 30)
    return place
