"""A network that could be built is not built again to find that out, until code changes."""

import pytest

from routebench.errors import UserError
from routebench.models import smallest

MNIST = ((1, 28, 28), 10, {})


@pytest.fixture
def built(tmp_path, monkeypatch):
    """The networks that were built, with an empty cache."""
    names, build = [], smallest.build
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(smallest, "build", lambda name, **given: (names.append(name), build(name, **given))[1])
    return names


def test_what_could_be_built_is_remembered_until_code_changes(built, monkeypatch):
    for _ in range(2):
        smallest.expect_buildable("cnn-small", *MNIST)
    assert built == ["cnn-small"]
    smallest.expect_buildable("cnn-small", (1, 32, 32), 10, {})
    monkeypatch.setattr(smallest, "_code", lambda: "another")
    smallest.expect_buildable("cnn-small", *MNIST)
    assert built == ["cnn-small"] * 3


def test_what_could_not_be_built_is_refused_again(built):
    for _ in range(2):
        with pytest.raises(UserError):
            smallest.expect_buildable("capsnet-small", (1, 8, 8), 10, {})
    assert built == ["capsnet-small"] * 2


@pytest.mark.parametrize(
    ("name", "wrong"), [("capsnet-small", {"weight_std": -1.0}), ("vae", {"latents": 0}), ("cnn-small", {"x": 1})]
)
def test_a_wrong_argument_is_told_without_building_for_every_size(built, name, wrong):
    """A generative network took minutes."""
    with pytest.raises(UserError):
        smallest.expect_buildable(name, (1, 28, 28), 10, wrong)
    assert smallest.smallest_side(name, (1, 28, 28), 10, wrong) is None
    assert len(built) == 3


@pytest.mark.parametrize("taken", [[13], [13, 14, 40], [smallest.LARGEST]])
def test_the_smallest_side_is_found_whatever_larger_ones_are_refused(monkeypatch, taken):
    def build(name, shape, *_):
        if shape[1] not in taken:
            raise UserError(f"images of {shape[1]} pixels")

    monkeypatch.setattr(smallest, "expect_buildable", build)
    assert smallest.smallest_side("any", (1, 8, 9), 10, {}) == min(taken)
