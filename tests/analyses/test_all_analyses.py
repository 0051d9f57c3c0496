"""What every registered analysis does, whatever it reads: on made-up runs, on published results, and on nothing."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from routebench.analysis._result import reads, reads_across, reads_folder, takes_several
from routebench.analysis.figures import to_svg
from routebench.analysis.folder import open_folder
from routebench.notation import parse
from routebench.registry import analyses
from tests.analyses import test_cost_analyses, test_sparsity_analyses, test_tuned_comparisons
from tests.analysis.made_up_runs import made_up_runs
from tests.studies.objects import test_objects_analyses
from tests.studies.parts import test_parts_analysis

PUBLISHED = sorted(file.parent for file in (Path(__file__).parents[2] / "reports").glob("*/records.parquet"))
NO_FIGURE = {
    *(
        "accuracy-table",
        "between-networks",
        "bound",
        "corruptions",
        "cost-table",
        "equivariance-table",
        "failures",
        "overlap-table",
    ),
    *("parts-table", "presences", "probe-ordering", "probe-table"),
    *("qualitative-claims", "robustness-table", "routing-by-reconstruction"),
    *("selection-on-test", "sparsity-table", "static-coupling", "viewpoint-table"),
}
WITHOUT_RESULTS = {"accuracy-table", "failures", "primary-comparisons", "toy-inference"}
"""Say that there is no result, or need none."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The parts of each folder, the smaller folders first."""
    path = tmp_path_factory.mktemp("made")
    finals = test_tuned_comparisons.finals(path / "finals", methods=(parse("em"), parse("heinsen")), seeds=range(2))
    trials = test_tuned_comparisons.trials(path / "trials", methods=(parse("em"),))
    parts = test_parts_analysis.runs_of(tmp_path_factory)
    objects = test_objects_analyses.runs_of(tmp_path_factory)
    sparse = test_sparsity_analyses.runs_of(tmp_path_factory)
    layers = test_cost_analyses.runs_of(sizes=((9, 10), (49, 10)))
    made = [
        (made_up_runs(),),
        (parts,),
        (objects,),
        (sparse,),
        (trials,),
        (layers,),
        (finals, replace(finals, data="another"), replace(finals, data=f"few:500:{finals.data}")),
    ]
    published = [tuple(open_folder(folder).parts) for folder in PUBLISHED]
    return made + sorted(published, key=lambda parts: sum(len(runs.results) for runs in parts))


@pytest.fixture(scope="module")
def given_to(folders):
    """What an analysis is given here, the first runs or folder of which it says anything; and what it says."""

    @cache
    def given(name):
        wanted = analyses[name]
        if reads_folder(wanted):
            every = folders
        elif takes_several(wanted):
            every = [tuple(runs for runs in parts if reads_across(wanted, runs.protocol)) for parts in folders]
        else:
            every = [runs for parts in folders for runs in parts if reads(wanted, runs.protocol)]
        found = ((runs, wanted(runs)) for runs in every)
        return next((runs, said) for runs, said in found if said is not None and not said.shown().empty)

    return given


def each(change, given):
    """Runs, or every one of several, changed."""
    return tuple(map(change, given)) if isinstance(given, tuple) else change(given)


@pytest.mark.parametrize("name", sorted(analyses))
def test_it_says_what_it_found_and_changes_nothing(given_to, name):
    given, one = given_to(name)
    before = each(lambda runs: replace(runs, results=runs.results.copy(), planned=runs.planned.copy()), given)
    again = analyses[name](given)
    assert one.title
    assert one.reading.endswith((".", "?")) and not one.reading[0].islower()
    assert not one.shown().empty and len(one.shown()) == len(one.numbers)
    assert not one.shown().isin(["nan", "None", "<NA>"]).any().any()
    assert one.numbers.equals(again.numbers) and one.shown().equals(again.shown())
    assert (one.figure is None) == (again.figure is None) == (name in NO_FIGURE)
    if one.figure is not None:
        assert to_svg(one.figure) == to_svg(again.figure)
        assert (one.reading in one.described) == one.reading.endswith(".")
    for runs, was in zip(*((pair if isinstance(pair, tuple) else (pair,)) for pair in (given, before)), strict=True):
        assert runs.results.equals(was.results) and runs.planned.equals(was.planned)


@pytest.mark.parametrize("columns", ["its own", "those of any run"])
@pytest.mark.parametrize("name", sorted(analyses))
def test_nothing_measured_gives_nothing(given_to, name, columns):
    def emptied(runs):
        results = (runs if columns == "its own" else made_up_runs()).results.head(0)
        return replace(runs, results=results, planned=runs.planned.assign(status="not run"))

    assert (analyses[name](each(emptied, given_to(name)[0])) is None) == (name not in WITHOUT_RESULTS)


@pytest.mark.parametrize("name", sorted(name for name in analyses if takes_several(analyses[name])))
def test_no_runs_at_all_give_nothing(name):
    assert analyses[name](()) is None
