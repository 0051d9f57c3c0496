"""jaxtyping really checks: without the hook in conftest.py, every annotated shape would be a comment."""

from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

from routebench.capsules import Competition, Votes
from routebench.ops import length
from routebench.routing import factory
from tests.first_calls import CHECKED, WITH_SHAPES


def test_a_wrong_number_of_axes_is_refused():
    with pytest.raises(TypeCheckError, match="logits"):
        Competition().couple(torch.zeros(2, 3))


def test_axes_of_one_name_must_be_as_long():
    with pytest.raises(TypeCheckError, match="coupling"):
        Votes(torch.zeros(2, 3, 4), torch.zeros(3, 2, 4, 4), Competition()).aggregate(torch.zeros(2, 4))


def test_votes_need_a_weight_for_every_child():
    with pytest.raises(ValueError, match="expected 5 cells below and weights for 5 children, got 3 cells"):
        Votes(torch.zeros(2, 3, 4), torch.zeros(5, 2, 4, 4), Competition())


def test_a_wrong_kind_of_number_is_refused():
    with pytest.raises(TypeCheckError, match="children"):
        Votes(torch.zeros(2, 3, 4, dtype=torch.int64), torch.zeros(3, 2, 4, 4), Competition())


def test_a_wrong_plain_type_is_refused():
    with pytest.raises(TypeCheckError, match="name"):
        factory(3)


def test_every_file_with_shapes_is_checked():
    parts = tuple(f"routebench.{name}." for name in WITH_SHAPES)
    root = Path(__file__).parents[1]
    with_shapes = {
        ".".join(file.relative_to(root).with_suffix("").parts)
        for file in (root / "routebench").rglob("*.py")
        if "from jaxtyping import" in file.read_text(encoding="utf-8")
    }
    assert len(with_shapes) > 50
    assert [name for name in with_shapes if not f"{name}.".startswith(parts)] == []


def test_the_first_calls_in_a_test_are_checked_and_no_others():
    for _ in range(CHECKED - 1):
        length(torch.zeros(2, 3))
    with pytest.raises(TypeCheckError, match="poses"):
        length("no tensor")
    with pytest.raises(TypeError, match="vector_norm"):
        length("no tensor")
