"""Losses with routing and without, epoch by epoch and in the end, and which conclusions of the paper survive."""

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.paper_claims import NOT_RUN, above_zero, below_margin, by_seed, difference
from routebench.analysis.square import ROUTED, STEPS, UNROUTED, Square, square_of

FIRST, LAST, HELD_OUT, TEST, ACCURACY = (
    "training loss, first epoch", "training loss, last epoch", "held-out loss, last epoch", "test loss", "accuracy, %",
)  # fmt: skip
CLAIMS = {
    FIRST: "slower at first without routing",
    LAST: "lower final training loss with routing",
    HELD_OUT: "lower final held-out loss with routing",
    TEST: "lower test loss with routing",
    ACCURACY: "no accuracy gained by routing",
}
CURVES = {"train_loss": "training", "held_out_loss": "held-out"}


@analysis_of("", "routing-losses", place=31, folder=True)
def routing_losses(parts: tuple[Runs, ...]) -> Analysis | None:
    """Losses of dynamic routing and of none with paired differences, with a decoder and without (figure 2)."""
    square = square_of(parts)
    if square is None:
        return None
    table = DataFrame([_row(square, what, decoder=decoder) for decoder in (False, True) for what in CLAIMS])
    if table["n"].eq(0).all():
        return None
    curves = _curves(square)
    figure = None
    if not curves.empty and curves["epoch"].max() > 1:
        with figures.look():
            figure, axes = figures.new_figure(5.6, rows=2, columns=2, sharex=True)
            for place, one in enumerate(axes):
                decoder, metric = place > 1, list(CURVES)[place % 2]
                own = curves[(curves["decoder"] == decoder) & (curves["metric"] == metric)]
                _draw(one, own, square.plain, f"{CURVES[metric]}, {_with(decoder=decoder)}")
            for one in axes[2:]:
                one.set_xlabel("epoch")
            for one in axes[::2]:
                one.set_ylabel("loss (log scale)")
    reading = _reading(table)
    return Analysis(
        title="Losses with routing and without",
        reading=reading,
        table=table,
        figure=figure,
        columns=_columns(),
        notes=_notes(square),
        alternative="Training and held-out loss per epoch, without decoder and with.",
    )


def _row(square: Square, what: str, *, decoder: bool) -> dict[str, object]:
    routed, unrouted = (_values(square, what, routed=routed, decoder=decoder) for routed in (True, False))
    means = [statistics.mean_interval([own[seed] for seed in sorted(own)]) for own in (routed, unrouted)]
    gain = difference(routed, unrouted) if what == ACCURACY else difference(unrouted, routed)
    found = (below_margin if what == ACCURACY else above_zero)(gain, "")
    interval = found.interval if found else statistics.mean_interval([])
    return {
        "what": what,
        "decoder": decoder,
        "routed": means[0].mean, "routed_low": means[0].low, "routed_high": means[0].high,
        "unrouted": means[1].mean, "unrouted_low": means[1].low, "unrouted_high": means[1].high,
        "gain": interval.mean, "gain_low": interval.low, "gain_high": interval.high,
        "n": interval.n,
        "claim": CLAIMS[what],
        "verdict": found.verdict if found else NOT_RUN,
    }  # fmt: skip


def _values(square: Square, what: str, *, routed: bool, decoder: bool) -> Mapping[int, float]:
    """By seed; of losses that are followed, those of one epoch."""
    entry = square.cells.get((routed, decoder))
    if entry is None:
        return {}
    if what == ACCURACY:
        return entry.accuracies
    rows = _own(square, routed=routed, decoder=decoder)
    if what == TEST:
        tested = (rows["metric"] == "loss") & (rows["split"] == "test")
        own = rows["test_iterations"].isna() | (rows["test_iterations"] == STEPS).fillna(False)
        return by_seed(rows[tested & own])
    rows = rows[(rows["metric"] == ("held_out_loss" if what == HELD_OUT else "train_loss")) & rows["epoch"].notna()]
    if rows.empty:
        return {}
    return by_seed(rows[rows["epoch"] == (rows["epoch"].min() if what == FIRST else rows["epoch"].max())])


def _own(square: Square, *, routed: bool, decoder: bool) -> DataFrame:
    """The results of one condition that have a value."""
    results = square.runs(decoder=decoder).results
    cells = list(square.cells[routed, decoder].cells.values())
    return results[results["cell"].isin(cells) & results["value"].notna()]


