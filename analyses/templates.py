"""The templates that models of parts learned, how many of them draw, and whether the model collapsed."""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Main, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.means import by_seed, means_beside, value_with_interval
from routebench.analysis.pictures import first_arrays, hang, on_paper, tiled
from routebench.generative.probabilistic.health import ALONE, DEAD, IDLE

MEASURED: dict[str, tuple[str, dict[str, object]]] = {
    "effective": ("effective_templates", {}),
    "dead": ("dead_templates", {}),
    "idle": ("idle_objects", {}),
    "largest": ("template_share", {"template": "largest"}),
    "objects": ("objects", {}),
    "logits": ("presence_accuracy", {"presences": "logits"}),
    "drawn": ("presence_accuracy", {"presences": "drawn"}),
    "spread": ("presence_spread", {}),
}
MOST_MODELS = 6
IN_A_ROW = 8


@analysis_of("generation", "templates", place=10)
def templates(runs: Runs) -> Analysis | None:
    """Learned templates; per model how many draw, dead ones, idle objects, and in how many seeds it collapsed."""
    table = _table(runs)
    if table.empty:
        return None
    pictures = dict(list(first_arrays(runs, "templates").items())[:MOST_MODELS])
    figure = None
    if pictures:
        with figures.look():
            sheets = {name: tiled(on_paper(arrays["templates"]), IN_A_ROW) for name, arrays in pictures.items()}
            heights = [0.62 + 4.6 * sheet.shape[0] / sheet.shape[1] for sheet in sheets.values()]
            figure, axes = figures.new_figure(sum(heights), rows=len(sheets), height_ratios=heights)
            for one, (name, sheet) in zip(axes, sheets.items(), strict=True):
                hang(one, sheet)
                _title(one, name, _of_seed(runs, name, int(pictures[name]["seed"])))
    reading = _reading(table)
    return Analysis(
        title="Templates, and whether models collapsed",
        reading=reading,
        table=table,
        figure=figure,
        columns=_columns(),
        notes=_notes(),
        alternative="Grids of learned templates as ink on paper, one block per model.",
        main=Main("effective", "Templates that draw", digits=1, higher_is_better=True),
    )


def _table(runs: Runs) -> DataFrame:
    """One row per model that has templates; collapsed ones first."""
    table = means_beside(runs, MEASURED)
    if table.empty:
        return table
    sizes = {name: len(arrays["templates"]) for name, arrays in first_arrays(runs, "templates").items()}
    collapsed = by_seed(runs, "collapsed")
    table["templates"] = [sizes.get(name, math.nan) for name in table["name"]]
    table["collapsed_seeds"] = [sum(value > 0 for value in collapsed.get(name, {}).values()) for name in table["name"]]
    table["silent_seeds"] = [len(_silent(runs, name)) for name in table["name"]]
    table["how"] = [_how(runs, name, collapsed.get(name, {}), sizes.get(name)) for name in table["name"]]
    order = table.assign(kept=table["role"] == "control").sort_values(
        ["collapsed_seeds", "silent_seeds", "kept", "name"], ascending=[False, False, True, True], kind="stable"
    )
    return order.drop(columns="kept").reset_index(drop=True)


def _of_seed(runs: Runs, name: str, seed: int) -> dict[str, float]:
    values = {key: by_seed(runs, metric, where) for key, (metric, where) in MEASURED.items()}
    values["collapsed"] = by_seed(runs, "collapsed")
    return {key: found.get(name, {}).get(seed, math.nan) for key, found in values.items()}


def _silent(runs: Runs, name: str) -> list[int]:
    """The seeds in which all objects are idle."""
    idle, objects = (by_seed(runs, *MEASURED[key]).get(name, {}) for key in ("idle", "objects"))
    return [seed for seed in idle if idle[seed] == objects.get(seed)]


def _how(runs: Runs, name: str, collapsed: dict[int, float], count: int | None) -> str:
    """What happened in the seeds that collapsed: one template draws everything, or most are dead."""
    found = [_of_seed(runs, name, seed) for seed, value in collapsed.items() if value > 0]
    alone = [seed["largest"] for seed in found if seed["largest"] > 100 * ALONE]
    dead = [seed["dead"] for seed in found if _mostly_dead(seed, count)]
    told = []
    if alone:
        told.append(f"one template draws {_range(alone)} % of everything{_in_seeds(alone, found)}")
    if dead:
        told.append(f"{_range(dead)}{f' of {count}' if count else ''} templates are dead{_in_seeds(dead, found)}")
    return "; ".join(told)


def _in_seeds(values: list[float], found: list[dict[str, float]]) -> str:
    """Of the seeds that collapsed, how many had these values; nothing where only one collapsed."""
    return f" in {wording.plural(len(values), 'seed')}" if len(found) > 1 else ""


