"""What networks compute is what it was: apart from the other parts, so that two workers share them."""

import pytest

from tests.golden.book import GoldenBook
from tests.golden.parts import FIRST_HALF, all_parts

BOOK = GoldenBook.read(all_parts())


@pytest.mark.parametrize(
    "of", [of for of in BOOK.parts if of[0] == "model" and not of[1].startswith(FIRST_HALF)], ids=" ".join
)
def test_numbers_are_those_of_the_version(of):
    assert not (fault := BOOK.fault(BOOK.parts[of])), fault
