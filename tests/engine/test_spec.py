"""A method in one word."""

import pytest

from routebench.errors import UserError
from routebench.notation import Spec, parse


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("dynamic", "dynamic", {}),
        ("dynamic[]", "dynamic", {}),
        ("dynamic[iterations=3,detach=true]", "dynamic", {"iterations": 3, "detach": True}),
        ("em[competition=types, lam=1e-3]", "em", {"competition": "types", "lam": 1e-3}),
        ("em[grid=[1,2],name='x,y']", "em", {"grid": [1, 2], "name": "x,y"}),
    ],
)
def test_read(text, name, params):
    assert parse(text) == Spec(name, params)


@pytest.mark.parametrize(
    "text", ["", "dynamic[", "[a=1]", "dynamic[a]", "dynamic[a=]", "dynamic[a=1,a=2]", "dynamic[a=1"]
)
def test_other_forms_are_refused_in_one_line(text):
    with pytest.raises(UserError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        Spec("a"),
        Spec("a", {"flag": False, "x": 0.5, "n": 3, "word": "held-out"}),
        Spec("a", {"words": "two words", "looks": "true", "list": [1, 2]}),
    ],
    ids=str,
)
def test_written_as_it_is_read(spec):
    assert parse(str(spec)) == spec
