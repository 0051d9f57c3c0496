import pytest

from routebench import published
from routebench.engine.suites import load_suite
from routebench.registry import suite_files


def test_every_published_number_is_there_once_with_its_source() -> None:
    table = published.load_published()
    assert tuple(table.columns) == published.COLUMNS
    assert len(table) == 124
    assert table["id"].is_unique
    assert table["value"].notna().all()
    assert (table[["source", "citation", "where", "metric", "unit"]] != "").all().all()


def test_identifiers_look_like_identifiers() -> None:
    table = published.load_published()
    for column in ("data", "method", "model"):
        assert table[column].str.fullmatch(r"[a-z0-9-]*").all(), column


def test_iterations_are_only_filled_where_the_paper_prints_one_number() -> None:
    table = published.load_published()
    stated = table[table["iterations"].notna()]
    assert (stated["iterations"].astype(str) == stated["printed_iterations"]).all()


@pytest.mark.parametrize(
    ("model", "method", "iterations", "accuracy"),
    [
        ("capsnet", "dynamic", 3, 99.32),
        ("capsnet-reconstruction", "dynamic", 3, 99.23),
        ("capsnet", "none", None, 99.29),
        ("capsnet-reconstruction", "none", None, 99.34),
    ],
)
def test_the_same_network_is_found(model: str, method: str, iterations: int | None, accuracy: float) -> None:
    found = published.find("mnist", model, method, iterations)
    assert found is not None
    assert found.accuracy == pytest.approx(accuracy)
    assert found.source == "Kiefer, Appendix A"


@pytest.mark.parametrize(
    ("data", "model", "method", "iterations"),
    [
        ("mnist5k", "capsnet", "dynamic", 3),  # a part of MNIST is not MNIST
        ("mnist", "capsnet-small", "dynamic", 3),
        ("mnist", "capsnet", "dynamic", 2),
        ("mnist", "capsnet", "em", 3),  # printed without iterations, for another network
        ("cifar10", "", "em", 2),  # a network that routebench has no name for
        ("", "", "", None),
    ],
)
def test_what_only_resembles_is_no_match(data: str, model: str, method: str, iterations: int | None) -> None:
    assert published.find(data, model, method, iterations) is None


def test_same_task_keeps_accuracies_and_errors_apart_from_other_metrics() -> None:
    rows = published.same_task("smallnorb", "em")
    assert len(rows) > 5
    assert set(rows["metric"]) == {"test error"}


def test_the_table_cannot_be_changed_by_its_reader() -> None:
    mine = published.load_published()
    mine["value"] = 0.0
    assert (published.load_published()["value"] != 0).any()


def test_how_routebench_measures_a_row_names_what_exists() -> None:
    table = published.load_published()
    assert set(table["relation"]) <= {"", "at least", "at most", "about"}
    assert set(table.loc[table["rival"] != "", "rival"]) <= set(table["id"])
    assert ((table["suite"] == "") == (table["preset"] == "")).all()
    assert (table.loc[table["at"] != "", "measured"] != "").all()
    assert set(table.loc[table["suite"] != "", "suite"]) <= set(suite_files())
    for suite, own in table[table["suite"] != ""].groupby("suite"):
        assert {name for preset in own["preset"] for name in preset.split("|")} <= {*load_suite(suite).presets}
    for row in table[table["rival"] != ""].to_dict("records"):
        rival = table[table["id"] == row["rival"]].iloc[0]
        assert (row["metric"], row["data"]) == (rival["metric"], rival["data"]), row["id"]


def test_what_each_number_is_stands_beside_it() -> None:
    table = published.load_published()
    kinds = {text: published.Statistic.read(text) for text in table["statistic"].unique()}
    assert kinds[""] == published.Statistic(runs=1, best=False)
    assert set(table.loc[table["uncertainty_kind"] == published.DEVIATION, "statistic"]) == {"mean of 5"}
    assert [str(published.Statistic.read(text)) for text in ("", "mean of 5", "best of 3", "best of several")] == [
        "one run",
        "the mean of 5 runs",
        "the best of 3 runs",
        "the best of several runs",
    ]
    assert table.set_index("id").loc["SMI-007", "spread"] == pytest.approx(0.005)  # printed: 0.00
    assert table["spread"].notna().equals(table["uncertainty_kind"] == published.DEVIATION)


@pytest.mark.parametrize("text", ["mean", "mean of several", "best of 0", "worst of 3", "mean of 5 runs", "best of"])
def test_a_kind_of_number_that_nobody_knows_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected 'mean of 5'"):
        published.Statistic.read(text)


def test_rounding_is_half_a_unit_of_the_last_printed_digit() -> None:
    table = published.load_published().set_index("id")
    assert table.loc["KIE-001", "rounding"] == pytest.approx(0.005)
    assert table.loc["HIN-001", "rounding"] == pytest.approx(0.05)
    assert table.loc["HIN-020", "rounding"] == pytest.approx(0.5)
