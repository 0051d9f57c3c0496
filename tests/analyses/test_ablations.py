"""Variants of a method against its plain form, with planted differences."""

import numpy as np
import pytest

from routebench import statistics
from routebench.analysis import Method, Verdict
from routebench.analysis.figures import to_svg
from routebench.registry import analyses
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs

find = analyses["ablations"]
LONG = "dynamic[bias=true,competition=positions,detach=true]"
VARIANTS = {
    "dynamic": ([1, 2], "method", "capsnet-small", [95.0, 96.0]),
    "dynamic[detach=true]": ([1, 2], "method", "capsnet-small", [95.0, 93.0]),
    LONG: ([2], "method", "capsnet-small", [97.5]),
    "em[mass_normalisation=ratio]": ([2], "method", "capsnet-small", [96.0]),
    "em[competition=positions,mass_normalisation=ratio]": ([2], "method", "capsnet-small", [96.0]),
    "uniform": METHODS["uniform"],
}


def runs_of(**options):
    return made_up_runs(made_up_records(**{"seeds": 4, "failures": False, "methods": VARIANTS, **options}))


def values(runs, label, iterations):
    own = runs.results.query("metric == 'accuracy' and label == @label and iterations == @iterations")
    return own[own["test_iterations"] == iterations].sort_values("seed")["value"].to_numpy(dtype=float)


def test_a_planted_difference_is_found_and_paired_by_seed():
    runs = runs_of()
    analysis = find(runs)
    table = analysis.numbers.set_index("name")
    expected = statistics.mean_interval(values(runs, "dynamic[detach=true]", 2) - values(runs, "dynamic", 2))
    found = table.loc["dynamic[detach=true] T=2"]
    assert [found["difference"], found["difference_low"], found["difference_high"]] == pytest.approx(
        [expected.mean, expected.low, expected.high]
    )
    assert found["difference"] == pytest.approx(-3, abs=0.4)
    verdicts = {str(row["method"]): row["difference"].verdict for row in analysis.table.to_dict("records")}
    assert verdicts["Dynamic (detach), T = 2"] == Verdict.WORSE
    assert verdicts[str(Method.of(LONG, 2))] == Verdict.BETTER


def test_the_plain_form_changes_the_fewest_settings():
    table = find(runs_of()).numbers
    plain = table[table["variant"].str.startswith("plain form")]
    assert list(plain["name"]) == ["dynamic T=1", "dynamic T=2", "em[mass_normalisation=ratio] T=2"]
    assert plain["difference"].isna().all()
    assert "uniform" not in set(table["label"])


def test_variants_in_words_and_in_other_networks_stand_beside_the_plain_form():
    more = {
        "em": ([2], "method", "capsnet-small", [96.0]),
        "em (margin loss)": ([2], "method", "capsnet-small", [94.0]),
        "em (vector poses)": ([2], "method", "other-network", [93.0]),
    }
    table = find(runs_of(methods=more)).numbers.set_index("label")
    assert list(table["variant"]) == ["plain form: defaults", "margin loss", "vector poses"]
    assert len(table) == 3
    assert table.loc["em (vector poses)", "difference"] == pytest.approx(-3, abs=0.4)


def test_p_is_corrected_over_all_variants_of_the_table():
    table = find(runs_of()).numbers
    p_values = table["difference_p"].to_numpy()
    assert table["difference_p_holm"].to_numpy() == pytest.approx(statistics.holm(p_values), nan_ok=True)
    assert np.isfinite(p_values).sum() == 4


def test_a_plain_form_without_a_result_gives_way_to_the_next():
    records = made_up_records(seeds=3, failures=False, methods=VARIANTS)
    for record in records:
        if record["label"] == "dynamic" and record["identity"]["iterations"] == 2:
            record |= {"status": "oom", "reason": "out of memory", "metrics": []}
    table = find(made_up_runs(records)).numbers
    own = table[table["label"].str.startswith("dynamic") & (table["iterations"] == 2)].set_index("label")
    assert own.loc["dynamic[detach=true]", "variant"].startswith("plain form")
    assert np.isnan(own.loc["dynamic", "difference"])
    assert own.loc["dynamic", "n_ok"] == 0


def test_one_seed_is_compared_by_image_and_says_so():
    analysis = find(runs_of(seeds=1))
    known = analysis.numbers["difference_interval"]
    assert set(known) == {"", statistics.OVER_SAMPLES}
    assert any(note.startswith("One seed only") for note in analysis.notes)


@pytest.mark.parametrize("options", [{"seeds": 1}, {"spread": 0.0}, {"seeds": 2}])
def test_holes_are_no_error_and_nothing_is_random(options):
    one, two = find(runs_of(**options)), find(runs_of(**options))
    assert one.shown().equals(two.shown())
    assert not one.shown().isin(["None", "nan", "<NA>"]).any().any()
    assert to_svg(one.figure) == to_svg(two.figure)


def test_without_variants_there_is_nothing_to_say():
    assert find(made_up_runs()) is None
    records = made_up_records(seeds=2, failures=False, methods=VARIANTS)
    for record in records:
        record |= {"status": "oom", "reason": "out of memory", "metrics": []}
    assert find(made_up_runs(records)) is None
