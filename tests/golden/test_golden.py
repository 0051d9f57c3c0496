"""What parts compute is what it was, or their versions say that it is not; `python -m tests.golden` writes it anew."""

import copy
from dataclasses import replace

import pytest

from tests.golden.book import REFUSED, GoldenBook, is_close, summary
from tests.golden.methods import PROBLEMS, STEADY, routed, told_label
from tests.golden.parts import FIRST_HALF, all_parts, uncovered
from tests.references.transcription import SHIPPED


@pytest.fixture(scope="module")
def book():
    return GoldenBook.read(all_parts())


TITLES = [(part.kind, part.name) for part in all_parts() if part.kind != "model" or part.name.startswith(FIRST_HALF)]


@pytest.mark.parametrize("of", TITLES, ids=" ".join)
def test_numbers_are_those_of_the_version(book, of):
    assert not (fault := book.fault(book.parts[of])), fault


def test_nothing_has_golden_numbers_that_is_gone(book):
    assert not book.gone()


@pytest.mark.parametrize("which", PROBLEMS)
@pytest.mark.parametrize("name", SHIPPED)
def test_fused_kernels_agree_with_the_golden_numbers_of_the_reference(book, name, which):
    params = STEADY.get(name, {})
    known = book.known["method"][name]["numbers"][told_label(params, which)]
    assert is_close(summary(routed(name, params, which, back_end="auto")), known, 1e-4)


def test_what_is_not_covered_has_a_reason():
    assert [what for what, why in uncovered() if not why] == []


@pytest.fixture
def em(book):
    """A book of the method em alone, which a test may change."""
    part = book.parts["method", "em"]
    known = {"method": {"em": copy.deepcopy(book.entry(part))}}
    return GoldenBook({("method", "em"): replace(part, cases={"dense": part.cases["dense"]})}, known), "dense"


def test_each_way_to_be_wrong_is_told(em):
    book, label = em
    (part,), entry = book.parts.values(), book.known["method"]["em"]
    entry["numbers"] = {label: entry["numbers"][label]}
    assert book.fault(part) == ""
    assert "no version" in book.fault(replace(part, version=None))
    assert "golden numbers are of version 1, not 2" in book.fault(replace(part, version=2))
    assert "default of iterations was 3 and is 4" in book.fault(
        replace(part, defaults={**part.defaults, "iterations": 4})
    )
    assert "settings are others (defaults)" in book.fault(replace(part, defaults={**part.defaults, "new": 4}))
    entry["numbers"][label] = [1.001 * one for one in entry["numbers"][label]]
    assert book.fault(part) == (
        f"method em: its numbers moved ({label}): raise its version in routebench/routing/em.py, then "
        "`python -m tests.golden`"
    )
    entry["numbers"][label] = REFUSED
    assert "numbers moved" in book.fault(part)
    del book.known["method"]["em"]
    assert "no golden numbers" in book.fault(part)


def test_only_a_raised_version_lets_numbers_be_written(em):
    book, label = em
    (part,) = book.parts.values()
    right = book.known["method"]["em"]["numbers"][label]
    book.known["method"]["em"]["numbers"][label] = [0.0 for _ in right]
    assert book.forbidden(part)
    assert not book.forbidden(replace(part, version=2))
    assert book.renewed(replace(part, version=2))["numbers"] == {label: right}
