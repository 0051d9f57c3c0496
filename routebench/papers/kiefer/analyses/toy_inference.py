"""Effect of a penalty on hidden activities on inference, in the toy network of Kiefer et al. It needs no results."""

import numpy as np
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run

from ..predictive_coding import toy

PANELS = {
    "A: no penalty": toy.example(),
    f"B: L1 of {toy.EXAMPLE_L1:g}": toy.example(l1=toy.EXAMPLE_L1),
    f"C: L2 of {toy.EXAMPLE_L2:g}": toy.example(l2=toy.EXAMPLE_L2),
}


@analysis_of("predictive-coding", "toy-inference", place=20)
def toy_inference(runs: Runs) -> Analysis | None:  # noqa: ARG001  # the network is its own example
    """Hidden activities of three units after inference without a penalty, with L1 and with L2 (figure 3)."""
    table = DataFrame([row for panel, network in PANELS.items() for row in _rows(panel, network)])
    low, high = toy.strengths_with_one_winner(np.array(toy.EXAMPLE_INPUT), toy.EXAMPLE_TARGET)
    return Analysis(
        title="Sparse inference in a network of three hidden units",
        reading="Does a penalty make inferred activity sparse?",
        table=table,
        figure=figures.figure_of(_draw, table, height=2.4, columns=len(PANELS), sharey=True),
        columns=(
            Column("Panel", "panel", "", "of the paper's figure 3", numeric=False),
            Column("Unit", "unit"),
            Column("Input", "input", "g"),
            Column("Activity", "activity", ".3f", "after inference"),
            Column("Closed form", "closed_form", ".3f", "solved without steps"),
            Column("Share", "share", ".3f", "of the sum of absolute activities"),
        ),
        notes=(
            (
                f"Input {', '.join(f'{value:g}' for value in toy.EXAMPLE_INPUT)} and target {toy.EXAMPLE_TARGET:g}, "
                "both clamped; 500 proximal gradient steps of 0.05. The paper gives none of these numbers, nor the "
                "strengths: they are ours, chosen so that its three panels come out."
            ),
            (
                f"For this input one unit alone is active with an L1 strength of {low:g} to {high:g}: "
                "below, others are too, above, none is."
            ),
            "The share is presumably what the paper calls probability mass.",
        ),
        alternative="Bars of the share of each hidden unit, three panels.",
    )


def _rows(panel: str, network: toy.Toy) -> list[dict[str, object]]:
    hidden, known = toy.infer(network).hidden[-1], toy.at_rest(network)
    return [
        {"panel": panel, "unit": unit + 1, "input": given, "activity": float(hidden[unit]),
         "closed_form": float(known[unit]), "share": float(share)}
        for unit, (given, share) in enumerate(zip(network.x, toy.shares(hidden), strict=True))
    ]  # fmt: skip


def _draw(grid: list[Axes], table: DataFrame) -> None:
    for axes, (panel, rows) in zip(grid, table.groupby("panel"), strict=True):
        best = rows["share"].idxmax()
        colours = [palette.HUES[0] if place == best else palette.MUTED for place in rows.index]
        axes.bar(rows["unit"], rows["share"], color=colours, width=0.7)
        for unit, share in zip(rows["unit"], rows["share"], strict=True):
            axes.text(unit, share + 0.02, f"{share:.2f}", ha="center", fontsize=8.5)
        axes.set(ylim=(0, 1.12), xticks=[*rows["unit"]], xlabel="hidden unit")
        axes.set_yticks([0, 0.5, 1])
        axes.grid(visible=False, axis="x")
        axes.set_title(str(panel), fontsize=9.5)
    grid[0].set_ylabel("share of activity")


if __name__ == "__main__":
    run(toy_inference)