def _columns() -> tuple[Column, ...]:
    return (
        Column("What", "what", lambda row: str(row["what"]), numeric=False),
        Column("Decoder", "decoder", lambda row: "with" if row["decoder"] else "without", numeric=False),
        Column(wording.name_of(ROUTED, STEPS), "routed", lambda row: _value(row, "routed")),
        Column(UNROUTED, "unrouted", lambda row: _value(row, "unrouted")),
        Column("For routing", "gain", _gain, "losses: none less routing; accuracy: routing less none; paired by seed"),
        Column("The paper's conclusion", "claim", lambda row: str(row["claim"]), numeric=False),
        Column("Verdict", "verdict", lambda row: str(row["verdict"]), numeric=False),
        Column("Seeds", "n", lambda row: str(row["n"]), "that have both", extra=True),
    )


def _digits(row: Row) -> int:
    return 2 if row["what"] == ACCURACY else 4


def _value(row: Row, key: str) -> str:
    mean, low, high, digits = row[key], row[f"{key}_low"], row[f"{key}_high"], _digits(row)
    if math.isnan(mean):
        return wording.NOTHING
    return f"{mean:.{digits}f}" + ("" if math.isnan(low) else f" ± {(high - low) / 2:.{digits}f}")


def _gain(row: Row) -> str:
    mean, low, high = (wording.signed(row[key], _digits(row)) for key in ("gain", "gain_low", "gain_high"))
    return mean if math.isnan(row["gain_low"]) else f"{mean} [{low}, {high}]"


def _reading(table: DataFrame) -> str:
    told = []
    for decoder, own in table.groupby("decoder"):
        by_verdict: dict[str, list[str]] = {}
        for row in own.to_dict("records"):
            by_verdict.setdefault(str(row["verdict"]), []).append(f"{row['claim']} ({_gain(row)})")
        said = [f"{verdict}: {wording.listed(claims, len(CLAIMS))}" for verdict, claims in by_verdict.items()]
        told.append(f"{_with(decoder=bool(decoder))}, {'; '.join(said)}")
    return (
        f"Of what the paper concludes, {'. '.join(told[:1])}. {' '.join(one[0].upper() + one[1:] for one in told[1:])}."
    )


def _with(*, decoder: bool) -> str:
    return f"{'with' if decoder else 'without'} decoder"


def _notes(square: Square) -> tuple[str, ...]:
    plain = square.plain
    return (
        f"{plain.suite}, {plain.preset} preset, {plain.data}: {plain.model} and {square.decoded.model}.",
        (
            "With the decoder, training loss has the reconstruction error in it: compare with and without routing, not "
            "with and without decoder. Held-out and test losses are the margin loss alone, with the decoder too."
        ),
        (
            "The paper draws the test loss of every epoch; here the held-out part of the training images takes its "
            "place, and test images are looked at once, in the end."
        ),
        (
            "Holds here: the 95 % interval over seeds, paired, lies wholly on the paper's side; does not hold: wholly "
            "on the other; undecided: neither, or one seed. The paper shows one run and no interval. Nothing is "
            "corrected for the number of conclusions."
        ),
        "Lines are means over seeds, bands all seeds.",
    )


def _curves(square: Square) -> DataFrame:
    """Mean, lowest and highest loss over seeds, per condition, curve and epoch."""
    rows = []
    for (routed, decoder), entry in square.cells.items():
        own = _own(square, routed=routed, decoder=decoder)
        own = own[own["metric"].isin(list(CURVES)) & own["epoch"].notna()].astype({"epoch": int})
        found = DataFrame(own.groupby(["metric", "epoch"])["value"].agg(mean="mean", low="min", high="max"))
        rows.append(found.reset_index().assign(label=entry.label, routed=routed, decoder=decoder))
    return pd.concat(rows, ignore_index=True)


def _draw(axes: Axes, losses: DataFrame, runs: Runs, title: str) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{loss:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, nbins=4))
    axes.tick_params(labelsize=8.5)
    axes.set_title(title, fontsize=8.5)
    if losses.empty:
        return
    ends, colours = {}, {}
    for _, line in losses.groupby("routed"):
        colour = runs.colours.get(str(line["label"].iloc[0]), palette.MUTED)
        axes.plot(line["epoch"], line["mean"], color=colour, linestyle="-" if line["routed"].iloc[0] else (0, (5, 2)))
        axes.fill_between(line["epoch"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)
        short = ROUTED if line["routed"].iloc[0] else UNROUTED
        ends[short], colours[short] = float(line["mean"].iloc[-1]), colour
    last = float(losses["epoch"].max())
    axes.set_xlim(min(0.5, last - 1), last * 1.03)
    figures.label_ends(axes, last * 1.03, ends, colours, gap=0.13)


if __name__ == "__main__":
    run(routing_losses)
