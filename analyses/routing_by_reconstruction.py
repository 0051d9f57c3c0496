"""Routing x reconstruction: three iterations or none, with a decoder or without (Kiefer et al., appendix A)."""

import math
from collections.abc import Mapping

from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, run, wording
from routebench.analysis.square import ROUTED, STEPS, UNROUTED, Cells, Square, square_of

ALPHA = 0.05
EFFECTS = ("routing", "reconstruction", "interaction")
MEANING = {
    "routing": "routing less none, mean over with and without decoder",
    "reconstruction": "with decoder less without, mean over routing and none",
    "interaction": "gain of routing with decoder, less its gain without",
}


@analysis_of("", "routing-by-reconstruction", place=30, folder=True)
def routing_by_reconstruction(parts: tuple[Runs, ...]) -> Analysis | None:
    """Test accuracy (%) of the four conditions, paired main effects and interaction (points)."""
    square = square_of(parts)
    if square is None:
        return None
    effects = _effects(square.cells)
    table = _table(square, effects)
    reading = _reading(square, effects)
    return Analysis(
        title="Routing and reconstruction",
        reading=reading,
        table=table,
        columns=_columns(table),
        notes=tuple(_notes(square, table, effects)),
    )


def _effects(cells: Cells) -> dict[str, statistics.Difference]:
    """Paired by seed over the seeds that all four conditions have; empty where one is missing."""
    if len(cells) < 4:
        return {}
    seeds = set.intersection(*(set(entry.accuracies) for entry in cells.values()))
    found = {}
    for effect in EFFECTS:
        ours, theirs = {}, {}
        for seed in seeds:
            both, routed, decoded, neither = (
                cells[key].accuracies[seed] for key in ((True, True), (True, False), (False, True), (False, False))
            )
            ours[seed], theirs[seed] = {
                "routing": ((both + routed) / 2, (decoded + neither) / 2),
                "reconstruction": ((both + decoded) / 2, (routed + neither) / 2),
                "interaction": (both - decoded, routed - neither),
            }[effect]
        found[effect] = statistics.paired_difference(ours, theirs)
    return found


def _table(square: Square, effects: Mapping[str, statistics.Difference]) -> DataFrame:
    rows = [_condition(square, routed=routed, decoder=decoder) for decoder in (False, True) for routed in (True, False)]
    p_values = statistics.holm([found.p_value for found in effects.values()])
    for (effect, found), p_holm in zip(effects.items(), p_values, strict=True):
        rows.append(
            {
                "kind": "effect",
                "what": effect,
                "mean": found.mean,
                "low": found.low,
                "high": found.high,
                "interval": found.kind,
                "n": found.n,
                "p": found.p_value,
                "p_holm": p_holm,
                "published": math.nan,
                "published_id": "",
            }
        )
    return DataFrame(rows)


def _condition(square: Square, *, routed: bool, decoder: bool) -> dict[str, object]:
    entry, runs = square.cells.get((routed, decoder)), square.runs(decoder=decoder)
    values = [entry.accuracies[seed] for seed in sorted(entry.accuracies)] if entry else []
    found = statistics.accuracy_interval(values, None)
    label, steps = (ROUTED, STEPS) if routed else (UNROUTED, None)
    known = published.find(runs.data, runs.model, label, steps)
    return {
        "kind": "condition",
        "what": f"{wording.name_of(label, steps)}, {'with' if decoder else 'without'} decoder",
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "interval": found.kind,
        "n": found.n,
        "p": math.nan,
        "p_holm": math.nan,
        "published": known.accuracy if known else math.nan,
        "published_id": known.id if known else "",
    }


def _columns(table: DataFrame) -> tuple[Column, ...]:
    columns = [
        Column("Condition or effect", "what", lambda row: str(row["what"]), numeric=False),
        Column("%, or points", "mean", _value, "test accuracy of a condition; an effect in points, with 95 % interval"),
        Column("Seeds", "n", lambda row: str(row["n"])),
        Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), "over the three effects"),
    ]
    if table["published"].notna().any():
        columns.append(Column("Published, %", "published", _published, "Kiefer et al., appendix A"))
    return tuple(columns)


def _value(row: Row) -> str:
    if row["kind"] == "condition":
        return wording.mean_with_interval(row["mean"], row["low"], row["high"], row["interval"])
    return wording.gain_with_interval({"gain": row["mean"], "gain_low": row["low"], "gain_high": row["high"]})


def _published(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["published"]) else f"{row['published']:.2f} ({row['published_id']})"


def _reading(square: Square, effects: Mapping[str, statistics.Difference]) -> str:
    if not effects:
        return f"Only {len(square.cells)} of the four conditions finished, so that no effect can be given."
    if any(math.isnan(found.low) for found in effects.values()):
        told = [f"{name} {wording.signed(found.mean)}" for name, found in effects.items()]
        return f"With one seed, effects in points are {wording.listed(told)}, and no interval can be given."
    p_values = statistics.holm([found.p_value for found in effects.values()])
    told = []
    for (name, found), p_value in zip(effects.items(), p_values, strict=True):
        row = {"gain": found.mean, "gain_low": found.low, "gain_high": found.high}
        shown = "shown" if p_value < ALPHA else "not shown"
        told.append(f"{name} {wording.gain_with_interval(row)} ({shown})")
    return f"Effects in points of accuracy with 95 % intervals: {'; '.join(told)}."


def _notes(square: Square, table: DataFrame, effects: Mapping[str, statistics.Difference]) -> list[str]:
    plain = square.plain
    notes = [
        f"{plain.suite}, {plain.preset} preset, {plain.data}: {plain.model} and {square.decoded.model}.",
        "± after a mean: 95 % t interval over seeds.",
    ]
    if effects:
        meaning = "; ".join(f"{name}: {told}" for name, told in MEANING.items())
        notes.append(
            f"Effects are paired by seed. {meaning}. Shown: p below 0.05 after Holm's correction over the three."
        )
    known = published.load_published().set_index("id")
    return notes + [f"{name}: {known.loc[name, 'conditions']}." for name in table["published_id"] if name]


if __name__ == "__main__":
    run(routing_by_reconstruction)
