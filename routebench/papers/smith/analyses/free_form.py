"""Gains of inference without the encoder, in bound, reconstruction and class, and its cost."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    Analysis,
    Column,
    Estimate,
    Mean,
    Method,
    Row,
    Runs,
    analysis_of,
    corrected,
    difference,
    figures,
    mean_of,
    run,
    table_of,
    wording,
)
from routebench.analysis.pictures import Arrays, first_arrays, first_of, hang, on_paper, tiled

INFERENCE = {"encoder": "encoder", "free": "free-form"}
MEASURES = {
    "bound": Mean.of("free_form_bound", title="Bound, nats"),
    "error": Mean.of("free_form_error", title="Error"),
    "accuracy": Mean.of("free_form_accuracy", title="Accuracy, %"),
    "refitted": Mean.of("refitted_accuracy", title="Refitted, %"),
    "refitted_both": Mean.of("refitted_both_accuracy", title="Refitted, with poses, %"),
    "reencoded": Mean.of("reencoded_accuracy"),
}
SECONDS = "seconds_per_image"
PUBLISHED = {"accuracy_gain": "SMI-019", "ratio": "SMI-020"}
METHOD = "generative-capsules"
ROWS = {"turned": "digit", "turned_reconstructions": "encoder", "turned_free_form": "free-form"}
MOST_MODELS = 3


@analysis_of("generation", "free-form", place=20)
def free_form(runs: Runs) -> Analysis | None:
    """Bound, error, accuracy and seconds by the encoder and after free-form inference; figure 3 of Smith et al."""
    ours = _table(runs)
    if ours.empty:
        return None
    examples = first_of(first_arrays(runs, "turned_free_form"), MOST_MODELS)
    height, rows = 0.2 + 0.95 * len(ROWS) / 2 * len(examples), len(examples)
    return Analysis(
        title="Free-form inference",
        reading="What does inference without the encoder gain, and what does it cost?",
        table=_with_published(ours, runs),
        figure=figures.figure_of(_draw, examples, height=height, rows=rows) if examples else None,
        columns=tuple(_columns()),
        notes=_notes(),
        alternative="A digit in twelve turns, below it as the encoder and as free-form inference draw it.",
    )


def _measured() -> Iterator[Mean]:
    """Means that are measured by each kind of inference."""
    for key, mean in MEASURES.items():
        for one, inference in INFERENCE.items():
            yield replace(mean, key=f"{key}_{one}", where={"inference": inference})
    for one, inference in INFERENCE.items():
        yield Mean.of(SECONDS, f"seconds_{one}", where={"inference": inference})


def _columns() -> Iterator[Column]:
    yield Column("Model", "name", _name, numeric=False)
    yield Column("Up to, °", "angle", explained="largest angle of test digits, trained upright")
    for key, mean in MEASURES.items():
        told = f"{mean.explained}; by the encoder → after free-form inference, and the change, paired by seed"
        yield Column(mean.title, f"{key}_gain", _moved(key), f"{told}, with its 95 % interval")
    yield Column("p (Holm)", "accuracy_gain.p_holm", "p", "of changes in accuracy", extra=True)
    yield Column("Time ×", "ratio", _times, "seconds of free-form inference over those of the encoder")
    yield Column("Seeds", "n", lambda row: str(row["n"] or wording.NOTHING), extra=True)


def _table(runs: Runs) -> DataFrame:
    """One row per model and angle, with differences and ratios paired by seed; p-values of accuracies corrected."""
    table = table_of(runs, _measured(), by=["angle"])
    rows = []
    for row in table.to_dict("records"):
        row |= {f"{key}_gain": difference(*_pair(runs, row, mean.metric)) for key, mean in MEASURES.items()}
        ours, theirs = _pair(runs, row, SECONDS)
        ratios = [ours[seed] / theirs[seed] for seed in ours if theirs.get(seed, 0) > 0]
        ratio = mean_of(ratios, within=(0.0, math.inf))
        name = row["method"].exact
        rows.append(row | {"angle": int(row["angle"]), "ratio": ratio, "name": name, "published_id": ""})
    rows.sort(key=lambda row: row["method"].is_control)
    gains = corrected(row["accuracy_gain"] for row in rows)
    return DataFrame([{**row, "accuracy_gain": gain} for row, gain in zip(rows, gains, strict=True)])


def _pair(runs: Runs, row: Row, metric: str) -> list[dict[int, float]]:
    """Values of a row's model and angle by seed, after free-form inference and from the encoder."""
    both = (INFERENCE["free"], INFERENCE["encoder"])
    return [runs.by_seed(metric, inference=one, angle=row["angle"]).get(row["method"], {}) for one in both]


