"""What each setting of a method does: variants against the plain form, in the form of table 1 of Hinton et al. 2018."""

import math
from collections.abc import Iterable

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.comparison import Contender, contenders_of, difference_between, images_of

ALPHA = 0.05
PLAIN = "plain form"


@analysis_of("accuracy", "ablations", place=25)
def ablations(runs: Runs) -> Analysis | None:
    """Accuracy (%) of every variant of a method, and its paired difference (points) to the method's plain form."""
    rows = [row for bases in _families(contenders_of(runs), runs.model) for row in _rows(runs, *bases)]
    table = DataFrame(rows)
    if table.empty or table["difference"].isna().all():
        return None
    table["p_holm"] = statistics.holm(table["p"].to_numpy(dtype=float))
    table = table.astype({"iterations": "Int64"})
    variants = table[table["difference"].notna()].reset_index(drop=True)
    with figures.look():
        figure, (axes,) = figures.new_figure(figures.height_of_rows(variants["name"]))
        _draw(axes, variants, runs)
    reading = _reading(variants)
    return Analysis(
        title="Components of each method",
        reading=reading,
        table=table,
        figure=figure,
        columns=_columns(table),
        notes=tuple(_notes(table)),
        alternative="Differences of variants to the plain form of their method, with intervals.",
    )


def _families(entries: Iterable[Contender], model: str) -> list[tuple[Contender, list[Contender]]]:
    """For every method and T with variants: the plain form and the others.

    The plain form is the one in the network of the suite with the fewest settings changed from the defaults that has a
    result; of equal ones, the first by name.
    """
    known: dict[tuple[str, int], list[Contender]] = {}
    for entry in entries:
        known.setdefault((_parts(entry.label)[0], entry.iterations or 0), []).append(entry)
    families = []
    for members in known.values():
        order = sorted(
            members,
            key=lambda entry: (not entry.accuracies, entry.model != model, _changed(entry.label), entry.label),
        )
        if len(members) > 1 and order[0].accuracies:
            families.append((order[0], order[1:]))
    return families


def _parts(label: str) -> tuple[str, str, str]:
    """Method, settings and variant of a label: `em[final_lambda=0.1] (margin loss)`."""
    spec, _, variant = label.partition(" (")
    method, _, settings = spec.partition("[")
    return method, settings.removesuffix("]"), variant.removesuffix(")")


def _changed(label: str) -> int:
    """How many things a label changes."""
    _, settings, variant = _parts(label)
    return (settings.count(",") + 1 if settings else 0) + bool(variant)


def _rows(runs: Runs, base: Contender, variants: Iterable[Contender]) -> list[dict[str, object]]:
    return [_row(runs, base, None), *(_row(runs, variant, base) for variant in variants)]


def _row(runs: Runs, entry: Contender, base: Contender | None) -> dict[str, object]:
    found = statistics.accuracy_interval(entry.values, images_of(runs, [entry]))
    gap = difference_between(runs, entry, base) if base else None
    seconds, base_seconds = _seconds(runs, entry), _seconds(runs, base) if base else math.nan
    return {
        "method": _parts(entry.label)[0],
        "variant": _settings(entry.label) if base else f"{PLAIN}: {_settings(entry.label)}",
        "name": entry.name,
        "label": entry.label,
        "role": entry.role,
        "model": entry.model,
        "iterations": entry.iterations,
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "interval": found.kind,
        "n_ok": len(entry.accuracies),
        "n_planned": entry.planned,
        "difference": gap.mean if gap else math.nan,
        "difference_low": gap.low if gap else math.nan,
        "difference_high": gap.high if gap else math.nan,
        "difference_interval": gap.kind if gap else "",
        "p": gap.p if gap else math.nan,
        "fit_seconds": seconds,
        "slower": seconds / base_seconds if base else math.nan,
    }


def _settings(label: str) -> str:
    return "; ".join([part for part in _parts(label)[1:] if part]) or "defaults"


def _seconds(runs: Runs, entry: Contender) -> float:
    own = runs.results[
        runs.results["cell"].isin(list(entry.cells.values())) & (runs.results["metric"] == "fit_seconds")
    ]
    return float(own["value"].mean())


def _columns(table: DataFrame) -> tuple[Column, ...]:
    several = len(set(table["model"])) > 1
    columns = [
        Column("Method", "method", lambda row: wording.name_of(row["method"], row["iterations"]), numeric=False),
        *((Column("Network", "model", lambda row: str(row["model"]), numeric=False),) if several else ()),
        Column("Settings", "variant", lambda row: str(row["variant"]), "changed from the defaults", numeric=False),
        Column("Accuracy, %", "mean", _accuracy, "mean test accuracy with its 95 % interval"),
        Column("Seeds", "n_ok", lambda row: f"{row['n_ok']} / {row['n_planned']}"),
        Column("Difference", "difference", _difference, "points above the plain form, paired by seed"),
        Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), "over all variants of this table"),
    ]
    if table["slower"].notna().any():
        columns.append(Column("Time, ×", "slower", _slower, "seconds of a fit, over those of the plain form"))
    return tuple(columns)


def _accuracy(row: Row) -> str:
    return wording.mean_with_interval(row["mean"], row["low"], row["high"], row["interval"])


def _difference(row: Row) -> str:
    keys = {"gain": "difference", "gain_low": "difference_low", "gain_high": "difference_high"}
    return wording.gain_with_interval({key: row[name] for key, name in keys.items()})


def _slower(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["slower"]) else f"{row['slower']:.2f}"


def _reading(variants: DataFrame) -> str:
    better, worse = (
        [str(name) for name in variants.loc[(variants["p_holm"] < ALPHA) & (sign * variants["difference"] > 0), "name"]]
        for sign in (1, -1)
    )
    total = wording.plural(len(variants), "variant")
    if not better and not worse:
        return f"No difference from the plain form of its method is shown for any of {total}."
    told = [f"better than the plain form of its method: {wording.listed(better)}"] if better else []
    told += [f"worse: {wording.listed(worse)}"] if worse else []
    return f"Of {total}, {'; '.join(told)} (paired, Holm)."


def _notes(table: DataFrame) -> list[str]:
    notes = [
        (
            "The plain form has the fewest settings changed from the defaults of those that have a result. Differences "
            "are paired by seed, at the same T; the interval is for one difference alone."
        ),
        "Filled: p below 0.05 after Holm's correction over all variants here.",
    ]
    if statistics.OVER_SAMPLES in set(table["difference_interval"]):
        notes.append("One seed only: differences are over test images, and another seed may order them otherwise.")
    if table["slower"].notna().any():
        notes.append("Time is on the wall clock, whatever else ran; the suite `cost` measures it alone.")
    return notes


def _draw(axes: Axes, variants: DataFrame, runs: Runs) -> None:
    axes.axvline(0, color=palette.INK, linewidth=1)
    for place, row in enumerate(variants.to_dict("records")):
        colour = runs.colours.get(row["label"], palette.MUTED)
        axes.hlines(place, row["difference_low"], row["difference_high"], color=colour, linewidth=2)
        face = colour if row["p_holm"] < ALPHA else palette.PAPER
        axes.plot(row["difference"], place, "o", color=colour, markerfacecolor=face, markersize=7)
    axes.set_ylim(len(variants) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.set_yticks(range(len(variants)), [wording.in_lines(name) for name in variants["name"]])
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("points above the plain form")


if __name__ == "__main__":
    run(ablations)
