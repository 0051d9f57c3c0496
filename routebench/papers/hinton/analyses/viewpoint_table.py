"""Errors on novel viewpoints of networks that are as good as the CNN on familiar ones."""

from dataclasses import replace
from functools import partial

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    BASELINE,
    METHOD,
    Analysis,
    Column,
    Estimate,
    Main,
    Method,
    Row,
    Runs,
    SeedValues,
    analysis_of,
    answer_of,
    gains_over,
    run,
    wording,
)
from routebench.analysis.viewpoints import (
    FAMILIAR,
    HELD_OUT,
    LAST,
    MATCHINGS,
    NAME,
    REFERENCE,
    TOLERANCE,
    Kinds,
    matched_to_reference,
    never_as_good,
    summary,
)

UNMATCHED = f"Nothing to match to: {NAME} was not measured, so that only last epochs are shown."
UNCERTAIN = 100.0
"""Half-width of an interval, in % of the reference's errors, above which it is not quoted."""
BY = {
    HELD_OUT: ("held-out match", "at the epoch whose held-out accuracy is nearest to that of the last epoch of cnn"),
    FAMILIAR: (
        "test match",
        "at the epoch whose accuracy on familiar test images is nearest to that of cnn: this looks at test labels",
    ),
}


def _unmatched(row: Row) -> str:
    told = [f"{BY[one][0]}: {row[f'{one}_unmatched']}" for one in MATCHINGS if row[f"{one}_unmatched"]]
    return "; ".join(told) or wording.NOTHING


def _change(matching: str, row: Row) -> str:
    return changed(row[f"{matching}_reduction"])


def changed(reduction: Estimate) -> str:
    """The change of an error in %, from its reduction; in words if its interval is too wide."""
    if reduction.has_limits and reduction.half_width > UNCERTAIN:
        return f"too uncertain to tell ({wording.plural(reduction.n, 'seed')})"
    return format(replace(reduction, mean=-reduction.mean, low=-reduction.high, high=-reduction.low), "+.0")


COLUMNS = (
    METHOD,
    *(column for matching, (title, explained) in BY.items() for column in (
        Column(f"Novel error against {NAME}, %, {title}", f"{matching}_reduction", partial(_change, matching),
               f"change of the novel error, in % of that of {NAME} with the same seed; less is better"),
        Column(f"Novel error, %, {title}", f"{matching}_novel", "±.1", explained),
    )),
    Column("Novel error, %, last epoch", f"{LAST}_novel", "±.1", "unmatched"),
    Column("Familiar error, %, last epoch", f"{LAST}_familiar", "±.1", "unmatched"),
    Column(f"Epoch of {NAME}", f"{HELD_OUT}_their_epoch", ".1",
           f"mean epoch at which {NAME} was taken; an earlier one than its last where it is better from then on",
           extra=True),
    Column("Not matched", f"{HELD_OUT}_novel.n", _unmatched, "seeds without an epoch near enough, and why",
           numeric=False),
    Column("Seeds", f"{LAST}_novel.n", lambda row: f"{row[f'{LAST}_novel'].n} / {row['planned']}", "measured",
           extra=True),
)  # fmt: skip


@analysis_of("viewpoint", "viewpoint-table", place=10)
def viewpoint_table(runs: Runs) -> Analysis | None:
    """Novel error per method at held-out and at familiar accuracy equal to the CNN's, and at the last epoch."""
    table, kinds = summary(runs), Kinds.of(runs)
    if table.empty:
        return None
    head = f"{kinds.novel.capitalize()}, error"
    main = Main(f"{HELD_OUT}_novel", head, "%", higher_is_better=False, gains=_gains(runs))
    return Analysis(
        title=f"Errors on {kinds.novel}, at equal accuracy on {kinds.familiar}",
        reading=_reading(main, runs, table, kinds),
        table=table,
        columns=COLUMNS,
        notes=(*_notes(kinds), *_published_notes(runs)),
        main=main,
    )


def _reading(main: Main, runs: Runs, table: DataFrame, kinds: Kinds) -> str:
    if all(method.label != REFERENCE for method in table["method"]):
        return UNMATCHED
    return answer_of(main, runs) or f"How many errors are left on {kinds.novel}?"


def _gains(runs: Runs) -> dict[Method, Estimate]:
    """Points of novel error above uniform routing, both matched to the reference on held-out images."""
    rows = matched_to_reference(runs)
    never = never_as_good(rows, HELD_OUT)
    rows = rows[(rows["matching"] == HELD_OUT) & rows["novel"].notna()]
    errors: dict[Method, SeedValues] = {}
    for method, seed, error in zip(rows["method"], rows["seed"], rows["novel"], strict=True):
        empty = SeedValues(first=runs.first, within=(0.0, 100.0), lost=never.get(method, ()))
        errors.setdefault(method, empty)[int(seed)] = float(error)
    return gains_over(BASELINE, errors, higher_is_better=False)


def _notes(kinds: Kinds) -> tuple[str, ...]:
    return (
        (
            f"{kinds.training} Up to {TOLERANCE:g} point of difference counts as matched. Means are over the seeds "
            "that could be matched, with their 95 % t intervals; the change is that of each seed."
        ),
        "The test match looks at test labels, as the paper's does; the held-out match does not.",
    )


def _published_notes(runs: Runs) -> tuple[str, ...]:
    """Table 2 of Hinton, Sabour and Frosst, if it has the data set of these runs."""
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
