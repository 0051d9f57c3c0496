"""Methods over several data sets: mean ranks, Friedman's test, critical difference, Wilcoxon's tests with Holm."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import (
    ALPHA,
    Analysis,
    Column,
    Runs,
    analysis_of,
    best_first,
    figures,
    means_over_seeds,
    palette,
    run,
    wording,
)
from routebench.statistics import Ranking, cliques, friedman, nemenyi_difference, smallest_sign_flip_p, wilcoxon_holm


@analysis_of("accuracy", "accuracy-across-data", place=90, across=True)
def accuracy_across_data(parts: tuple[Runs, ...]) -> Analysis | None:
    """Mean rank of every method over data sets, and which of them differ."""
    scores, left_out = _scores(parts)
    if len(scores.index) < 2 or len(scores.columns) < 2:
        return None
    ranking = friedman(scores.to_numpy())
    critical = nemenyi_difference(len(scores.columns), ranking.data_sets)
    table = _table(scores, ranking, critical)
    return Analysis(
        title="Ranks over data sets",
        reading="Which methods rank best over all data sets?",
        table=table,
        figure=figures.figure_of(_draw, table, critical, height=1.0 + 0.27 * len(table)),
        columns=(
            Column("Method", "name", numeric=False),
            Column("Mean rank", "rank", ".2f", "1 is the best on every data set"),
            *(Column(f"{data}, %", f"accuracy {data}", ".2f", "mean over seeds") for data in scores.index),
            Column("p against first", "p_holm", "p", "Wilcoxon, Holm"),
        ),
        notes=tuple(_notes(ranking, critical, len(scores.columns), left_out)),
        alternative="Critical-difference diagram: mean ranks, joined where not told apart.",
    )


def _scores(parts: tuple[Runs, ...]) -> tuple[DataFrame, list[str]]:
    """Mean accuracy over seeds, (data sets, methods), of the methods measured on all of them; and the other methods.

    What lacks a seed on a data set was not measured there: the mean of the others may be too high for its rank.
    """
    columns = {}
    for runs in parts:
        found = best_first(means_over_seeds(runs.accuracies()), "mean")
        found["mean"] = [
            math.nan if of.missing else float(mean) for of, mean in zip(found["method"], found["mean"], strict=True)
        ]
        found["method"] = [method.anywhere for method in found["method"]]
        columns[runs.data] = dict(zip(found["method"], found["mean"], strict=True))
    scores = DataFrame.from_dict(columns, orient="index").dropna(axis="index", how="all")
    complete = scores.dropna(axis="columns")
    return complete, sorted(str(method) for method in set(scores) - set(complete))


def _table(scores: DataFrame, ranking: Ranking, critical: float) -> DataFrame:
    table = DataFrame({"name": list(scores), "rank": ranking.ranks})
    for data in scores.index:
        table[f"accuracy {data}"] = scores.loc[data].to_numpy(dtype=float)
    best = int(np.argmin(ranking.ranks))
    table["p_holm"] = wilcoxon_holm(scores.to_numpy())[best]
    table["beyond_critical"] = table["rank"] - table["rank"].min() > critical
    return table.sort_values("rank", kind="stable").reset_index(drop=True)


def _equals(text: str) -> str:
    return text if text.startswith("<") else f"= {text}"


def _notes(ranking: Ranking, critical: float, methods: int, left_out: list[str]) -> list[str]:
    sets, p_value = ranking.data_sets, _equals(wording.probability(ranking.p_value))
    statistic = "" if math.isinf(ranking.statistic) else f"F = {ranking.statistic:.2f}, "
    notes = []
    if sets == 2:
        notes.append(
            "Two data sets cannot show anything: of two equal methods, one is ahead on both in half of all cases. "
            "The ranks describe these two data sets only."
        )
    notes += [
        f"Friedman's test in Iman and Davenport's form: {statistic}p {p_value}. Each data set counts once.",
        f"Bars join methods less than Nemenyi's critical difference apart: {critical:.2f} ranks at 5 %.",
        (
            "Nemenyi's verdict on two methods depends on which others are ranked with them (Benavoli et al. 2016): "
            "where it and the p of Wilcoxon's test in the table disagree, go by the latter. Diagram: Demsar 2006."
        ),
    ]
    pairs, smallest = methods * (methods - 1) // 2, smallest_sign_flip_p(sets)
    if smallest * pairs >= ALPHA:
        notes.append(
            f"With {sets} data sets Wilcoxon's test gives no p below {smallest:.2g}, before Holm's correction over "
            f"{wording.plural(pairs, 'pair')}: it can tell nothing apart here, and the ranks are a description."
        )
    if left_out:
        notes.append(
            f"Left out, because not measured on every data set with all of their seeds: {wording.listed(left_out, 8)}."
        )
    return notes


def _draw(axes: Axes, table: DataFrame, critical: float) -> None:
    ranks = [float(rank) for rank in table["rank"]]
    axes.set(xlim=(0.7, len(table) + 0.3), ylim=(len(table) - 0.4, -1.6))
    axes.hlines(range(len(table)), 0.7, ranks, color=palette.MUTED, linewidth=0.8, linestyles=":")
    axes.plot(ranks, range(len(table)), "o", color=palette.INK, markersize=6)
    for number, (first, last) in enumerate(cliques(ranks, critical)):
        members = [place for place, rank in enumerate(ranks) if first <= rank <= last]
        column = 1.04 + 0.03 * number  # beside the axes, as a share of their width
        ends = [members[0] - 0.25, members[-1] + 0.25]
        axes.plot(
            [column, column], ends, color=palette.INK, linewidth=3, transform=axes.get_yaxis_transform(), clip_on=False
        )
    width = min(critical, len(table) - 1.0)
    axes.annotate(
        "", (1, -0.9), (1 + width, -0.9), arrowprops={"arrowstyle": "|-|", "color": palette.INK, "mutation_scale": 3}
    )
    beyond = "" if width == critical else " (wider than shown)"
    axes.text(1, -1.1, f"critical difference {critical:.2f}{beyond}", fontsize=9, va="bottom")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks(range(len(table)), [*map(str, table["name"])])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("mean rank (1 is best)")


if __name__ == "__main__":
    run(accuracy_across_data)
