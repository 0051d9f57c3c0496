"""The comparison: every method with every T, its gain over uniform coupling, and what can be told apart."""

import math

import pandas as pd

from routebench import published
from routebench.analysis import Analysis, Column, Main, Row, Runs, analysis_of, run, wording
from routebench.analysis.comparison import Comparison, compare
from routebench.statistics import CONSTANT, OVER_SAMPLES, OVER_SEEDS, OVER_SEEDS_LOGIT

P_VALUE = (
    "chance of a gain this large if there were none, corrected for all gains of this table together (Holm): it may be "
    "above 0.05 beside an interval without 0, which is for one gain alone"
)
GAIN = "points, paired by seed; the 95 % interval is for this gain alone, not corrected as p is"
GROUP = (
    "methods of one group cannot be told apart from its best by these runs; Holm over all pairs at 5 %, which asks for "
    "more than the comparison with uniform alone; a dash where no test could be made"
)
FAMILIES = (
    "The interval of a gain is for that gain alone. p is corrected for all gains of this table together, the group for "
    "all pairs of methods. The more is asked at once, the less is significant, so that the three may disagree."
)
SIGNS = {OVER_SEEDS: "±", OVER_SEEDS_LOGIT: "[ ]", OVER_SAMPLES: "[ ]"}
PUBLISHED = "the paper's number for the same data set, network, method and T; conditions differ, see the notes"


@analysis_of("accuracy", "accuracy-table", place=10)
def accuracy_table(runs: Runs) -> Analysis | None:
    """Test accuracy of every method and T with its interval, the gain over `uniform`, rank group and cost."""
    found = compare(runs)
    if found.table.empty:
        return None
    return Analysis(
        title="Comparison",
        reading=_reading(found),
        table=found.table,
        columns=_columns(found),
        notes=(*_notes(found), *_published_notes(runs, found)),
        main=Main("mean", "Test accuracy", "%", higher_is_better=True),
    )


def _accuracy(row: Row) -> str:
    return wording.mean_with_interval(row["mean"], row["low"], row["high"], row["interval"])


def _published(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["published"]) else f"{row['published']:.2f} ({row['published_id']})"


def _columns(found: Comparison) -> tuple[Column, ...]:
    columns = [
        Column(
            "Method", "name", wording.marked, "routing method, and T, the iterations it was trained with", numeric=False
        ),
        Column("Accuracy, %", "mean", _accuracy, "mean test accuracy with its 95 % interval"),
        Column(
            "Seeds", "n_ok", lambda row: f"{row['n_ok']} / {row['n_planned']}", "runs that finished, of those planned"
        ),
    ]
    if found.baseline is not None:
        columns += [
            Column("Gain over uniform", "gain", wording.gain_with_interval, GAIN),
            Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), P_VALUE),
        ]
    columns += [
        Column("Group", "group", lambda row: wording.whole(row["group"]), GROUP),
        Column("Parameters", "parameters", lambda row: wording.count(row["parameters"]), "trained numbers", extra=True),
        Column(
            "Training, s",
            "fit_seconds",
            lambda row: wording.seconds(row["fit_seconds"]),
            "mean time of one fit",
            extra=True,
        ),
    ]
    if found.table["published"].notna().any():
        columns.append(Column("Published, %", "published", _published, PUBLISHED))
    return tuple(columns)


def _reading(found: Comparison) -> str:
    measured = found.measured
    if measured.empty:
        return "No run finished, so nothing can be compared."
    best = measured.iloc[0]
    reading = f"{best['name']} has the highest mean accuracy, {_accuracy(best.to_dict())} %"
    if len(measured) == 1:
        return f"Nothing can be compared yet: only {best['name']} has finished, with {_accuracy(best.to_dict())} %."
    if pd.isna(best["group"]):
        return f"{reading}; no test could compare it with the others."
    others = [str(name) for name in measured.loc[measured["group"] == 1, "name"] if name != best["name"]]
    if others:
        return f"{reading}; these runs cannot tell it apart from {wording.listed(others, 5)}."
    tested = "all others" if measured["group"].notna().all() else "all others that could be tested"
    return f"{reading}, and is significantly ahead of {tested}."


def _notes(found: Comparison) -> list[str]:
    seen = set(found.measured["interval"])
    notes = [f"{sign} after a mean: {wording.interval_in_words(kind)}." for kind, sign in SIGNS.items() if kind in seen]
    if not math.isnan(found.detectable):
        notes.append(
            f"Smallest detectable difference: with {wording.plural(found.seeds, 'seed')}, a true gain of "
            f"{found.detectable:.2f} points is found 8 times in 10 by one paired t-test at 5 %. Correcting for "
            f"many methods asks for more."
        )
    elif OVER_SAMPLES in set(found.table["gain_interval"]):
        notes.append(
            "One seed only: gains are compared on the same test images (McNemar's exact test). They hold for these "
            "trained networks; another seed may order them otherwise."
        )
    if found.baseline is not None and found.table["gain"].notna().sum() > 1:
        notes.append(FAMILIES)
    if CONSTANT in {*found.table["interval"], *found.table["gain_interval"]}:
        notes.append("An interval of width zero comes from seeds that gave the same value; it is no certainty.")
    if found.baseline is None:
        notes.append("No gain over uniform coupling can be given: the control `uniform` has no finished run.")
    return notes


def _published_notes(runs: Runs, found: Comparison) -> list[str]:
    notes = []
    for row in found.table.to_dict("records"):
        if row["published_id"]:
            known = published.load_published().set_index("id").loc[row["published_id"]]
            notes.append(f"{row['published_id']}: {known['citation']}, {known['where']}; {known['conditions']}.")
    elsewhere = {name: len(published.same_task(runs.data, name)) for name in sorted(set(found.table["label"]))}
    others = sum(elsewhere.values()) - int((found.table["published_id"] != "").sum())
    if others > 0:
        notes.append(
            f"{wording.plural(others, 'published number')} for these methods on {runs.data} come from another network "
            "or an unstated T. They are not comparable and not shown here."
        )
    return notes


if __name__ == "__main__":
    run(accuracy_table)
