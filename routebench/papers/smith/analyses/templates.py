"""Learned templates of part models, how many of them draw, and whether the model collapsed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import (
    MODEL,
    SEEDS,
    Analysis,
    Column,
    Main,
    Mean,
    Method,
    Row,
    Runs,
    analysis_of,
    palette,
    run,
    table_of,
    wording,
)
from routebench.analysis.pictures import figure_of_sheets, first_arrays, first_of, hang, on_paper, tiled

from ..limits import ALONE, DEAD, IDLE


def _collapsed(row: Row) -> str:
    seeds = f"{row['collapsed_seeds']} of {row['n']}"
    told = [seeds, *([row["how"]] if row["how"] else []), *([_all_idle(row)] if row["silent_seeds"] else [])]
    return "; ".join(told)


def _all_idle(row: Row) -> str:
    return f"all objects are idle in {row['silent_seeds']} of {wording.plural(row['n'], 'seed')}"


IDLE_BELOW = f"whose presence differs between images by less than {100 * IDLE:g} % of its mean"
COLUMNS = (
    MODEL,
    Column("Collapsed", "collapsed_seeds", _collapsed, "in how many seeds, and how", numeric=False),
    Column("Templates", "templates", ".0", extra=True),
    Mean.of("effective_templates", "effective", "In effect"),
    Mean.of("dead_templates", "dead", "Dead", f"templates that draw less than {DEAD:g} of an even share"),
    Mean.of("objects", text=lambda row: wording.count(row["objects"].mean), extra=True),
    Mean.of("idle_objects", "idle", explained=IDLE_BELOW),
    Mean.of("presence_accuracy", "logits", "t0, %", "classes that a linear probe tells by logits of objects' presences",
            where={"presences": "logits"}),
    Mean.of("presence_accuracy", "drawn", "t0 drawn, %", "likewise, by presences drawn from the posterior: see the "
            "notes", where={"presences": "drawn"}),
    Mean.of("presence_spread", "spread", "Spread of t0"),
    Mean.of("template_share", "largest", "Largest share, %", where={"template": "largest"}),
    SEEDS,
)  # fmt: skip
NOTES = (
    (
        f"Collapsed: one template draws more than {100 * ALONE:.0f} % of all brightness, or more than half of them "
        "are dead. Shares are those of what is seen in reconstructions of upright test images."
    ),
    (
        f"Idle: the presence of an object, as a probability, differs between images by less than {100 * IDLE:g} % "
        "of its mean. All objects idle: no object is there in some images and away in others."
    ),
    (
        "A probe of t0 standardises logits, and so reads differences of any size. A drawn presence has a noise of "
        "1.8 about its logit: what drawn presences do not tell they do not tell to parts and pixels either, and "
        "the bound takes next to no notice of it."
    ),
    (
        "Figure: the first finished seed of each model; ink is colour times opacity, in the order in which "
        "templates are drawn over each other. Smith et al., figure 6. Models without templates are left out."
    ),
    "Mean over seeds with its 95 % t interval, or alone for one seed.",
)
MEASURED = {column.key: column for column in COLUMNS if isinstance(column, Mean)}
SAVED = ("effective", "dead", "idle", "largest", "objects", "logits", "drawn", "spread")
COLLAPSED = Mean.of("collapsed")
Seed = dict[str, float]  # what was measured of a model with one seed, NaN for what was not
MOST_MODELS = 6
IN_A_ROW = 8


@analysis_of("generation", "templates", place=10)
def templates(runs: Runs) -> Analysis | None:
    """Learned templates; per model how many draw, dead ones, idle objects, and in how many seeds it collapsed."""
    by_seed = _by_seed(runs)
    table = _table(runs, by_seed)
    if table.empty:
        return None
    shown = first_of(first_arrays(runs, "templates"), MOST_MODELS)
    sheets = [tiled(on_paper(arrays["templates"]), IN_A_ROW) for arrays in shown.values()]
    seeds = [by_seed[method][int(arrays["seed"])] for method, arrays in shown.items()]
    return Analysis(
        title="Templates, and whether models collapsed",
        reading=_reading(table),
        table=table,
        figure=figure_of_sheets(sheets, _draw, sheets, [*shown], seeds, above=0.62),
        columns=COLUMNS,
        notes=NOTES,
        alternative="Grids of learned templates as ink on paper, one block per model.",
        main=Main.of("effective_templates", "effective", "Templates that draw"),
    )


def _by_seed(runs: Runs) -> dict[Method, dict[int, Seed]]:
    """Measurements of each model with each seed."""
    found: dict[Method, dict[int, Seed]] = {}
    for key, column in {**MEASURED, "collapsed": COLLAPSED}.items():
        for method, values in runs.by_seed(column.metric or key, **column.where).items():
            for seed, value in values.items():
                nothing = dict.fromkeys([*MEASURED, "collapsed"], math.nan)
                found.setdefault(method, {}).setdefault(seed, nothing)[key] = value
    return found


def _table(runs: Runs, by_seed: Mapping[Method, Mapping[int, Seed]]) -> DataFrame:
    """One row per model that has templates; collapsed ones first."""
    table = table_of(runs, [MEASURED[key] for key in SAVED])
    sizes = {method: len(arrays["templates"]) for method, arrays in first_arrays(runs, "templates").items()}
    seeds = [[*by_seed[method].values()] for method in table["method"]]
    collapsed = [[seed for seed in own if seed["collapsed"] > 0] for own in seeds]
    table["templates"] = [sizes.get(method, math.nan) for method in table["method"]]
    table["collapsed_seeds"] = [len(own) for own in collapsed]
    table["silent_seeds"] = [sum(seed["idle"] == seed["objects"] for seed in own) for own in seeds]
    table["how"] = [_how(own, sizes.get(method)) for own, method in zip(collapsed, table["method"], strict=True)]
    order = table.assign(kept=[method.is_control for method in table["method"]]).sort_values(
        ["collapsed_seeds", "silent_seeds", "kept"], ascending=[False, False, True], kind="stable", ignore_index=True
    )
    return order.drop(columns="kept")


def _how(found: Sequence[Seed], count: int | None) -> str:
    """Note on how seeds collapsed: one template draws everything, or most are dead."""
    alone = [seed["largest"] for seed in found if seed["largest"] > 100 * ALONE]
    dead = [seed["dead"] for seed in found if _mostly_dead(seed, count)]
    told = []
    if alone:
        told.append(f"one template draws {_range(alone)} % of everything{_in_seeds(alone, found)}")
    if dead:
        told.append(f"{_range(dead)}{f' of {count}' if count else ''} templates are dead{_in_seeds(dead, found)}")
    return "; ".join(told)


def _in_seeds(values: list[float], found: Sequence[Seed]) -> str:
    """Number of collapsed seeds that had these values; empty if only one collapsed."""
    return f" in {wording.plural(len(values), 'seed')}" if len(found) > 1 else ""


def _mostly_dead(seed: Seed, count: int | None) -> bool:
    """Tells whether most templates of a collapsed seed are dead."""
    return seed["dead"] > count / 2 if count else seed["largest"] <= 100 * ALONE


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _draw(axes: list[Axes], sheets: list[NDArray[np.uint8]], methods: list[Method], seeds: list[Seed]) -> None:
    for one, sheet, method, seed in zip(axes, sheets, methods, seeds, strict=True):
        hang(one, sheet)
        _title(one, method, seed)


def _title(axes: Axes, method: Method, seed: Seed) -> None:
    axes.set_title(wording.in_lines(str(method), 52), pad=18)
    told = f"{seed['effective']:.1f} in effect, {seed['dead']:.0f} dead, one draws {seed['largest']:.0f} %"
    alarm = "COLLAPSED: " if seed["collapsed"] > 0 else "ALL OBJECTS IDLE: " if seed["idle"] == seed["objects"] else ""
    axes.text(
        0, 1.0, f"{alarm}{told}", transform=axes.transAxes, va="bottom", fontsize=9,
        color=palette.HUES[1] if alarm else None, fontweight="bold" if alarm else None,
    )  # fmt: skip


def _reading(table: DataFrame) -> str:
    """Names every collapsed model and every one without a working object; then the others."""
    rows = table.to_dict("records")
    collapsed = [row for row in rows if row["collapsed_seeds"]]
    silent = [row for row in rows if row["silent_seeds"] and not row["collapsed_seeds"]]
    healthy = [row for row in rows if not row["silent_seeds"] and not row["collapsed_seeds"]]
    if not collapsed and not silent:
        return f"{wording.listed([row['method'] for row in healthy])} did not collapse with any seed."
    told = [_by_seeds(collapsed, "collapsed", "collapsed_seeds") if collapsed else "No model collapsed"]
    told += [_by_seeds(silent, "had all objects idle", "silent_seeds")] if silent else []
    others = wording.listed([row["method"] for row in healthy]) if healthy else ""
    told += [f"{others} did {'neither' if silent else 'not'}"] if healthy else []
    return f"{'; '.join(told)}."


def _by_seeds(rows: Sequence[Row], verb: str, key: str) -> str:
    """`a collapsed in 3 of 3 seeds, b in 1 of 3`."""
    first, *others = rows
    told = [f"{first['method']} {verb} in {first[key]} of {wording.plural(first['n'], 'seed')}"]
    return wording.listed([*told, *(f"{row['method']} in {row[key]} of {row['n']}" for row in others)])


if __name__ == "__main__":
    run(templates)
