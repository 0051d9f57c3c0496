"""Routing x reconstruction: three iterations or none, with a decoder or without (Kiefer et al., appendix A)."""

import math

import numpy as np
from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    ALPHA,
    Analysis,
    Column,
    Estimate,
    Row,
    Runs,
    analysis_of,
    corrected,
    difference,
    mean_of,
    run,
    wording,
)

from ..conditions import NAMES, FourConditions, four_conditions

MEANING = {
    "routing": "routing less none, mean over with and without decoder",
    "reconstruction": "with decoder less without, mean over routing and none",
    "interaction": "gain of routing with decoder, less its gain without",
}


@analysis_of("", "routing-by-reconstruction", place=30, folder=True)
def routing_by_reconstruction(parts: tuple[Runs, ...]) -> Analysis | None:
    """Test accuracy (%) of the four conditions, paired main effects and interaction (points)."""
    conditions = four_conditions(parts)
    if conditions is None:
        return None
    effects = _effects(conditions)
    rows = [_row(conditions, routed=routed, decoder=decoder) for decoder in (False, True) for routed in (True, False)]
    nothing = {"published": math.nan, "published_id": ""}
    rows += [{"kind": "effect", "what": effect, "mean": found, **nothing} for effect, found in effects.items()]
    table = DataFrame(rows)
    printed = Column("Published, %", "published", _published, "Kiefer et al., appendix A")
    return Analysis(
        title="Routing and reconstruction",
        reading=_reading(conditions, effects),
        table=table,
        columns=(
            Column("Condition or effect", "what", numeric=False),
            Column(
                "%, or points", "mean", _value, "test accuracy of a condition; an effect in points, with 95 % interval"
            ),
            Column("Seeds", "mean.n"),
            Column("p (Holm)", "mean.p_holm", "p", "over the three effects"),
            *([printed] if table["published"].notna().any() else []),
        ),
        notes=tuple(_notes(conditions, table)),
    )


def _effects(conditions: FourConditions) -> dict[str, Estimate]:
    """Effects paired by seed, over seeds of all four conditions; empty if a condition is missing."""
    cells = conditions.accuracies
    if len(cells) < 4:
        return {}
    seeds = sorted(set.intersection(*(set(values) for values in cells.values())))
    both, routed, decoded, neither = (
        np.array([cells[key][seed] for seed in seeds])
        for key in ((True, True), (True, False), (False, True), (False, False))
    )
    compared = (
        ((both + routed) / 2, (decoded + neither) / 2),
        ((both + decoded) / 2, (routed + neither) / 2),
        (both - decoded, routed - neither),
    )
    found = [difference(dict(enumerate(ours)), dict(enumerate(theirs))) for ours, theirs in compared]
    return dict(zip(MEANING, corrected(found), strict=True))


def _row(conditions: FourConditions, *, routed: bool, decoder: bool) -> dict[str, object]:
    runs, values = conditions.runs(decoder=decoder), conditions.accuracies.get((routed, decoder), {})
    known = published.find(runs.data, runs.model, *NAMES[routed])
    return {
        "kind": "condition",
        "what": f"{wording.name_of(*NAMES[routed])}, {'with' if decoder else 'without'} decoder",
        "mean": mean_of(values.values(), whole=100),
        "published": known.accuracy if known else math.nan,
        "published_id": known.id if known else "",
    }


def _value(row: Row) -> str:
    return format(row["mean"], "±0.2" if row["kind"] == "condition" else "+.2")


def _published(row: Row) -> str:
    return f"{row['published']:.2f} ({row['published_id']})" if row["published_id"] else wording.NOTHING


def _reading(conditions: FourConditions, effects: dict[str, Estimate]) -> str:
    if not effects:
        return f"Only {len(conditions.accuracies)} of the four conditions finished, so that no effect can be given."
    if not all(found.known for found in effects.values()):
        return "No seed has finished with all four conditions, so that no effect can be given."
    told = [f"{name} {found:+.2}" for name, found in effects.items()]
    if not all(found.has_limits for found in effects.values()):
        return f"With one seed, effects in points are {wording.listed(told)}, and no interval can be given."
    shown = ["shown" if found.p_holm < ALPHA else "not shown" for found in effects.values()]
    both = [f"{effect} ({verdict})" for effect, verdict in zip(told, shown, strict=True)]
    return f"Effects in points of accuracy with 95 % intervals: {'; '.join(both)}."


def _notes(conditions: FourConditions, table: DataFrame) -> list[str]:
    notes = [conditions.told, "± after a mean: 95 % t interval over seeds."]
    if table["kind"].eq("effect").any():
        meaning = "; ".join(f"{name}: {told}" for name, told in MEANING.items())
        notes.append(
            f"Effects are paired by seed. {meaning}. Shown: p below 0.05 after Holm's correction over the three."
        )
    known = published.load_published().set_index("id")
    return notes + [f"{name}: {known.loc[name, 'conditions']}." for name in table["published_id"] if name]


if __name__ == "__main__":
    run(routing_by_reconstruction)
