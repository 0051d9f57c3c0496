"""Maps of the coupling of single images, of those that are answered rightly and of others."""

from collections.abc import Iterator

import numpy as np
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Method, Runs, analysis_of, run
from routebench.analysis.coupling import figure_of_coupling
from routebench.analysis.pictures import Arrays, first_of

MOST = 8  # methods in the figure
SAME = 1e-6
"""Coupling that differs by no more is the same everywhere, as with uniform routing; its maps are not drawn."""


@analysis_of("sparsity", "coupling-pictures", place=25)
def coupling_pictures(runs: Runs) -> Analysis | None:
    """Single images, and below them maps of the coupling to the right class and to the strongest other one."""
    found = runs.examples("coupling_maps")
    if not found:
        return None
    ordered = {method: found[method] for method in sorted(found, key=lambda method: method.role)}
    varied = {method: arrays for method, arrays in ordered.items() if np.ptp(arrays["coupling_maps"]) > SAME}
    shown = {str(method): arrays for method, arrays in first_of(varied, MOST).items()}
    return Analysis(
        title="Where the coupling of single images goes",
        reading="Which places send their capsules to the right class, and which to another?",
        table=DataFrame([row for method, arrays in ordered.items() for row in _rows(method, arrays)]),
        figure=figure_of_coupling(shown),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Image", "image", lambda row: f"{row['image'] + 1}", "from left to right in the figure"),
            Column("Class", "label", "", "the right one"),
            Column("Answer", "answer", "", "of the network"),
            Column("Other", "other", "", "the class with the highest score of those that are not right"),
            Column("To the right class", "to_right", ".3f", "mean coupling coefficient over places"),
            Column("To the other", "to_other", ".3f", "likewise"),
        ),
        notes=(
            "By method: images, then coupling to the right class, then to the other; a dark place sends more.",
            "Above an image stands its class, with an arrow to the answer where that is wrong.",
            "Coupling is a mean over the types of capsules at a place, weighted by their activations.",
            "Methods whose coupling is the same everywhere are in the table alone. Each other has a scale of its own.",
            "One seed; the first right image of some classes, and the first wrong one.",
        ),
        alternative="Rows of images above two rows of maps, for each method.",
    )


def _rows(method: Method, arrays: Arrays) -> Iterator[dict[str, object]]:
    means = arrays["coupling_maps"].mean(axis=(2, 3))
    known = zip(arrays["coupling_classes"], arrays["coupling_answers"], means, strict=True)
    for image, ((label, other), answer, (to_right, to_other)) in enumerate(known):
        yield {
            "method": method, "image": image, "label": int(label), "answer": int(answer), "other": int(other),
            "to_right": float(to_right), "to_other": float(to_other),
        }  # fmt: skip


if __name__ == "__main__":
    run(coupling_pictures)
