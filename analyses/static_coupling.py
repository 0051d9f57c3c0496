"""The dependence of coupling on the image, and what networks lose without it; starved parents and gradients."""

import math
from dataclasses import replace

from pandas import Series

from routebench.analysis import (
    METHOD,
    SEEDS,
    Analysis,
    Column,
    Estimate,
    Mean,
    Method,
    Runs,
    SeedValues,
    analysis_of,
    corrected,
    difference,
    run,
    table_of,
)

CLASSES = {"layer": "classes", "as_trained": True}
COLUMNS = (
    METHOD,
    Mean.of("static_accuracy", title="Static (%)"),
    Column("Lost", "lost", "+.1", "points of accuracy less than with the network's own coupling"),
    Column("p (Holm)", "lost.p_holm", "p"),
    Mean.of("share_between", title="Between images", where=CLASSES),
    Mean.of("starved_share", title="Starved", where=CLASSES),
    Mean.of("gradient_norm", "at_primary", "Gradient at children", "norm of the gradient of the loss that the network "
            "was trained with, with respect to the poses of primary capsules; mean over 250 training images",
            where={"layer": "primary"}),
    Mean.of("gradient_norm", "at_classes", "At parents", "the same, of class capsules", where={"layer": "classes"}),
    SEEDS,
)  # fmt: skip


@analysis_of("sparsity", "static-coupling", place=15)
def static_coupling(runs: Runs) -> Analysis | None:
    """Accuracy per method with mean coupling, variance of coupling between images, starved parents, gradients."""
    table = table_of(runs, COLUMNS)
    lost = _lost(runs)
    table = table[[method in lost for method in table["method"]]].reset_index(drop=True)
    if table.empty:
        return None
    table["lost"] = Series([lost[method] for method in table["method"]])
    return Analysis(
        title="Is coupling dynamic?",
        reading="What do networks lose if coupling no longer depends on the image?",
        table=table,
        columns=COLUMNS,
        notes=(
            "Poses and activations still depend on the image; only coupling is held, in every sweep of every layer.",
            "A loss is tested against 0 over seeds, with Holm's correction.",
            "Where coupling is the same for all images and nothing is lost, there is no test.",
        ),
    )


def _lost(runs: Runs) -> dict[Method, Estimate]:
    """The loss of each method, tested against none.

    Where coupling is the same for all images and nothing is lost, the loss is 0 by construction. There is no test then,
    and none to count in Holm's correction, which it would make stricter for the others.
    """
    losses, shares = runs.by_seed("static_loss"), runs.by_seed("share_between", **CLASSES)
    found = {
        method: difference(own, SeedValues(dict.fromkeys(own, 0.0), within=(0.0, 0.0)))
        for method, own in losses.items()
    }
    tested = [method for method, own in losses.items() if any(own.values()) or any(shares.get(method, {}).values())]
    untested = {method: replace(one, p=math.nan) for method, one in found.items()}
    return untested | dict(zip(tested, corrected([found[method] for method in tested]), strict=True))


if __name__ == "__main__":
    run(static_coupling)