def _with_published(table: DataFrame, runs: Runs) -> DataFrame:
    """The published gain and cost below our rows of the same model on the same data."""
    known = published.load_published().set_index("id").loc[list(PUBLISHED.values())]
    ours = [place for place, method in enumerate(table["method"]) if method.label == METHOD]
    if not ours or not (known["data"] == runs.data).all():
        return table
    row: dict[object, object] = dict.fromkeys(table, Estimate())
    row |= {"method": Method(METHOD, role=""), "name": f"{METHOD}, published", "n": 0, "angle": 0}
    row |= {column: Estimate(float(known["value"][identifier])) for column, identifier in PUBLISHED.items()}
    row["published_id"] = " and ".join(PUBLISHED.values())
    rows = table.to_dict("records")
    return DataFrame([*rows[: ours[-1] + 1], row, *rows[ours[-1] + 1 :]])


def _name(row: Row) -> str:
    return f"{row['method']}, published" if row["published_id"] else str(row["method"].marked)


def _moved(key: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        change = f"{row[f'{key}_gain']:+.1}"
        if row["published_id"]:
            return f"about {change}" if row[f"{key}_gain"].known else wording.NOTHING
        before, after = row[f"{key}_encoder"], row[f"{key}_free"]
        return f"{before:.1} → {after:.1} ({change})" if after.known else wording.NOTHING

    return text


def _times(row: Row) -> str:
    return wording.count(row["ratio"].mean)


def _notes() -> tuple[str, ...]:
    known = published.load_published().set_index("id")
    gain, cost = (known.loc[PUBLISHED[column]] for column in ("accuracy_gain", "ratio"))
    return (
        (
            f"Published: {gain['source']} et al., {gain['where']}, {gain['printed_method']}: about {gain['value']:g} "
            f"points of accuracy from t0 ({PUBLISHED['accuracy_gain']}; of which images is not said), at "
            f"{cost['value']:g} times the cost ({PUBLISHED['ratio']}, an estimate for as many steps, not measured)."
        ),
        (
            "Each image climbs from what the encoder says, with the model as it is. It is done on few test images: an "
            "accuracy is no finer than one of them. The first probe was fitted to what the encoder says of t0 and not "
            "again. It reads differences of logits that are far below the noise of a presence (see the spread of t0 "
            "beside the templates), which the bound does not hold in place."
        ),
        (
            "Figure: one test digit, turned in steps of 30°, of the first finished seed: as it is, as the encoder has "
            "it, and after free-form inference; Smith et al., figure 3."
        ),
        "Mean over seeds with its 95 % t interval; changes are paired by seed.",
    )


def _draw(axes: list[Axes], examples: Mapping[Method, Arrays]) -> None:
    for one, (method, arrays) in zip(axes, examples.items(), strict=True):
        turns = [int(turn) for turn in arrays["turns"]]
        size = arrays["turned"].shape[-1] + 1
        rows = np.concatenate([on_paper(arrays[key]) for key in ROWS])
        hang(one, tiled(rows, len(turns), between=255), method)
        one.set_xticks([size * (place + 0.5) for place in range(len(turns))], [f"{turn}°" for turn in turns])
        one.set_yticks([size * (place + 0.5) for place in range(len(ROWS))], list(ROWS.values()))
        one.tick_params(length=0, labelsize=8)


if __name__ == "__main__":
    run(free_form)
