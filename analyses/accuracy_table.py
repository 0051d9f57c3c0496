"""The comparison: every method with every T, its gain over uniform routing, and its rank."""

import math
from collections.abc import Container

from routebench import published
from routebench.analysis import (
    METHOD,
    Analysis,
    Column,
    Estimate,
    Main,
    Mean,
    Method,
    Row,
    Runs,
    analysis_of,
    cost,
    run,
    wording,
)
from routebench.analysis.answering import one_class_in_words
from routebench.analysis.comparison import (
    ACCURACY,
    RANK,
    Comparison,
    comparison_of,
    finished,
    gains_of,
    notes_on,
)
from routebench.analysis.named import gains_with_other_images, named_gains

P_VALUE = (
    "chance of a gain this large if there were none, corrected for all gains of this table together (Holm): it may be "
    "above 0.05 beside an interval without 0, which is for one gain alone"
)
P_NAMED = (
    "chance of a gain this large if there were none. Holm's correction is for all pre-specified comparisons together; "
    "for a gain that is none of these, it is for all gains of this table"
)
GAIN = "points, paired by seed; the 95 % interval is for this gain alone, not corrected as p is"
BALANCED = Mean.of("balanced_accuracy", "balanced")
PUBLISHED = "the paper's number for the same data set, network, method and T; conditions differ, see the notes"


@analysis_of("accuracy", "accuracy-table", place=10)
def accuracy_table(runs: Runs) -> Analysis | None:
    """Test accuracy of every method and T with its interval, the gain over uniform routing, rank and cost."""
    found = comparison_of(runs)
    if found.table.empty:
        return None
    table, balanced = found.table, runs.means("balanced_accuracy", as_trained=True)
    if len(balanced):
        known = dict(zip(balanced["method"], balanced["mean"], strict=True))
        table["balanced"] = table["method"].map(lambda method: known.get(method, Estimate()))
    named = named_gains(runs)
    chosen = None if named is None else {*named}
    return Analysis(
        title="Comparison",
        reading="How accurate is each method?",
        table=table,
        columns=_columns(found, chosen, balanced=len(balanced) > 0),
        notes=(
            *_of_classes(runs),
            *notes_on(runs, found),
            *_published_notes(runs, found),
            *cost.machines_told(runs),
        ),
        main=Main.of(
            "accuracy",
            "mean",
            "Test accuracy",
            gains=gains_of(runs),
            both=gains_with_other_images(runs),
            named=chosen,
        ),
    )


def _of_classes(runs: Runs) -> list[str]:
    """Notes on unbalanced classes, and on networks that answer one class alone."""
    shares = runs.values("commonest_share")
    told = f"Classes are unbalanced: always answering the commonest is right for {shares['value'].mean():.1f} %."
    return [*filter(None, (told if len(shares) else "", one_class_in_words(runs)))]


def _columns(found: Comparison, named: Container[Method] | None, *, balanced: bool) -> tuple[Column, ...]:
    columns = [METHOD, ACCURACY, *([BALANCED] if balanced else []), finished("runs that finished, of those planned")]
    if found.baseline is not None:
        columns += [
            Column("Gain over uniform routing", "gain", "+.2", GAIN),
            Column(
                "p (Holm)",
                "gain.p_holm",
                lambda row: _p_value(row, named),
                P_VALUE if named is None else P_NAMED,
                judges=True,
            ),
        ]
    columns += [
        RANK,
        Mean.of("parameters", text=",.0f", extra=True),
        Mean.of("fit_seconds", explained="mean time of one fit", text=_seconds, extra=True),
    ]
    if found.table["published"].notna().any():
        columns.append(Column("Published, %", "published", _published, PUBLISHED))
    return tuple(columns)


def _p_value(row: Row, named: Container[Method] | None) -> str:
    """The p; with `exploratory` where the suite pre-specified comparisons, and this is none of them."""
    told = wording.probability(row["gain"].p_holm)
    explores = named is not None and row["method"] not in named and not math.isnan(row["gain"].p_holm)
    return f"{told}, exploratory" if explores else told


def _seconds(row: Row) -> str:
    return wording.seconds(row["fit_seconds"])


def _published(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["published"]) else f"{row['published']:.2f} ({row['published_id']})"


def _published_notes(runs: Runs, found: Comparison) -> list[str]:
    known = published.load_published().set_index("id").to_dict("index")
    notes = [
        f"{name}: {known[name]['citation']}, {known[name]['where']}; {known[name]['conditions']}."
        for name in found.table["published_id"]
        if name
    ]
    labels = {method.label for method in found.contenders}
    others = sum(len(published.same_task(runs.data, label)) for label in labels) - len(notes)
    if others > 0:
        notes.append(
            f"{wording.plural(others, 'published number')} for these methods on {runs.data} come from another network "
            "or an unstated T. They are not comparable and not shown here."
        )
    return notes


if __name__ == "__main__":
    run(accuracy_table)
