"""Whether models that learn without labels still tell classes apart once they are trained on turned digits."""

import math

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.means import by_seed, value_with_interval
from routebench.analysis.probe import BOTH, probed, turned_up_to

FEATURES = {
    BOTH: "-",
    "presences": (0, (4, 2)),
    "posterior": (0, (4, 2)),
    "prior": (0, (1, 1.2)),
    "lengths": (0, (4, 2)),
}
"""Those that the paper compares, and how their lines are drawn."""
VAE = "vae"
ALPHA = 0.05


@analysis_of("linear-probe", "probe-rotated-training", place=25)
def probe_rotated_training(runs: Runs) -> Analysis | None:
    """Accuracy (%) of probes of models without labels, trained and tested on turned digits; Smith et al., figure 4."""
    found = turned_up_to(probed(runs), "alike")
    found = found[found["unsupervised"] & found["feature"].isin(FEATURES)]
    if len(set(found["angle"])) < 2:
        return None
    table = _with_leads(runs, found)
    reading = _reading(runs, table)
    with figures.look():
        figure, (axes,) = figures.new_figure(3.3)
        _draw(axes, table, runs)
    return Analysis(
        title="Trained on turned digits, without labels",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Model", "name", lambda row: str(row["name"]), numeric=False),
            Column("Feature", "feature", lambda row: str(row["feature"]), "what the probe reads", numeric=False),
            Column("Up to, °", "angle", lambda row: str(row["angle"]), "largest angle of training and test digits"),
            Column("Accuracy, %", "mean", _accuracy, "of the probe, with its 95 % interval over seeds"),
            Column("Lead over the VAE", "gain", wording.gain_with_interval, "points, paired by seed"),
            Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), "over all leads of the table"),
            Column("Seeds", "n", lambda row: str(row["n"]), extra=True),
        ),
        notes=(
            (
                "Models, probes and test digits all see digits turned by up to the angle; 0 is upright. Smith et al., "
                "figure 4: there accuracy falls with the angle, and neither presences of generative capsules nor the "
                "stacked capsule autoencoder are reliably ahead of a VAE."
            ),
            "The lead is over the probe of all latents of the VAE, trained alike. Bars: 95 % t intervals over seeds.",
        ),
        alternative="Lines of accuracy over the largest angle, one per model and feature.",
    )


def _values(runs: Runs, name: str, feature: str, angle: int) -> dict[int, float]:
    where = {"split": "test", "kind": "maximal", "train_angle": angle, "angle": angle, "feature": feature}
    return by_seed(runs, "probe_accuracy", where).get(name, {})


def _with_leads(runs: Runs, found: DataFrame) -> DataFrame:
    """The table with `gain*`, `p` and `p_holm` of each row over the VAE; NaN for the VAE itself."""
    rows = []
    for row in found.sort_values(["name", "feature", "angle"], kind="stable").to_dict("records"):
        own = _values(runs, row["name"], row["feature"], row["angle"])
        theirs = _values(runs, VAE, BOTH, row["angle"])
        lead = statistics.paired_difference(own, {} if row["name"] == VAE else theirs)
        rows.append({**row, "gain": lead.mean, "gain_low": lead.low, "gain_high": lead.high, "p": lead.p_value})
    table = DataFrame(rows)
    return table.assign(p_holm=statistics.holm(table["p"].to_numpy(dtype=float)))


def _accuracy(row: Row) -> str:
    return value_with_interval(row["mean"], row["low"], row["high"], 1)


def _reading(runs: Runs, table: DataFrame) -> str:
    first, last = int(table["angle"].min()), int(table["angle"].max())
    at = "upright" if first == 0 else f"by up to {first}°"
    told = []
    for (name, feature), rows in table.groupby(["name", "feature"], sort=False):
        means = rows.set_index("angle")["mean"]
        if first in means and last in means:
            then, before = (_values(runs, str(name), str(feature), angle) for angle in (last, first))
            lost = statistics.paired_difference(then, before)
            limits = {"gain": lost.mean, "gain_low": lost.low, "gain_high": lost.high}
            told.append((lost.mean, f"{wording.gain_with_interval(limits)} for {_called(name, feature)}"))
    told.sort(key=lambda one: one[0])
    text = "Models were not trained both with small and large angles"
    if told:
        changes = wording.listed([text for _, text in told], 5)
        text = f"Trained and tested on digits turned by up to {last}° and not {at}, probes change by {changes} points"
    return f"{text}; {_leads(table[table['angle'] == last], last)}."


def _leads(rows: DataFrame, angle: int) -> str:
    compared = rows[rows["gain"].notna()]
    if compared.empty:
        return "there is no VAE beside them"
    tested = compared[compared["p_holm"].notna()]
    names = {
        sign: [_called(row["name"], row["feature"]) for row in tested.to_dict("records") if _sign(row) == sign]
        for sign in (1, -1)
    }
    ahead = f"ahead of the VAE: {wording.listed(names[1])}" if names[1] else "nothing is shown to be ahead of the VAE"
    behind = f", behind it: {wording.listed(names[-1])}" if names[-1] else ""
    return f"at up to {angle}°, {'shown to be ' if names[1] else ''}{ahead}{behind}"


def _sign(row: Row) -> int:
    """1 or -1 for a lead that is significant, else 0."""
    return int(math.copysign(1, row["gain"])) if row["p_holm"] < ALPHA else 0


def _called(name: object, feature: object) -> str:
    if feature == BOTH:
        return str(name) if name == VAE else f"all features of {name}"
    return f"{feature} of {name}"


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    angles = sorted(set(table["angle"]))
    lines = list(table.groupby(["name", "feature"], sort=False))
    step = (angles[-1] - angles[0]) / 180
    for place, ((name, feature), line) in enumerate(lines):
        colour = runs.colours.get(str(line["label"].iloc[0]), palette.MUTED)
        x = line["angle"] + 1.2 * step * (place - (len(lines) - 1) / 2)  # so that intervals stand side by side
        axes.plot(
            x, line["mean"], color=colour, linestyle=FEATURES[str(feature)], linewidth=1.6, markersize=4,
            marker=figures.MARKERS[place % len(figures.MARKERS)], label=wording.in_lines(_called(name, feature), 44),
        )  # fmt: skip
        axes.vlines(x, line["low"], line["high"], color=colour, linewidth=1.4, alpha=0.7)
    axes.set_xticks(angles)
    axes.set_ylim(0, 101)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("largest angle of training and test digits, degrees")
    axes.set_title("Trained and tested on turned digits: accuracy, %")
    figures.legend_below(axes)


if __name__ == "__main__":
    run(probe_rotated_training)
