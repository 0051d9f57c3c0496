"""Probes of models without labels that were trained on rotated digits."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from pandas import DataFrame, Series

from routebench.analysis import (
    Analysis,
    Column,
    Method,
    Runs,
    analysis_of,
    base_of,
    corrected,
    difference,
    figures,
    run,
    wording,
)
from routebench.analysis.probe import BOTH, Line, by_seed, probed, turned_up_to

FEATURES = {
    BOTH: "-",
    "presences": (0, (4, 2)),
    "posterior": (0, (4, 2)),
    "prior": (0, (1, 1.2)),
    "lengths": (0, (4, 2)),
}
"""The features that the paper compares, and the styles of their lines."""
VAE = "vae"


@analysis_of("linear-probe", "probe-rotated-training", place=25)
def probe_rotated_training(runs: Runs) -> Analysis | None:
    """Accuracy (%) of probes of models without labels, trained and tested on turned digits; Smith et al., figure 4."""
    found = turned_up_to(probed(runs), "alike")
    found = found[found["unsupervised"] & found["feature"].isin(FEATURES)]
    if len(set(found["angle"])) < 2:
        return None
    table = _with_leads(found, by_seed(runs))
    return Analysis(
        title="Trained on turned digits, without labels",
        reading="Which features are ahead of a VAE that was trained alike?",
        table=table,
        figure=figures.figure_of(_draw, table, runs, height=3.3),
        columns=(
            Column("Model", "method", numeric=False),
            Column("Feature", "feature", explained="what the probe reads", numeric=False),
            Column("Up to, °", "angle", explained="largest angle of training and test digits"),
            Column("Accuracy, %", "mean", "±.1", "of the probe, with its 95 % interval over seeds"),
            Column("Lead over the VAE", "gain", "+.2", "points, paired by seed"),
            Column("p (Holm)", "gain.p_holm", "p", "over all leads of the table"),
            Column("Seeds", "mean.n", extra=True),
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


def _with_leads(found: DataFrame, seeds: Mapping[Line, Mapping[int, float]]) -> DataFrame:
    """The table with the `gain` of each row over the VAE, empty for the VAE."""
    gains = []
    for method, feature, angle in zip(found["method"], found["feature"], found["angle"], strict=True):
        vae = base_of(method, VAE, found["method"])
        theirs = seeds.get((vae, BOTH, angle, angle), {}) if vae and method != vae else {}
        gains.append(difference(seeds[method, feature, angle, angle], theirs))
    return found.assign(gain=Series(corrected(gains), found.index, dtype=object))


def _called(method: Method, feature: object) -> str:
    if feature == BOTH:
        return str(method) if method.label == VAE else f"all features of {method}"
    return f"{feature} of {method}"


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    angles = sorted(set(table["angle"]))
    lines = list(table.groupby(["method", "feature"], sort=False))
    step = 1.2 * ((angles[-1] - angles[0]) / 180)  # so that intervals stand side by side
    for place, (_, line) in enumerate(lines):
        beside = line.assign(angle=line["angle"] + step * (place - (len(lines) - 1) / 2))
        _draw_line(axes, beside, runs, figures.MARKERS[place % len(figures.MARKERS)])
    axes.set_xticks(angles)
    axes.set_ylim(0, 101)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("largest angle of training and test digits, degrees")
    axes.set_title("Trained and tested on turned digits: accuracy, %")
    figures.legend_below(axes)


def _draw_line(axes: Axes, line: DataFrame, runs: Runs, marker: str) -> None:
    feature = str(line["feature"].iloc[0])
    figures.lines(
        axes, line, "angle", "mean", runs.colour, marker=marker, linestyle=FEATURES[feature], linewidth=1.6,
        label=lambda method: wording.in_lines(_called(method, feature), 44),
    )  # fmt: skip


if __name__ == "__main__":
    run(probe_rotated_training)
