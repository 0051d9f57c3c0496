"""Errors on novel viewpoints of networks that are as good as the CNN on familiar ones."""

import math
from collections.abc import Callable

from pandas import DataFrame

from routebench import published
from routebench.analysis import Analysis, Column, Main, Row, Runs, analysis_of, run, wording
from routebench.analysis.means import value_with_interval
from routebench.analysis.viewpoints import FAMILIAR, HELD_OUT, LAST, MATCHINGS, REFERENCE, TOLERANCE, summary

ALPHA = 0.05
BY = {
    HELD_OUT: ("held-out match", "at the epoch whose held-out accuracy is nearest to that of the last epoch of cnn"),
    FAMILIAR: (
        "test match",
        "at the epoch whose accuracy on familiar test images is nearest to that of cnn: this looks at test labels",
    ),
}


@analysis_of("viewpoint", "viewpoint-table", place=10)
def viewpoint_table(runs: Runs) -> Analysis | None:
    """Per method: novel error at held-out and at familiar accuracy equal to the CNN's, and at the last epoch."""
    table = summary(runs)
    if table.empty:
        return None
    return Analysis(
        title="Errors on novel viewpoints, at equal accuracy on familiar ones",
        reading=_reading(table),
        table=table,
        columns=_columns(),
        notes=(*_notes(table), *_published_notes(runs)),
        main=Main(f"{HELD_OUT}_novel", "Novel viewpoints, error", "%", higher_is_better=False),
    )


def _columns() -> tuple[Column, ...]:
    columns = [
        Column("Method", "name", wording.marked, "routing method, and T, the iterations it was trained with", False)
    ]
    for matching, (title, explained) in BY.items():
        columns += [
            Column(f"Novel error, %, {title}", f"{matching}_novel", _shown(f"{matching}_novel"), explained),
            Column(
                f"Less than {REFERENCE}, %, {title}",
                f"{matching}_reduction",
                _shown(f"{matching}_reduction"),
                f"reduction of the novel error, in % of that of {REFERENCE} with the same seed",
            ),
            Column(
                f"Gap, {title}",
                f"{matching}_gap",
                lambda row, key=f"{matching}_gap": wording.signed(row[key]),  # type: ignore[misc]
                f"points by which it was still better than {REFERENCE} where they were matched",
                extra=True,
            ),
        ]
    columns += [
        Column("Novel error, %, last epoch", f"{LAST}_novel", _shown(f"{LAST}_novel"), "unmatched"),
        Column("Familiar error, %, last epoch", f"{LAST}_familiar", _shown(f"{LAST}_familiar"), "unmatched"),
        Column(
            f"{REFERENCE}'s epoch",
            f"{HELD_OUT}_their_epoch",
            lambda row: (
                wording.NOTHING
                if math.isnan(row[f"{HELD_OUT}_their_epoch"])
                else f"{row[f'{HELD_OUT}_their_epoch']:.1f}"
            ),
            f"mean epoch at which {REFERENCE} was taken; an earlier one than its last where it is better from then on",
            extra=True,
        ),
        Column("Not matched", f"{HELD_OUT}_n", _unmatched, "seeds without an epoch near enough, and why", False),
        Column("Seeds", f"{LAST}_n", lambda row: f"{row[f'{LAST}_n']} / {row['planned']}", "measured", extra=True),
    ]
    return tuple(columns)


def _shown(key: str) -> Callable[[Row], str]:
    return lambda row: value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], 1)


def _unmatched(row: Row) -> str:
    told = [
        f"{BY[matching][0]}: {row[f'{matching}_unmatched']}" for matching in MATCHINGS if row[f"{matching}_unmatched"]
    ]
    return "; ".join(told) or wording.NOTHING


def _reading(table: DataFrame) -> str:
    if REFERENCE not in set(table["label"]):
        return f"Nothing to match to: {REFERENCE} was not measured, so that only last epochs are shown."
    others = table[table["label"] != REFERENCE]
    told = [_told(others, matching) for matching in MATCHINGS]
    return (
        f"Matched to {REFERENCE} on held-out images, {told[0]}; on familiar test images, as the paper does, {told[1]}."
    )


def _told(others: DataFrame, matching: str) -> str:
    """Which methods make fewer errors on novel viewpoints than the reference, in half a sentence."""
    done = others[others[f"{matching}_reduction"].notna()].sort_values(f"{matching}_reduction", ascending=False)
    if done.empty:
        return "no method could be compared"
    best = done.iloc[0]
    key = f"{matching}_reduction"
    size = f"{wording.signed(-best[key], 0)} % novel errors"
    if not math.isnan(best[f"{key}_low"]):
        size += f" [{wording.signed(-best[f'{key}_high'], 0)}, {wording.signed(-best[f'{key}_low'], 0)}]"
    if done[f"{matching}_p"].isna().all():
        return f"{best['name']} does best, {size}, with too few seeds to test"
    shown = done[(done[f"{matching}_p_holm"] < ALPHA) & (done[key] > 0)]
    if shown.empty:
        return f"no method is shown to make fewer novel errors ({best['name']} does best, {size})"
    names = wording.listed([str(name) for name in shown["name"]], 4)
    first = shown.iloc[0]
    return f"{names} make{'s' if len(shown) == 1 else ''} fewer novel errors, {first['name']} by {first[key]:.0f} %"


def _notes(table: DataFrame) -> tuple[str, ...]:
    missing = [
        f"{BY[matching][0]} {int((table[f'{matching}_n'] < table[f'{LAST}_n']).sum())} of {len(table)}"
        for matching in MATCHINGS
    ]
    return (
        (
            f"Trained on familiar viewpoints only; tested on other objects. Up to {TOLERANCE:g} point of difference "
            f"counts as matched. Methods with seeds that could not be matched: {wording.listed(missing)}; means are "
            "over the rest."
        ),
        (
            "Mean over seeds with its 95 % t interval; the reduction is that of each seed. 'Fewer': p below "
            f"{ALPHA:g} in a t-test paired by seed, with Holm's correction over all methods."
        ),
        "The test match looks at test labels, as the paper's does; the held-out match does not.",
    )


def _published_notes(runs: Runs) -> tuple[str, ...]:
    """Table 2 of Hinton, Sabour and Frosst, where its data set is that of these runs."""
    base, _, axis = runs.data.rpartition("-")
    known = published.load_published()
    notes = []
    for part in ("novel", "familiar"):
        rows = known[(known["data"] == f"{base}-{part}-{axis}") & (known["metric"] == "test error")]
        if len(rows):
            errors = [f"{row['method']} {row['value']:g} % ({row['id']})" for row in rows.to_dict("records")]
            first = rows.iloc[0]
            notes.append(
                f"Published error on {part} viewpoints, matched on test images, with networks of the paper's own: "
                f"{wording.listed(errors)}; {first['citation']}, {first['where']}."
            )
    return tuple(notes)


if __name__ == "__main__":
    run(viewpoint_table)
