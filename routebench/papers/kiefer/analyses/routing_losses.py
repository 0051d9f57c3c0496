"""Losses with and without routing, per epoch and at the end, and which conclusions of the paper hold."""

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Method,
    Row,
    Runs,
    Verdict,
    analysis_of,
    figures,
    mean_of,
    palette,
    run,
)
from routebench.analysis.judging import Condition, JudgedClaim, difference, judged_in, rows_of, values_of

from ..conditions import ROUTED, UNROUTED, FourConditions, four_conditions

ACCURACY, HELD_OUT = "accuracy, %", "held-out loss, last epoch"
CLAIMS = {
    "training loss, first epoch": ("slower at first without routing", "train_loss", "min"),
    "training loss, last epoch": ("lower final training loss with routing", "train_loss", "max"),
    HELD_OUT: ("lower final held-out loss with routing", "held_out_loss", "max"),
    "test loss": ("lower test loss with routing", "loss", ""),
    ACCURACY: ("no accuracy gained by routing", "accuracy", ""),
}
"""Claims by comparison: the paper's conclusion, the metric, and the epoch as in `values_of`."""
CURVES = {"train_loss": "training", "held_out_loss": "held-out"}


@analysis_of("", "routing-losses", place=31, folder=True)
def routing_losses(parts: tuple[Runs, ...]) -> Analysis | None:
    """Losses of dynamic routing and of none with paired differences, with a decoder and without (figure 2)."""
    conditions = four_conditions(parts)
    if conditions is None:
        return None
    table = DataFrame([_row(conditions, what, decoder=decoder) for decoder in (False, True) for what in CLAIMS])
    if table["n"].eq(0).all():
        return None
    held_out = bool(table.loc[table["what"] == HELD_OUT, "n"].any())
    if not held_out:  # networks were trained on these images too
        table = table[table["what"] != HELD_OUT]
    curves = {
        (decoder, metric): _curves(conditions.runs(decoder=decoder), metric)
        for metric in CURVES
        if held_out or metric != "held_out_loss"
        for decoder in (False, True)
    }
    epochs = [line["epoch"].max() for lines in curves.values() for line in lines.values()]
    drawn = max(epochs, default=0) > 1
    return Analysis(
        title="Losses with routing and without",
        reading="Which of the paper's conclusions on losses hold here?",
        table=table,
        figure=figures.figure_of(
            _draw, curves, conditions.plain, height=2.8 * len(curves) / 2, rows=len(curves) // 2, columns=2, sharex=True
        )
        if drawn
        else None,
        columns=(
            Column("What", "what", numeric=False),
            Column("Decoder", "decoder", lambda row: "with" if row["decoder"] else "without", numeric=False),
            Column(str(Method.of(*ROUTED)), "routed", lambda row: format(row["routed"], f"±0.{_digits(row)}")),
            Column(str(Method.of(*UNROUTED)), "unrouted", lambda row: format(row["unrouted"], f"±0.{_digits(row)}")),
            Column(
                "For routing",
                "gain",
                _gain,
                "losses: without less with routing; accuracy: with less without; paired by seed",
            ),
            Column("The paper's conclusion", "claim", numeric=False),
            Column("Verdict", "verdict", numeric=False, judges=True),
            Column("Seeds", "n", explained="that have both", extra=True),
        ),
        notes=(conditions.told, *NOTES, HELD_OUT_NOTE if held_out else ALL_NOTE),
        alternative=f"Training {'and held-out ' if held_out else ''}loss per epoch, without decoder and with.",
    )


