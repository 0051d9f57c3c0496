"""Information of presences of generative capsules about the image, in nats."""

from collections.abc import Callable
from functools import partial

from pandas import isna

from routebench.analysis import MODEL, SEEDS, Analysis, Column, Mean, Row, Runs, analysis_of, best_first, run, table_of

TRAINED = ("train_angle", "tested_on")
"""Columns that distinguish training data of networks."""


@analysis_of("linear-probe", "presences", place=35)
def presences(runs: Runs) -> Analysis | None:
    """Information of presences about the image (nats), how often parts are on, how many change object, the bound."""
    by = [column for column in TRAINED if column in runs.results]
    table = table_of(runs, COLUMNS, by)
    known = [row["objects"].known for row in table.to_dict("records")]
    if not any(known):
        return None
    table = best_first(table[known], "objects")
    table["trained"] = [_trained(row) for row in table.to_dict("records")]
    return Analysis(
        title="What presences say of images",
        reading="How much do presences tell of the image? Ten equally likely digits are 2.3 nats.",
        table=table,
        columns=COLUMNS,
        notes=NOTES,
    )


def _shown(key: str, form: str, row: Row) -> str:
    return f"{row[key]:±{form}}".replace("-", "−")


def _trained(row: Row) -> str:
    tested_on = row.get("tested_on")
    if not isna(tested_on):
        return f"as {tested_on}"
    angle = row.get("train_angle", 0)
    return f"≤ {int(angle)}°" if angle else "upright"


def _mean(title: str, key: str, form: str, told: str, metric: str, **where: object) -> Mean:
    show: Callable[[Row], str] = partial(_shown, key, form)
    return Mean(title, key, show, told, metric=metric, where=where)


COLUMNS = (
    MODEL,
    Column("Trained on", "trained", explained="digits as they are, turned by up to an angle, or moved", numeric=False),
    _mean("t0, nats", "objects", ".2", "that presences of objects say of the image", "presence_information",
          layer="objects"),
    _mean("t1, nats", "parts", ".2", "that presences of parts say of the image", "presence_information", layer="parts"),
    _mean("p(t1)", "on", ".2", "mean probability of a part to be on", "mean_presence", layer="parts"),
    _mean("Varying", "varying", ".0", "% of parts that do not belong to one object in 95 % of images",
          "varying_choices"),
    _mean("Bound", "bound", ".1", "in nats, without the constant of certain poses of objects", "bound",
          term="total without constant"),
    SEEDS,
)  # fmt: skip
NOTES = (
    (
        "Nats: how much the presences of a layer, drawn, say about which of 500 test images is seen. It is the mean "
        "divergence of their distribution for one image from that for all. The model itself sees drawn presences; a "
        "probe sees their logits, and reads differences far smaller than the noise of a draw."
    ),
    "Bounds compare between rows only where poses are as certain, and switched on and off in the same way.",
)


if __name__ == "__main__":
    run(presences)
