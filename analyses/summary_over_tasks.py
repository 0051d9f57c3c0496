"""Differences to uniform routing over several data sets or suites, from all runs together."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Estimate,
    Row,
    Runs,
    Verdict,
    analysis_of,
    best_first,
    data_sets_of,
    figures,
    palette,
    run,
    wording,
)
from routebench.analysis.named import NamedPair, named_gains, named_pairs
from routebench.data_names import few_of
from routebench.statistics import (
    interquartile_mean_over_tasks,
    performance_profile,
    probability_of_improvement,
    shared_differences,
)

Tasks = list[NamedPair]
"""One method's comparisons with uniform routing, by task."""


LOST = (
    "A method of whose seeds some have no result stands behind the others, and is not called better where it lost any: "
    "these may be its bad ones."
)


@analysis_of("", "summary-over-tasks", place=91, folder=True)
def summary_over_tasks(parts: tuple[Runs, ...]) -> Analysis | None:
    """Differences to uniform routing: interquartile mean, chance of improvement, profiles (Agarwal et al. 2021)."""
    asked = {runs.name: (runs, _against_baseline(runs)) for runs in _once_a_task(parts)}
    tasks = {name: pairs for name, (_, pairs) in asked.items() if pairs}
    if len(tasks) < 2:
        return None
    first, *others = tasks.values()
    shared = [label for label in first if all(label in own for own in others)]
    by_label = {label: [own[label] for own in tasks.values()] for label in shared}
    if not by_label:
        return None
    untested = {label for runs, _ in asked.values() for label in _untested(runs)}
    table = DataFrame([{**_row(label, pairs), "untested": label in untested} for label, pairs in by_label.items()])
    table = best_first(best_first(table, "iqm"), "present")
    return Analysis(
        title="Over all tasks",
        reading="Which methods are better than uniform routing over all tasks together?",
        table=table,
        figure=figures.figure_of(_draw, by_label, _colours(parts), height=4.0),
        columns=(
            Column("Method", "label", lambda row: f"{row['title']}{_counted(row)}", numeric=False),
            Column(
                "Interquartile mean, points",
                "iqm",
                "+.2",
                "of differences to uniform routing, the middle half of all runs",
            ),
            Column(
                "Better than uniform routing, %",
                "improvement",
                "[].0",
                "chance that a run beats one of it",
            ),
            Column("Verdict", "iqm", _verdict, "by the interval of each method for itself", numeric=False, judges=True),
            Column("Runs", "runs", explained="that both finished"),
        ),
        notes=(
            f"{len(tasks)} tasks: {wording.listed(list(tasks), len(tasks))}. Each method at its best T of each task.",
            (
                "Limits: 95 %, runs drawn again within each task, if each has five or more; with five of each of two "
                "tasks they hold in 90 of 100 cases. Each task counts the same, however many runs it has. Tasks are "
                "not drawn: other tasks may say otherwise."
            ),
            *((LOST,) if (table["finished"] < table["planned"]).any() else ()),
            *_left_open(table),
        ),
        alternative="Performance profiles: the share of runs that gain more than so many points over uniform routing.",
    )


def _once_a_task(parts: Iterable[Runs]) -> list[Runs]:
    """Those with pre-specified comparisons, one part for each data set and network: test images count once.

    It is the strongest preset; of equals, the one that compares most. All training images go before few.
    """
    tasks: dict[tuple[str, str], list[Runs]] = {}
    for runs, data in data_sets_of(runs for runs in parts if runs.primary).items():
        tasks.setdefault((data, runs.model), []).append(runs)

    def worth(runs: Runs) -> tuple[bool, int, int]:
        return few_of(runs.data)[0] is None, runs.strength.tier, len(runs.primary["pairs"])

    return [max(own, key=worth) for own in tasks.values()]


def _against_baseline(runs: Runs) -> dict[str, NamedPair]:
    """Comparisons with uniform routing that have results, by label; none of a method named with several T."""
    found = [pair for pair in named_pairs(runs) if pair.theirs.method.is_base and pair.seeds]
    often = Counter(pair.ours.method.label for pair in found)
    return {pair.ours.method.label: pair for pair in found if often[pair.ours.method.label] == 1}


def _untested(runs: Runs) -> set[str]:
    """Labels of methods whose comparison with uniform routing allows no test."""
    gains = named_gains(runs) or {}
    return {method.label for method, gain in gains.items() if gain.known and gain.verdict is Verdict.UNTESTABLE}


def _left_open(table: DataFrame) -> list[str]:
    titles = [*table.loc[table["untested"], "title"]]
    told = "Not called better or worse, as no test is possible in one of the tasks"
    return [f"{told}: {wording.listed(titles, 8)}."] if titles else []


def _gains(pairs: Tasks) -> list[NDArray[np.float64]]:
    return [shared_differences(pair.ours.accuracies, pair.theirs.accuracies) for pair in pairs]


def _row(label: str, pairs: Tasks) -> dict[str, object]:
    ours = [list(pair.ours.accuracies.values()) for pair in pairs]
    theirs = [list(pair.theirs.accuracies.values()) for pair in pairs]
    gains = _gains(pairs)
    return {
        "label": label,
        "title": pairs[0].ours.method.title,
        "iqm": Estimate.of(interquartile_mean_over_tasks(gains)),
        "improvement": Estimate.of(probability_of_improvement(ours, theirs), 100),
        "runs": sum(map(len, gains)),
        "finished": sum(len(pair.ours.method.finished) for pair in pairs),
        "planned": sum(len(pair.ours.method.planned) for pair in pairs),
        "present": min(1 - pair.ours.method.missing for pair in pairs),
        "lost": any(pair.ours.method.lost & pair.theirs.method.finished for pair in pairs),
    }


def _counted(row: Row) -> str:
    """` (9 of 10 seeds)` where some have no result."""
    done, planned = row["finished"], row["planned"]
    return f" ({done} of {wording.plural(planned, 'seed')})" if done < planned else ""


def _verdict(row: Row) -> str:
    """`better` or `worse` than uniform routing; a dash where neither is shown, or no test is possible."""
    if row["untested"]:
        return wording.NOTHING
    better = row["iqm"].low > 0 and not row["lost"]
    return Verdict.WORSE if row["iqm"].high < 0 else Verdict.BETTER if better else wording.NOTHING


def _colours(parts: tuple[Runs, ...]) -> dict[str, str]:
    return {label: colour for runs in parts for label, colour in runs.colours.items()}


def _draw(axes: Axes, by_label: dict[str, Tasks], colours: dict[str, str]) -> None:
    gains = {label: _gains(pairs) for label, pairs in by_label.items()}
    every = np.concatenate([task for own in gains.values() for task in own])
    levels = np.linspace(float(every.min()), float(every.max()), 200)
    for label, own in gains.items():
        axes.plot(levels, 100 * performance_profile(own, levels), color=colours.get(label, palette.MUTED), label=label)
    axes.axvline(0, color=palette.INK, linewidth=1)
    axes.set_xlabel("points above uniform routing")
    axes.set_ylabel("runs that gain more, %")
    axes.legend(fontsize=8, frameon=False)


if __name__ == "__main__":
    run(summary_over_tasks)