def _mostly_dead(seed: dict[str, float], count: int | None) -> bool:
    """Of a seed that collapsed."""
    return seed["dead"] > count / 2 if count else seed["largest"] <= 100 * ALONE


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _title(axes: Axes, name: str, seed: dict[str, float]) -> None:
    axes.set_title(wording.in_lines(name, 52), pad=18)
    told = f"{seed['effective']:.1f} in effect, {seed['dead']:.0f} dead, one draws {seed['largest']:.0f} %"
    alarm = "COLLAPSED: " if seed["collapsed"] > 0 else "ALL OBJECTS IDLE: " if seed["idle"] == seed["objects"] else ""
    axes.text(
        0, 1.0, f"{alarm}{told}", transform=axes.transAxes, va="bottom", fontsize=9,
        color=palette.HUES[1] if alarm else None, fontweight="bold" if alarm else None,
    )  # fmt: skip


def _columns() -> tuple[Column, ...]:
    return (
        Column("Model", "name", wording.marked, numeric=False),
        Column("Collapsed", "collapsed_seeds", _collapsed, "in how many seeds, and how", numeric=False),
        Column("Templates", "templates", lambda row: wording.whole(row["templates"]), extra=True),
        Column("In effect", "effective", _shown("effective"), "exponential of the entropy of the shares of templates"),
        Column("Dead", "dead", _shown("dead"), f"templates that draw less than {DEAD:g} of an even share"),
        Column("Objects", "objects", lambda row: wording.count(row["objects"]), extra=True),
        Column(
            "Idle objects",
            "idle",
            _shown("idle"),
            f"whose presence differs between images by less than {100 * IDLE:g} % of its mean",
        ),
        Column(
            "t0, %", "logits", _shown("logits"), "classes that a linear probe tells by logits of objects' presences"
        ),
        Column(
            "t0 drawn, %", "drawn", _shown("drawn"), "likewise, by presences drawn from the posterior: see the notes"
        ),
        Column(
            "Spread of t0", "spread", _shown("spread", 2), "how far its logits differ between images, as a deviation"
        ),
        Column("Largest share, %", "largest", _shown("largest"), "of one template in all that is drawn"),
        Column("Seeds", "n", lambda row: str(row["n"]), "that the mean is over", extra=True),
    )


def _collapsed(row: Row) -> str:
    seeds = f"{row['collapsed_seeds']} of {row['n']}"
    told = [seeds, *([row["how"]] if row["how"] else []), *([_all_idle(row)] if row["silent_seeds"] else [])]
    return "; ".join(told)


def _shown(key: str, digits: int = 1) -> Callable[[Row], str]:
    return lambda row: value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], digits)


def _reading(table: DataFrame) -> str:
    """Every model that collapsed and every one without a working object, by name; then the others."""
    rows = table.to_dict("records")
    collapsed = [row for row in rows if row["collapsed_seeds"]]
    silent = [row for row in rows if row["silent_seeds"] and not row["collapsed_seeds"]]
    healthy = [row for row in rows if not row["silent_seeds"] and not row["collapsed_seeds"]]
    if not collapsed and not silent:
        names = [f"{row['name']} ({_in_effect(row)}, {_idle(row)})" for row in healthy]
        return f"{wording.listed(names)} did not collapse with any seed{_presences(rows)}."
    told = [_by_seeds(collapsed, "collapsed", "collapsed_seeds") if collapsed else "No model collapsed"]
    told += [_by_seeds(silent, "had all objects idle", "silent_seeds")] if silent else []
    others = wording.listed([str(row["name"]) for row in healthy]) if healthy else ""
    told += [f"{others} did {'neither' if silent else 'not'}"] if healthy else []
    return f"{'; '.join(told)}{_presences(rows)}."


def _presences(rows: Sequence[Row]) -> str:
    """What the presences tell whose logits tell most, and what is left of it where the model itself looks."""
    known = [row for row in rows if not math.isnan(row.get("drawn", math.nan))]
    if not known:
        return ""
    best = max(known, key=lambda row: float(row["logits"]))
    told = f"{best['logits']:.0f} % of digits by logits, {best['drawn']:.0f} % once drawn"
    return f"; presences of {best['name']} tell {told}"


def _by_seeds(rows: Sequence[Row], verb: str, key: str) -> str:
    """`a collapsed in 3 of 3 seeds, b in 1 of 3`."""
    first, *others = rows
    told = [f"{first['name']} {verb} in {first[key]} of {wording.plural(first['n'], 'seed')}"]
    return wording.listed([*told, *(f"{row['name']} in {row[key]} of {row['n']}" for row in others)])


def _all_idle(row: Row) -> str:
    return f"all objects are idle in {row['silent_seeds']} of {wording.plural(row['n'], 'seed')}"


def _idle(row: Row) -> str:
    return f"{_mean(row['idle'])}{_out_of(row['objects'])} objects idle"


def _in_effect(row: Row) -> str:
    return f"{row['effective']:.1f}{_out_of(row['templates'])} templates in effect, {_mean(row['dead'])} dead"


def _mean(value: float) -> str:
    """A mean of counts, to one decimal where it is not whole."""
    return f"{value:.1f}".removesuffix(".0")


def _out_of(count: float) -> str:
    return "" if math.isnan(count) else f" of {count:.0f}"


def _notes() -> tuple[str, ...]:
    return (
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


if __name__ == "__main__":
    run(templates)
