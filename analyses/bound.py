"""The bound on the evidence by its terms, the size of the generative model, and how well it reconstructs."""

import math
from collections.abc import Callable

from pandas import DataFrame

from routebench import published
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, run, wording
from routebench.analysis.means import means_beside, means_of, value_with_interval

TERMS = {
    "total": ("Bound", "in nats, mean over images; the sum of the three next"),
    "pixels": ("Pixels", "log p(x | t1, A1)"),
    "parts": ("Parts", "log p(t1, A1 | t0, A0) - log q(t1, A1 | x)"),
    "objects": ("Objects", "log p(t0, A0) - log q(t0, A0 | t1, A1)"),
}
POSES = {"certain": "certain (delta)", "normal": "normal (full)"}
SIZE = "SMI-021"
METHOD = "generative-capsules"


@analysis_of("generation", "bound", place=40)
def bound(runs: Runs) -> Analysis | None:
    """Terms of the bound, learned numbers of the generative model and reconstruction error by angle, per model."""
    table = _table(runs)
    if table.empty:
        return None
    return Analysis(
        title="Bound, size and reconstruction",
        reading=_reading(table),
        table=table,
        columns=_columns(table),
        notes=_notes(table),
    )


def _table(runs: Runs) -> DataFrame:
    """One row per model; those with a bound first, and of those the ones with certain poses."""
    wanted: dict[str, tuple[str, dict[str, object]]] = {term: ("bound", {"term": term}) for term in TERMS}
    wanted["generative"] = ("generative_parameters", {})
    errors = runs.results[runs.results["metric"] == "reconstruction_error"]
    if len(errors):
        for angle in sorted(set(errors["angle"].dropna().astype(int))):
            wanted[f"error_{angle}"] = ("reconstruction_error", {"angle": angle})
    table = means_beside(runs, wanted)
    if table.empty:
        return table
    poses: dict[object, object] = {}
    if "poses" in runs.results:
        found = means_of(runs, "bound", ["poses"])
        poses = dict(zip(found["name"], found["poses"], strict=True))
    ids = [SIZE if row["label"] == METHOD and not math.isnan(row["generative"]) else "" for _, row in table.iterrows()]
    table = table.assign(poses=[str(poses.get(name, "")) for name in table["name"]], published_id=ids)
    order = [_place(row) for row in table.to_dict("records")]
    return table.iloc[sorted(range(len(table)), key=lambda place: order[place])].reset_index(drop=True)


def _place(row: Row) -> tuple[object, ...]:
    known = list(POSES)
    return (
        math.isnan(row["total"]),
        known.index(row["poses"]) if row["poses"] in known else len(known),
        row["role"] == "control",
        row["name"],
    )


def _columns(table: DataFrame) -> tuple[Column, ...]:
    angles = [str(column) for column in table if str(column).startswith("error_") and str(column).count("_") == 1]
    return (
        Column("Model", "name", wording.marked, numeric=False),
        Column("Poses", "poses", _poses, "what q says of a pose: one value, or a normal distribution", numeric=False),
        *(Column(title, term, _shown(term), told, extra=term != "total") for term, (title, told) in TERMS.items()),
        Column("Generative", "generative", _size, "learned numbers of the generative model, encoders not counted"),
        *(Column(_angle(column), column, _shown(column), _explained(column)) for column in angles),
        Column("Seeds", "n", lambda row: str(row["n"]), "that the mean is over", extra=True),
    )


def _poses(row: Row) -> str:
    return POSES.get(str(row["poses"]), wording.NOTHING)


def _shown(key: str) -> Callable[[Row], str]:
    return lambda row: value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], 1).replace("-", "−")


def _size(row: Row) -> str:
    count = wording.count(row["generative"])
    if not row["published_id"]:
        return count
    known = published.load_published().set_index("id").loc[SIZE]
    return f"{count} (published {known['params'].replace('<', '< ')})"


def _angle(column: str) -> str:
    angle = column.partition("_")[2]
    return "Error, upright" if angle == "0" else f"Error ≤ {angle}°"


def _explained(column: str) -> str:
    angle = column.partition("_")[2]
    turned = "as they are" if angle == "0" else f"turned by up to {angle}°"
    return f"squared, summed over pixels in [0, 1], of reconstructions of test images {turned}"


def _reading(table: DataFrame) -> str:
    told = []
    bounded = table[table["total"].notna()].to_dict("records")
    if bounded:
        values = [f"{_shown('total')(row)} nats for {row['name']}{_with_poses(row)}" for row in bounded]
        told.append(f"the bound is {wording.listed(values)}{_apart(table)}")
    told += [_size_in_words(row) for row in table.to_dict("records") if row["published_id"]]
    if "error_0" in table and table["error_0"].notna().any():
        best = table.sort_values("error_0", kind="stable").iloc[0]
        told.append(
            f"reconstructions of upright digits have the smallest squared error with {best['name']} "
            f"({best['error_0']:.1f} per image, summed over pixels)"
        )
    text = "; ".join(told) or "No bound was measured"
    return f"{text[0].upper()}{text[1:]}."


def _with_poses(row: Row) -> str:
    return f" (poses {_poses(row)})" if row["poses"] in POSES else ""


def _apart(table: DataFrame) -> str:
    """The warning that must stand beside the numbers."""
    return ", of two kinds that are not comparable" if set(POSES) <= set(table["poses"]) else ""


def _size_in_words(row: Row) -> str:
    known = published.load_published().set_index("id").loc[SIZE]
    fits = published.agrees(int(row["generative"]), str(known["params"]))
    said = "as published" if fits else "more than published"
    return f"{row['name']} generates with {row['generative']:,.0f} learned numbers, {said} ({known['params']}, {SIZE})"


def _notes(table: DataFrame) -> tuple[str, ...]:
    notes = [
        (
            "A bound with certain poses (delta) and one with normal poses (full) are not comparable: a certain pose "
            "has no entropy, and its bound is one for the presences alone, in which the density of a pose stands as it "
            "is. Compare rows of one kind."
        ),
        "The pixels are continuous and presences relaxed: terms are densities, and may be above 0.",
        (
            "Errors of reconstructions are comparable between models of any kind. Mean over test images, by one sample "
            "for the bound, then over seeds with its 95 % t interval."
        ),
    ]
    if (table["published_id"] != "").any():
        known = published.load_published().set_index("id").loc[SIZE]
        notes.append(f"{SIZE}: {known['citation']}, {known['where']}: {known['params']}, {known['variant']}.")
    return tuple(notes)


if __name__ == "__main__":
    run(bound)