NOTES = (
    (
        "With the decoder, training loss has the reconstruction error in it: compare with and without routing, not "
        "with and without decoder. Held-out and test losses are the margin loss alone, with the decoder too."
    ),
    (
        "Holds here: the 95 % interval over seeds, paired, lies wholly on the paper's side; does not hold: wholly "
        "on the other; undecided: neither, or one seed. The paper shows one run and no interval. Nothing is "
        "corrected for the number of conclusions."
    ),
    "Lines are means over seeds, bands all seeds.",
)
HELD_OUT_NOTE = (
    "The paper draws the test loss of every epoch; here the held-out part of the training images takes its "
    "place, and test images are looked at once, in the end."
)
ALL_NOTE = (
    "The paper draws the test loss of every epoch; here test images are looked at once, in the end. Networks were "
    "trained on all training images, so that there is no held-out loss."
)


def _row(conditions: FourConditions, what: str, *, decoder: bool) -> dict[str, object]:
    runs, (claim, metric, epoch) = conditions.runs(decoder=decoder), CLAIMS[what]
    where = {} if epoch else {"split": "test", "as_trained": True}
    routed, unrouted = (values_of(runs, condition, metric, epoch, **where) for condition in (ROUTED, UNROUTED))
    named = [str(Method.of(*ROUTED)), str(Method.of(*UNROUTED))]
    gains, of = (routed, unrouted), named
    if what != ACCURACY:
        gains, of = gains[::-1], of[::-1]
    found = judged_in(runs, difference(*gains), of, no_gain=what == ACCURACY, at_first=epoch == "min")
    return {
        "what": what,
        "decoder": decoder,
        "routed": mean_of(routed.values(), within=routed.within),
        "unrouted": mean_of(unrouted.values(), within=unrouted.within),
        "gain": found.statistic,
        "n": found.statistic.n,
        "claim": claim,
        "verdict": _verdict(found),
    }


def _verdict(found: JudgedClaim) -> str:
    if not found.statistic.n:
        return Verdict.NOT_RUN
    if found.verdict == Verdict.NOT_TESTED:
        return f"{found.verdict}: networks still learn after {found.why}"
    return f"{found.verdict}: {found.why}" if found.why else found.verdict


def _digits(row: Row) -> int:
    return 2 if row["what"] == ACCURACY else 4


def _gain(row: Row) -> str:
    return format(row["gain"], f"+.{_digits(row)}")


def _curves(runs: Runs, metric: str) -> dict[Condition, DataFrame]:
    """Mean, lowest and highest loss over seeds, per epoch, by condition."""
    found = {}
    for condition in (UNROUTED, ROUTED):
        rows = rows_of(runs, condition, metric)
        rows = rows[rows["epoch"].notna()].astype({"epoch": int})
        if not rows.empty:
            line = rows.groupby("epoch")["value"].agg(mean="mean", low="min", high="max")
            found[condition] = DataFrame(line).reset_index()
    return found


def _draw(axes: list[Axes], curves: dict[tuple[bool, str], dict[Condition, DataFrame]], runs: Runs) -> None:
    for one, ((decoder, metric), lines) in zip(axes, curves.items(), strict=True):
        _panel(one, lines, runs, f"{CURVES[metric]}, {'with' if decoder else 'without'} decoder")
    for one in axes[-2:]:
        one.set_xlabel("epoch")
    for one in axes[::2]:
        one.set_ylabel("loss (log scale)")


def _panel(axes: Axes, lines: dict[Condition, DataFrame], runs: Runs, title: str) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{loss:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, nbins=4))
    axes.tick_params(labelsize=8.5)
    axes.set_title(title, fontsize=8.5)
    if not lines:
        return
    ends, colours = {}, {}
    for (label, steps), line in lines.items():
        name = str(Method.of(label, steps))
        colour = colours[name] = runs.colours.get(label, palette.MUTED)
        axes.plot(line["epoch"], line["mean"], color=colour, linestyle="-" if steps else (0, (5, 2)))
        axes.fill_between(line["epoch"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)
        ends[name] = float(line["mean"].iloc[-1])
    last = max(float(line["epoch"].max()) for line in lines.values())
    axes.set_xlim(min(0.5, last - 1), last * 1.03)
    figures.label_ends(axes, last * 1.03, ends, colours, gap=0.13)


if __name__ == "__main__":
    run(routing_losses)
