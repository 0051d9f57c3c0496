"""Arguments are what their annotations say, whichever way they are written, and anything else gets one line."""

import inspect
import math
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Ge, Lt

from routebench.arguments import Count, Natural, NonNegative, Positive, Share, checked, legal_values

Word = Literal["gru", "replace"]


@checked
def call(
    count: Count = 1,
    natural: Natural = 0,
    not_below: NonNegative = 0.0,
    above: Positive = 1.0,
    share: Share = 0.5,
    dropout: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
    word: Word = "gru",
    switch: bool = False,
    perhaps: Count | None = None,
    number: float = 0.0,
    counts: list[Count] | None = None,
    sizes: tuple[Natural, ...] = (),
    text: str = "",
    told: Annotated[str, Word] = "gru",
    anything: object = None,
    **more: object,
):
    """What came, by name."""
    return locals()


LEGAL = [
    ("count", [1, 16, np.int64(3)]),
    ("natural", [0, 2]),
    ("not_below", [0, 0.0, 1e9, np.float32(0.5)]),
    ("above", [1, 1e-12]),
    ("share", [0, 1, 0.25]),
    ("dropout", [0, 0.999]),
    ("word", ["gru", "replace"]),
    ("switch", [True, False]),
    ("perhaps", [None, 4]),
    ("number", [-3, 2.5]),
    ("text", ["", "any"]),
    ("told", ["gru", "replace"]),
    ("anything", ["x", None, math.nan]),
]
ILLEGAL = [
    ("count", [0, -1, 2.5, True, "3", None, math.inf], "an integer of at least 1"),
    ("natural", [-1, 0.5], "an integer of at least 0"),
    ("not_below", [-0.1, math.nan, "1", None], "a number of at least 0"),
    ("above", [0, -1.0, math.nan, math.inf, True, "0.1"], "a number above 0"),
    ("share", [-0.1, 2, math.nan, False], "a number from 0 to 1"),
    ("dropout", [1, -0.1], "a number of at least 0 and below 1"),
    ("word", ["lstm", 0, None], "one of gru, replace"),
    ("switch", ["no", 1, None], "true or false"),
    ("number", ["1", True, math.nan], "a number"),
    ("counts", [3, [1, 0], "12"], "a list, each an integer of at least 1, or none"),
    ("sizes", [[0.5], {1}], "a list, each an integer of at least 0"),
    ("text", [3, None], "text"),
    ("told", ["lstm", None], "one of gru, replace"),
]


@pytest.mark.parametrize(("name", "values"), LEGAL, ids=[name for name, _ in LEGAL])
def test_what_is_legal_arrives(name, values):
    for value in values:
        came = call(**{name: value})[name]
        assert came == value or (came != came and value != value)  # nan
        assert type(came) in (int, float, bool, str, type(None))


@pytest.mark.parametrize(("name", "values", "expected"), ILLEGAL, ids=[name for name, *_ in ILLEGAL])
def test_what_is_not_legal_is_refused_in_one_line(name, values, expected):
    for value in values:
        with pytest.raises(ValueError, match=name) as caught:
            call(**{name: value})
        assert str(caught.value) == f"{name} must be {expected}, got {value!r}"


@pytest.mark.parametrize(("name", "value"), [("number", -1e308), ("above", 3.5e38), ("number", 10**39)])
def test_a_number_that_float32_cannot_hold_is_refused_with_the_reason(name, value):
    with pytest.raises(ValueError, match="^" + name + " must be a number.*, which float32 cannot hold$"):
        call(**{name: value})
    assert call(**{name: 3.4e38})[name] == 3.4e38


def test_lists_and_numbers_arrive_as_declared():
    assert call(counts=(1, np.int64(2)))["counts"] == [1, 2]
    assert call(sizes=[1, 0])["sizes"] == (1, 0)
    assert call(sizes=())["sizes"] == ()
    assert type(call(number=1)["number"]) is float


def test_none_is_named_where_it_is_legal():
    with pytest.raises(ValueError, match="perhaps must be an integer of at least 1, or none, got 0"):
        call(perhaps=0)


def test_positions_count_as_names_do():
    assert call(3)["count"] == 3
    with pytest.raises(ValueError, match="natural must be"):
        call(1, -1)


def test_the_signature_stays():
    assert list(inspect.signature(call).parameters)[:2] == ["count", "natural"]
    assert legal_values(call)["word"].choices == ("gru", "replace")
    with pytest.raises(TypeError, match="missing"):
        checked(lambda needed: needed)()


def test_annotations_that_cannot_be_read_allow_anything():
    def odd(x: "NoSuchThing" = 1):
        return x

    assert checked(odd)("y") == "y"
