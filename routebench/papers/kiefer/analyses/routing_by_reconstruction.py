"""Routing x reconstruction: three iterations or none, with a decoder or without (Kiefer et al., appendix A)."""

import math

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    MISSING,
    Analysis,
    Column,
    Estimate,
    Row,
    Runs,
    SeedValues,
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
EFFECTS = "An effect is over the seeds that finished with all four conditions; of one seed it has no interval."


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
        reading="What do routing and reconstruction add, alone and together?",
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
    both, routed, decoded, neither = (cells[routing, decoder] for routing in (True, False) for decoder in (True, False))
    found = [
        difference(_mean(both, routed), _mean(decoded, neither)),
        difference(_mean(both, decoded), _mean(routed, neither)),
        difference(_gain(both, decoded), _gain(routed, neither)),
    ]
    if any(one.lost & other.keys() for one in cells.values() for other in cells.values()):
        found[-1] = found[-1].untested(MISSING)  # seeds that one lost may be bad for either gain
    return dict(zip(MEANING, corrected(found), strict=True))


def _mean(one: SeedValues, other: SeedValues) -> SeedValues:
    """The mean of two conditions, which lost the seeds of either."""
    means = {seed: (one[seed] + other[seed]) / 2 for seed in one if seed in other}
    return SeedValues(means, one.first, lost=one.lost | other.lost)


def _gain(ours: SeedValues, theirs: SeedValues) -> SeedValues:
    return SeedValues({seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}, ours.first)


def _row(conditions: FourConditions, *, routed: bool, decoder: bool) -> dict[str, object]:
    runs, values = conditions.runs(decoder=decoder), conditions.accuracies.get((routed, decoder), SeedValues())
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


def _notes(conditions: FourConditions, table: DataFrame) -> list[str]:
    notes = [conditions.told, "± after a mean: 95 % t interval over seeds.", EFFECTS]
    if table["kind"].eq("effect").any():
        meaning = "; ".join(f"{name}: {told}" for name, told in MEANING.items())
        notes.append(f"Effects are paired by seed. {meaning}.")
    known = published.load_published().set_index("id")
    return notes + [f"{name}: {known.loc[name, 'conditions']}." for name in table["published_id"] if name]


if __name__ == "__main__":
    run(routing_by_reconstruction)
