"""What inference without the encoder gains: the bound, the reconstruction and the class, and what it costs."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, run, wording
from routebench.analysis.means import by_seed, means_beside, value_with_interval
from routebench.analysis.pictures import first_arrays, hang, on_paper, tiled

ENCODER, FREE = "encoder", "free-form"
MEASURES = {
    "bound": "free_form_bound",
    "error": "free_form_error",
    "accuracy": "free_form_accuracy",
    "refitted": "refitted_accuracy",
    "refitted_both": "refitted_both_accuracy",
    "reencoded": "reencoded_accuracy",
    "seconds": "seconds_per_image",
}
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
    examples = dict(list(first_arrays(runs, "turned_free_form").items())[:MOST_MODELS])
    figure = None
    if examples:
        with figures.look():
            figure, axes = figures.new_figure(0.2 + 0.95 * len(ROWS) / 2 * len(examples), rows=len(examples))
            for one, (name, arrays) in zip(axes, examples.items(), strict=True):
                _draw(one, name, arrays)
    reading = _reading(ours)
    return Analysis(
        title="Free-form inference",
        reading=reading,
        table=_with_published(ours, runs),
        figure=figure,
        columns=_columns(),
        notes=_notes(),
        alternative="A digit in twelve turns, below it as the encoder and as free-form inference draw it.",
    )


def _table(runs: Runs) -> DataFrame:
    """One row per model and angle, with differences and ratios paired by seed; `p_holm` of those in accuracy."""
    wanted = {
        f"{measure}_{key}": (metric, {"inference": inference})
        for measure, metric in MEASURES.items()
        for inference, key in ((ENCODER, "encoder"), (FREE, "free"))
    }
    table = means_beside(runs, wanted, ["angle"])
    if table.empty:
        return table
    known = {
        (measure, inference, angle): by_seed(runs, metric, {"inference": inference, "angle": angle})
        for measure, metric in MEASURES.items()
        for inference in (FREE, ENCODER)
        for angle in set(table["angle"])
    }
    for place, row in zip(table.index, table.to_dict("records"), strict=True):
        for measure in MEASURES:
            ours, theirs = (known[measure, one, row["angle"]].get(row["name"], {}) for one in (FREE, ENCODER))
            if measure == "seconds":
                found = _ratio(ours, theirs)
                column = "ratio"
            else:
                found = statistics.paired_difference(ours, theirs)
                column = f"{measure}_gain"
                table.loc[place, f"{measure}_p"] = found.p_value
            for part, end in (("mean", ""), ("low", "_low"), ("high", "_high")):
                table.loc[place, f"{column}{end}"] = getattr(found, part)
    table["p_holm"] = statistics.holm(table["accuracy_p"].to_numpy(dtype=float))
    table = table.assign(angle=table["angle"].astype(int), published_id="", control=table["role"] == "control")
    return table.sort_values(["control", "name", "angle"], kind="stable", ignore_index=True).drop(columns="control")


def _ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> statistics.Interval:
    shared = [seed for seed in ours if theirs.get(seed, 0) > 0]
    return statistics.mean_interval([ours[seed] / theirs[seed] for seed in shared])


def _with_published(table: DataFrame, runs: Runs) -> DataFrame:
    """The published gain and cost below our rows of the same model on the same data."""
    known = published.load_published().set_index("id").loc[list(PUBLISHED.values())]
    if not (table["label"] == METHOD).any() or not (known["data"] == runs.data).all():
        return table
    row: dict[str, object] = dict.fromkeys(map(str, table), math.nan)
    row |= {"name": f"{METHOD}, published", "label": METHOD, "role": "", "n": 0, "angle": 0}
    row |= {column: float(known["value"][identifier]) for column, identifier in PUBLISHED.items()}
    row["published_id"] = " and ".join(PUBLISHED.values())
    last = int(np.flatnonzero(table["label"] == METHOD)[-1]) + 1
    rows = table.to_dict("records")
    return DataFrame([*rows[:last], row, *rows[last:]])


def _columns() -> tuple[Column, ...]:
    both = [
        ("Bound, nats", "bound", 1, "of the evidence, mean over the same samples for both"),
        ("Error", "error", 1, "squared, summed over pixels in [0, 1]"),
        ("Accuracy, %", "accuracy", 1, "of a linear probe on t0, fitted to what the encoder says of training images"),
        ("Refitted, %", "refitted", 1, "of one fitted to a few training images by the same kind of inference"),
        ("Refitted, with poses, %", "refitted_both", 1, "likewise, on t0 and A0"),
        ("Re-encoded, %", "reencoded", 1, "of the first probe on what the object encoder says of the parts found"),
    ]
    pairs = [
        column
        for title, key, digits, told in both
        for column in (
            Column(title, f"{key}_encoder", _shown(f"{key}_encoder", digits), f"encoder: {told}"),
            Column(
                f"{_bare(title)}, free-form",
                f"{key}_free",
                _shown(f"{key}_free", digits),
                "the same after free-form inference",
            ),
            Column(
                f"{_bare(title)}, change",
                f"{key}_gain",
                _change(f"{key}_gain", digits),
                "paired by seed, 95 % interval",
            ),
        )
    ]
    return (
        Column("Model", "name", _name, numeric=False),
        Column("Up to, °", "angle", lambda row: str(row["angle"]), "largest angle of test digits, trained upright"),
        *pairs,
        Column(
            "p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), "of changes in accuracy", extra=True
        ),
        Column("ms", "seconds_encoder", _milliseconds("seconds_encoder"), "encoder: per image, in batches", extra=True),
        Column("ms, free-form", "seconds_free", _milliseconds("seconds_free"), "per image, in batches", extra=True),
        Column("Time ×", "ratio", _times, "seconds of free-form inference over those of the encoder"),
        Column("Seeds", "n", lambda row: str(row["n"] or wording.NOTHING), extra=True),
    )


def _bare(title: str) -> str:
    """Without the unit."""
    return title.removesuffix(", %").removesuffix(", nats")


def _name(row: Row) -> str:
    return str(row["name"]) if row["published_id"] else wording.marked(row)


def _shown(key: str, digits: int) -> Callable[[Row], str]:
    return lambda row: value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], digits)


def _change(key: str, digits: int) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        if row["published_id"] and not math.isnan(row[key]):
            return f"about {wording.signed(row[key], digits)}"
        if math.isnan(row[key]) or math.isnan(row[f"{key}_low"]):
            return wording.signed(row[key], digits)
        limits = (wording.signed(row[f"{key}_low"], digits), wording.signed(row[f"{key}_high"], digits))
        return f"{wording.signed(row[key], digits)} [{', '.join(limits)}]"

    return text


def _milliseconds(key: str) -> Callable[[Row], str]:
    return lambda row: wording.NOTHING if math.isnan(row[key]) else f"{1000 * row[key]:.3g}"


def _times(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["ratio"]) else f"{row['ratio']:,.0f}"


def _reading(table: DataFrame) -> str:
    """Of the first model, the others are in the table: gains upright and at the largest angle, error and cost."""
    rows = table[table["name"] == table["name"].iloc[0]].to_dict("records")
    first, last = rows[0], rows[-1]
    there = "there " if last["angle"] != first["angle"] else ""
    told = (
        f"Free-form inference changes the accuracy of {first['name']} by {_changes(first, last, 'accuracy')}, and the "
        f"squared error {there}from {last['error_encoder']:.0f} to {last['error_free']:.0f}, at {_times(last)} times "
        "the time"
    )
    if math.isnan(first["refitted_both_gain"]):
        return f"{told}."
    return f"{told}; that of a probe fitted anew, to presences and poses, by {_changes(first, last, 'refitted_both')}."


def _changes(first: Row, last: Row, measure: str) -> str:
    told = [f"{_points(first, measure)} on {_turned(first)} digits"]
    if last["angle"] != first["angle"]:
        told.append(f"{_points(last, measure)} on {_turned(last)} ones")
    return " and ".join(told)


def _points(row: Row, measure: str) -> str:
    gain = f"{wording.signed(row[f'{measure}_gain'], 1)} points"
    if math.isnan(row[f"{measure}_gain_low"]):
        return f"{gain} (one seed)"
    limits = (wording.signed(row[f"{measure}_gain_{end}"], 1) for end in ("low", "high"))
    return f"{gain} [{', '.join(limits)}]"


def _turned(row: Row) -> str:
    return "upright" if row["angle"] == 0 else f"up to {row['angle']}° turned"


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


def _draw(axes: Axes, name: str, arrays: Mapping[str, NDArray[np.uint8]]) -> None:
    turns = [int(turn) for turn in arrays["turns"]]
    size = arrays["turned"].shape[-1] + 1
    rows = np.concatenate([on_paper(arrays[key]) for key in ROWS])
    hang(axes, tiled(rows, len(turns), between=255), wording.in_lines(name, 52))
    axes.set_xticks([size * (place + 0.5) for place in range(len(turns))], [f"{turn}°" for turn in turns])
    axes.set_yticks([size * (place + 0.5) for place in range(len(ROWS))], list(ROWS.values()))
    axes.tick_params(length=0, labelsize=8)


if __name__ == "__main__":
    run(free_form)
