"""What each method reached in the published results, for its page."""

from functools import cache
from pathlib import Path

from routebench.analysis import Runs, open_folder
from routebench.analysis.comparison import comparison_of
from routebench.analysis.named import named_pairs
from routebench.registry import routing

ROOT = Path(__file__).parents[2]
COMPARED = {
    "standard": ("standard", "full", "Fashion-MNIST"),
    "features": ("features", "standard", "features of photographs"),
    "routers": ("standard", "full", "Fashion-MNIST"),
}
"""By published folder: the suite and the preset that compare methods which were tuned alike, and their data."""
CAVEATS = {
    ("standard", "self-routing"): "without its authors' primary capsules; on 3,600 digits such as theirs raise 85.6 to "
    "92.9 %",
}
"""Words beside the number of a method in a folder, by its label, besides the method's own note."""


def rows(name: str) -> list[list[str]]:
    """A row per published comparison and T: data, T, accuracy in %, and gain over uniform routing in points.

    Args:
        name: the method's registered name.
    """
    found = []
    for folder, (*_, data) in COMPARED.items():
        runs = compared(folder)
        chosen = {pair.ours.method for pair in named_pairs(runs)}
        own = (row for row in comparison_of(runs).every.to_dict("records") if row["method"].name == name)
        for row in sorted(own, key=lambda row: row["method"]):
            method, gain = row["method"], row["gain"]
            untested = gain.kind if gain.known and not gain.has_limits else ""
            caveats = (untested, CAVEATS.get((folder, method.label)), routing[name].note)
            caveat = "".join(f" ({told})" for told in caveats if told)
            variant = f", {method.variant}" if method.variant else ""
            same = gain.low == gain.high == 0
            explored = gain.known and not same and chosen and method not in chosen
            marked = f"{method.iterations or '–'}{' †' if explored else ''}"
            told = "the same function" if same else f"{gain:+.2}"
            found.append([f"[{data}](../found/{folder}.md){variant}", marked, f"{row['mean']:±.2}", f"{told}{caveat}"])
    return found


@cache
def compared(folder: str) -> Runs:
    """The runs of a published comparison.

    Args:
        folder: its name in `reports`.
    """
    parts = open_folder(ROOT / "reports" / folder).parts
    (runs,) = (part for part in parts if (part.suite, part.preset) == COMPARED[folder][:2])
    return runs
