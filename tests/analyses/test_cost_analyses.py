"""The analyses of the suite `cost` on made-up runs with known slopes, on runs with holes, and on nothing."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pandas import DataFrame, concat

from routebench.analysis import Analysis, Runs, wording
from routebench.analysis._result import place_of, reads
from routebench.analysis.cost import (
    MEGABYTE,
    costs_of,
    layers_by_size,
    measured_elsewhere,
    noise_floor,
    part_in_words,
    parts_of,
    slope_over_iterations,
    step_costs,
)
from routebench.analysis.figures import to_svg
from routebench.analysis.palette import colours_of
from routebench.registry import analyses
from routebench.report._headline import headline_of
from tests.analysis.made_up_runs import made_up_runs

FOR_COST = ["cost-table", "cost-by-iterations", "cost-memory", "cost-by-batch", "cost-by-size", "failures"]
SLOPES = {"dynamic": 4.0, "em": 9.0}  # ms for one more iteration at batch 32, on the reference


def runs_of(
    steps: tuple[int, ...] = (1, 2, 3, 4, 5),
    batches: tuple[int, ...] = (32, 128),
    backends: tuple[str, ...] = ("reference", "fused"),
    noise: float = 0.01,
    slopes: dict[str, float] | None = None,
    sizes: tuple[tuple[int, int], ...] = (),
) -> Runs:
    """One seed: fused is five times as fast and never measured for em; memory grows by 2 MB per iteration for em."""
    rng, rows, planned = np.random.default_rng(0), [], []
    slopes = SLOPES if slopes is None else slopes
    for label in [*slopes, "uniform"]:
        for iterations in steps if label in slopes else (None,):
            cell = {"cell": f"{label}{iterations}", "label": label, "iterations": iterations, "seed": 0}
            cell |= {"role": "method" if label in slopes else "control", "status": "ok", "reason": ""}
            cell |= {"model": "capsnet-small"}
            planned.append(cell)

            def add(metric: str, value: float, cell=cell, **where: object) -> None:
                rows.append({**cell, "metric": metric, "value": value, **where})

            add("peak_flops", 1e11)
            of_tokens = ((f"tokens {tokens} {parents}", tokens * parents) for tokens, parents in sizes)
            for part, size in (("network", 3), ("layers", 1), ("dense 1152", 2), *of_tokens):
                for batch in batches:
                    add("training_floor", size * batch / 32, part=part, batch=batch)
                for backend in backends:
                    if backend == "fused" and label != "dynamic":
                        add("absent", 1, part=part, backend=backend, why="no compiler")
                        continue
                    for batch in batches:
                        where = {"part": part, "backend": backend, "batch": batch}
                        extra = slopes.get(label, 0) * ((iterations or 1) - 1)
                        quick = 5 if backend == "fused" else 1
                        for repeat in (0, 1):
                            for metric, share in (("training_time", 1.0), ("inference_time", 0.3)):
                                exact = share * size * batch / 32 * (10 + extra) / quick
                                add(metric, exact * math.exp(noise * rng.normal()), repeat=repeat, **where)
                        grown = 2 * (iterations or 1) if label == "em" else 0
                        add("training_memory", (5 + grown) * MEGABYTE * batch / 32, **where)
                    if part == "network":
                        add("largest_batch", 300, part=part, backend=backend, budget_mb=256)
                        add("largest_batch_tried", 2048, part=part, backend=backend, budget_mb=256)
    names = {"suite": "cost", "preset": "quick", "data": "mnist5k", "model": "capsnet-small", "protocol": "cost"}
    results = DataFrame(rows).astype({"iterations": "Int64"})
    own = ["part", "backend", "batch", "repeat", "budget_mb", "why"]
    results = results.reindex(columns=[*(name for name in results if name not in own), *own])
    results[own] = results[own].convert_dtypes()
    table = DataFrame(planned).astype({"iterations": "Int64"})
    return Runs(**names, results=results, planned=table, colours=colours_of(table["label"]))


@pytest.fixture(scope="module")
def runs() -> Runs:
    return runs_of()


def test_the_analyses_of_the_cost_suite_stand_in_this_order() -> None:
    names = sorted((name for name in analyses if reads(analyses[name], "cost")), key=lambda n: place_of(analyses[n]))
    assert names == FOR_COST
    assert not any(reads(analyses[name], "accuracy") for name in FOR_COST[:-1])


@pytest.mark.parametrize("name", ["cost-by-iterations", "cost-memory", "cost-by-batch"])
def test_the_figure_names_every_method(name: str, runs: Runs) -> None:
    drawn = to_svg(analyses[name](runs).figure)
    assert all(f">{label}</text>" in drawn for label in ("Dynamic", "EM"))


@pytest.mark.parametrize("name", FOR_COST[:-1])
@pytest.mark.parametrize(
    "holes", ["one T", "one batch", "one back end", "no times", "nothing", "accuracy", "one repeat"]
)
def test_holes_in_the_results_are_no_error(name: str, holes: str) -> None:
    found = {
        "one T": lambda: runs_of(steps=(1,)),
        "one batch": lambda: runs_of(batches=(32,)),
        "one back end": lambda: runs_of(backends=("reference",)),
        "accuracy": made_up_runs,
    }.get(holes, runs_of)()
    if holes == "nothing":
        empty = found.results.iloc[:1].assign(metric=None, value=math.nan)
        found = replace(found, results=empty.drop(columns=["part", "backend", "batch", "repeat", "budget_mb", "why"]))
    if holes == "no times":
        found = replace(found, results=found.results[found.results["metric"] == "absent"])
    if holes == "one repeat":
        found = replace(found, results=found.results[found.results["repeat"].fillna(0) == 0])
    analysis: Analysis | None = analyses[name](found)
    if holes in ("nothing", "no times", "accuracy"):
        assert analysis is None
    if analysis is not None:
        assert len(analysis.shown()) == len(analysis.numbers)
        assert analysis.figure is None or "<svg" in to_svg(analysis.figure)


def test_costs_of_another_machine_are_left_out_and_told(runs: Runs) -> None:
    mixed = replace(runs, machine=lambda cell: "H100" if cell.startswith("em") else "Example CPU")
    (told,) = measured_elsewhere(mixed)
    assert told.startswith("Costs are those of runs on Example CPU. Left out are 5 runs of EM on H100: ")
    assert {str(method) for method in costs_of(mixed).table["method"]} == {"Dynamic", "Uniform routing"}
    assert "EM" not in {method.title for method in step_costs(mixed, "network")[0]["method"]}
    table = analyses["cost-table"](mixed)
    assert told in table.notes and "EM" not in table.reading
    alone = replace(runs, machine=lambda cell: "" if cell.startswith("em") else "Example CPU")
    assert (measured_elsewhere(alone), len(costs_of(alone).table)) == ((), len(costs_of(runs).table))


def by_label(runs: Runs) -> DataFrame:
    table = costs_of(runs).table
    return table.assign(label=[method.label for method in table["method"]]).set_index(
        ["label", "part", "backend", "batch"]
    )


def test_known_slopes_are_found_within_their_intervals(runs: Runs) -> None:
    table = by_label(runs)
    for (label, backend), expected in {
        ("dynamic", "reference"): 4,
        ("dynamic", "fused"): 0.8,
        ("em", "reference"): 9,
    }.items():
        for part, size in (("layers", 1), ("dense 1152", 2), ("network", 3)):
            row = table.loc[(label, part, backend, 128)]
            extra = row["ms_extra"]
            assert extra.mean == pytest.approx(4 * size * expected, rel=0.1)
            assert extra.low < extra.mean < extra.high
            assert extra.high - extra.low < 0.3 * extra.mean
            assert row["ms"] == pytest.approx(4 * size * 10 / (5 if backend == "fused" else 1), rel=0.03)
            assert row["beyond_noise"]
            assert extra.n == 4  # one of each T from 2 on, whatever the number of repeats
    assert table.loc[("em", "layers", "reference", 32), "mb_extra"].mean == pytest.approx(2)
    assert table.loc[("dynamic", "layers", "reference", 32), "mb_extra"].mean == pytest.approx(0)
    distance = table.loc[("dynamic", "layers", "reference", 32), "distance"]
    assert distance == pytest.approx(10 + 4 * 4, rel=0.03)  # the time at T = 5, over a floor of 1 ms
    assert not table.loc[("uniform", "layers", "reference", 32), "ms_extra"].known


def test_repeats_in_one_process_make_no_interval_narrower(runs: Runs) -> None:
    once = runs.results[runs.results["repeat"].fillna(0) == 0]
    again = once[once["repeat"].notna()].assign(repeat=1)
    of_one, of_two = (by_label(replace(runs, results=rows)) for rows in (once, concat([once, again])))
    for place in of_one.index:
        assert of_two.loc[place, "ms_extra"] == of_one.loc[place, "ms_extra"] or place[0] == "uniform"


def test_without_an_interval_the_noise_floor_decides() -> None:
    for steps, slope, beyond in (((2, 3), 4.0, True), ((2, 3), 0.001, False), ((1, 2), 4.0, True)):
        row = by_label(runs_of(steps=steps, slopes={"em": slope})).loc[("em", "layers", "reference", 32)]
        assert row["ms_extra"].n == 2 and not row["ms_extra"].has_limits
        assert bool(row["beyond_noise"]) is beyond


def test_the_first_iteration_bends_no_line() -> None:
    runs = runs_of(noise=0.0)
    first = (runs.results["iterations"] == 1) & runs.results["metric"].isin(["training_time", "training_memory"])
    bent = replace(runs, results=runs.results.assign(value=runs.results["value"].where(~first, 0.001)))
    table = by_label(bent)
    row = table.loc[("em", "layers", "reference", 32)]
    assert (row["ms_extra"].mean, row["mb_extra"].mean) == (pytest.approx(9), pytest.approx(2))
    assert row["ms"] == pytest.approx(0.001)


def test_a_slope_is_the_textbooks() -> None:
    found = slope_over_iterations([1, 2, 3, 4], [1.0, 3.0, 4.0, 6.0])
    # sum (x - 2.5)(y - 3.5) = 8 over sum (x - 2.5)^2 = 5; residuals -0.1, 0.3, -0.3, 0.1; t(2) = 4.3027
    margin = 4.302653 * math.sqrt(0.2 / 2 / 5)
    assert found.mean == pytest.approx(1.6)
    assert (found.low, found.high) == (pytest.approx(1.6 - margin, abs=1e-5), pytest.approx(1.6 + margin, abs=1e-5))
    assert found.n == 4
    assert math.isnan(slope_over_iterations([1, 2], [1.0, 3.0]).low)
    assert slope_over_iterations([1, 2], [1.0, 3.0]).mean == pytest.approx(2)
    assert not slope_over_iterations([2, 2], [1.0, 3.0]).known
    assert slope_over_iterations([], []).n == 0


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, steps = np.random.default_rng(1), np.repeat([1, 2, 3, 4, 5], 2)
    found = [slope_over_iterations(steps, 3 * steps + rng.normal(size=10)) for _ in range(1000)]
    assert np.mean([one.low <= 3 <= one.high for one in found]) == pytest.approx(0.95, abs=0.02)


def test_the_noise_floor_is_that_of_the_pairs() -> None:
    for noise in (0.02, 0.1):
        found, pairs = noise_floor(runs_of(noise=noise).results)
        assert found == pytest.approx(math.expm1(1.96 * math.sqrt(2) * noise), rel=0.25)
        assert pairs == 2 * 3 * 2 * (5 * 2 + 5 + 1)  # works, parts, batches; methods with T and back ends


def test_a_step_costs_the_least_that_was_measured_and_its_noise_is_that_of_halves() -> None:
    runs = runs_of(noise=0.05)
    again = runs.results.assign(cell=runs.results["cell"] + "b", seed=1, value=runs.results["value"] * 1.5)
    planned = pd.concat([runs.planned, runs.planned.assign(cell=runs.planned["cell"] + "b", seed=1)])
    both = replace(runs, results=pd.concat([runs.results, again]), planned=planned)
    found, noise = step_costs(both, "network")
    one, _ = step_costs(runs, "network")
    least = {str(row["method"]): row["mean"].mean for row in one.to_dict("records")}
    assert {str(row["method"]): row["mean"].mean for row in found.to_dict("records")} == least  # slower seeds add none
    assert {row["mean"].n for row in found.to_dict("records")} == {2}
    assert 0.01 < noise < 0.4
    assert step_costs(runs_of(noise=0.0), "network")[1] == pytest.approx(0)
    halves = both.results[both.results["repeat"].fillna(0) == 0]
    assert math.isnan(step_costs(replace(both, results=halves), "network")[1])
    assert step_costs(runs, "nowhere")[0].empty


def test_the_first_screen_has_multiples_of_uniform_routing_and_digits_above_noise() -> None:
    main = analyses["cost-table"](runs_of(noise=0.0)).main
    told = {str(method): (text, main.small[method]) for method, text in main.shown.items()}
    assert told["Uniform routing"] == ("1.0 ×", "inference 1.0 ×, 20 MB")
    assert told["EM, T = 2"] == ("1.9 ×", "inference 1.9 ×, 36 MB")  # 19 ms by 10 ms
    assert "; shortest times closer than 0 % are noise" in main.explained
    rough = analyses["cost-table"](runs_of(noise=0.5, slopes={"em": 30.0})).main
    assert {text.removesuffix(" ×").count(".") for text in rough.shown.values()} == {0}
    alone = runs_of()
    alone = replace(alone, results=alone.results[alone.results["label"] != "uniform"])
    assert not analyses["cost-table"](alone).main.shown


def test_a_rise_below_the_noise_floor_is_not_claimed() -> None:
    noisy = runs_of(noise=0.3, slopes={"dynamic": 0.05, "em": 0.02})
    found = costs_of(noisy)
    assert not found.table["beyond_noise"].any()
    reading = analyses["cost-table"](noisy).reading
    assert "What one of Dynamic and EM costs does not stand out from noise" in reading
    shown = analyses["cost-table"](noisy).shown()
    assert shown.loc[shown["Method"] == "EM", "ms per iteration"].str.endswith("(noise)").all()


def test_the_reading_names_cost_back_end_and_noise(runs: Runs) -> None:
    reading = analyses["cost-table"](runs).reading
    assert reading.startswith(
        "One more iteration costs 3.2 ms and less than 0.1 MB with Dynamic and 36 ms and 8.0 MB with EM (reference)"
    )
    assert " (routed layers, batch 128). Single times closer than " in reading
    assert str(headline_of(runs)) == "\n".join(wording.sentences(reading))


def test_what_is_absent_is_said_with_its_reason(runs: Runs) -> None:
    assert "Not measured, fused for EM and Uniform routing: no compiler." in analyses["cost-table"](runs).notes


def test_the_largest_batch_stands_in_the_rows_of_the_network(runs: Runs) -> None:
    shown = analyses["cost-table"](runs).shown()
    assert set(shown.loc[shown["What"] == "whole network", "Largest batch"]) == {"300"}
    assert set(shown.loc[shown["What"] != "whole network", "Largest batch"]) == {"–"}
    everything = runs.results.assign(value=runs.results["value"].where(runs.results["metric"] != "largest_batch", 2048))
    shown = analyses["cost-table"](replace(runs, results=everything)).shown()
    assert set(shown.loc[shown["What"] == "whole network", "Largest batch"]) == {"≥ 2,048"}


def test_parts_come_from_the_layers_to_the_network() -> None:
    parts = DataFrame({"part": ["network", "dense 1152", "layers", "dense 128"]})
    assert parts_of(parts) == ["layers", "dense 128", "dense 1152", "network"]
    assert part_in_words("dense 1152") == "one layer, 1,152 children"


def test_layers_of_tokens_have_a_table_and_a_figure_of_their_own(runs: Runs) -> None:
    sizes = ((9, 10), (9, 100), (49, 10), (49, 100))
    found = runs_of(sizes=sizes, noise=0.0)
    table = layers_by_size(found)
    assert len(table) == 3 * len(sizes)
    for label, own in table.groupby(table["method"].map(lambda method: method.label)):
        assert [*zip(own["tokens"], own["parents"], strict=True)] == [(9, 10), (49, 10), (9, 100), (49, 100)]
        quick, extra = 5 if label == "dynamic" else 1, 4 * SLOPES.get(label, 0)
        size = own["tokens"] * own["parents"]
        assert own["ms"].to_numpy() == pytest.approx(size * 4 * (10 + extra) / quick)  # batch 128, T = 5
        assert own["distance"].to_numpy() == pytest.approx(own["ms"] / (4 * size))
        assert own["mb"].to_numpy() == pytest.approx((5 + (10 if label == "em" else 0)) * 4)
    drawn = to_svg(analyses["cost-by-size"](found).figure)
    assert all(text in drawn for text in ("10 parents", "100 parents", "least time", "EM"))
    assert layers_by_size(runs).empty and analyses["cost-by-size"](runs) is None
    for name in ("cost-table", "cost-by-iterations", "cost-memory"):  # which these layers do not enter
        assert analyses[name](found).shown().equals(analyses[name](runs_of(noise=0.0)).shown())
    assert part_in_words("tokens 196 1000") == "one layer, 196 tokens, 1,000 parents"
    answer = analyses["cost-table"](found)  # the fastest has the fused back end
    largest = table[(table["tokens"] == 49) & (table["parents"] == 100)]
    least, most = (f"{float(one):,.0f}" for one in (largest["ms"].min(), largest["ms"].max()))
    told = f"With 49 tokens and 100 parents, a training step of one layer takes {least} ms (Dynamic) to {most} ms (EM)."
    assert answer.reading.startswith(told)
    assert answer.main.title == "One layer, 49 tokens, 100 parents"
    without = replace(found, results=found.results[found.results["metric"] != "training_time"])
    assert analyses["cost-table"](without) is None


def test_missing_coordinates_are_no_error(runs: Runs) -> None:
    bare = runs.results.assign(why=pd.NA).drop(columns=["budget_mb"])
    assert len(costs_of(replace(runs, results=bare)).table) == len(costs_of(runs).table)
