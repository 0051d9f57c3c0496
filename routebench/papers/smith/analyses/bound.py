"""The evidence lower bound term by term, the size of the generative model, and its reconstruction error."""

from collections.abc import Callable

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    MODEL,
    SEEDS,
    Analysis,
    Column,
    Mean,
    Row,
    Runs,
    analysis_of,
    run,
    table_of,
    wording,
)


def _shown(key: str) -> Callable[[Row], str]:
    return lambda row: f"{row[key]:±.1}".replace("-", "−")


TERMS = (
    ("total", "Bound", "in nats, mean over images; the sum of the three next"),
    ("pixels", "Pixels", "log p(x | t1, A1)"),
    ("parts", "Parts", "log p(t1, A1 | t0, A0) - log q(t1, A1 | x)"),
    ("objects", "Objects", "log p(t0, A0) - log q(t0, A0 | t1, A1)"),
)
POSES = {"certain": "certain (delta)", "normal of objects": "of objects normal (objects)", "normal": "normal (full)"}
SIZE = "SMI-021"
METHOD = "generative-capsules"


@analysis_of("generation", "bound", place=40)
def bound(runs: Runs) -> Analysis | None:
    """Terms of the bound, parameters of the generative model and reconstruction error by angle, per model."""
    columns = _columns(runs)
    table = _table(runs, columns)
    if table.empty:
        return None
    return Analysis(
        title="Bound, size and reconstruction",
        reading="How good are the bound and the reconstructions of each model, and how large is it?",
        table=table,
        columns=columns,
        notes=_notes(table),
    )


def _columns(runs: Runs) -> tuple[Column, ...]:
    errors = runs.values("reconstruction_error")
    angles = sorted(set(errors["angle"].dropna().astype(int))) if len(errors) else []
    return (
        MODEL,
        Column("Poses", "poses", _poses, "what q says of a pose: one value, or a normal distribution", numeric=False),
        *(
            Mean.of("bound", key, title, told, text=_shown(key), extra=key != "total", where={"term": key})
            for key, title, told in TERMS
        ),
        Mean.of("generative_parameters", "generative", "Generative", text=_size),
        *(_error(angle) for angle in angles),
        SEEDS,
    )  # fmt: skip


def _error(angle: int) -> Mean:
    title, turned = (f"Error ≤ {angle}°", f"turned by up to {angle}°") if angle else ("Error, upright", "as they are")
    told = f"squared, summed over pixels in [0, 1], of reconstructions of test images {turned}"
    key = f"error_{angle}"
    return Mean.of("reconstruction_error", key, title, told, text=_shown(key), where={"angle": angle})


def _table(runs: Runs, columns: tuple[Column, ...]) -> DataFrame:
    """One row per model; models with a bound first, and among these, those with point estimates of poses."""
    table, bounds = table_of(runs, columns), runs.values("bound")
    poses = dict(zip(bounds["method"], bounds.get("poses", ()), strict=False))
    sized = [row["method"].label == METHOD and row["generative"].known for row in table.to_dict("records")]
    table = table.assign(
        poses=[str(poses.get(method, "")) for method in table["method"]],
        published_id=[SIZE if known else "" for known in sized],
    )
    order = [_place(row) for row in table.to_dict("records")]
    return table.iloc[sorted(range(len(table)), key=order.__getitem__)].reset_index(drop=True)


def _place(row: Row) -> tuple[object, ...]:
    known = list(POSES)
    kind = known.index(row["poses"]) if row["poses"] in known else len(known)
    return not row["total"].known, kind, row["method"].is_control, str(row["method"])


def _poses(row: Row) -> str:
    return POSES.get(str(row["poses"]), wording.NOTHING)


def _size(row: Row) -> str:
    count = wording.count(row["generative"].mean)
    if not row["published_id"]:
        return count
    known = published.load_published().set_index("id").loc[SIZE]
    how = "as" if published.agrees(int(row["generative"].mean), str(known["params"])) else "more than"
    return f"{count} ({how} published: {known['params'].replace('<', '< ')})"


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
