"""Titles of pages for readers, and the order of their tabs."""

from types import MappingProxyType

from routebench.analysis import Runs

HINTON, TSAI, KIEFER, SMITH = "Hinton et al. 2018", "Tsai et al. 2020", "Kiefer et al.", "Smith et al."
TABS = MappingProxyType({
    "standard": ("", "Standard"),
    "accuracy": ("", "Accuracy"),
    "iterations": ("", "Iterations"),
    "overlap": ("", "Overlap"),
    "linear-probe": ("", "Rotation"),
    "viewpoint": ("", "Viewpoints"),
    "transfer": ("", "Transformed digits"),
    "robustness": ("", "Attacks"),
    "sparsity": ("", "Sparsity"),
    "parts": ("", "Parts"),
    "objects": ("", "Objects"),
    "equivariance": ("", "Equivariance"),
    "cost": ("", "Cost"),
    "hinton-table1": (HINTON, "Table 1"),
    "hinton-viewpoint": (HINTON, "Viewpoints"),
    "hinton-attacks": (HINTON, "Attacks"),
    "hinton-votes": (HINTON, "Votes"),
    "tsai-table1": (TSAI, "Table 1"),
    "tsai-iterations": (TSAI, "Iterations"),
    "tsai-overlap": (TSAI, "Overlap"),
    "tsai-cost": (TSAI, "Cost"),
    "kiefer-sparsity": (KIEFER, "Sparse inference"),
    "reconstruction": (KIEFER, "Reconstruction"),
    "smith-probes": (SMITH, "Probes"),
    "smith-inference": (SMITH, "Inference"),
    "smith-equivariance": (SMITH, "Equivariance"),
})  # fmt: skip
"""By suite: the paper that it repeats, if any, and a title; in the order of tabs. Other suites come last."""


def paper_of(suite: str) -> str:
    """The paper that a shipped suite repeats; empty for any other."""
    return TABS.get(suite, ("", ""))[0]


def is_tuning(runs: Runs) -> bool:
    """Whether a part holds trials of settings, beside which its suite's own runs are the subject."""
    return runs.protocol == "tuning"


def tab_of(runs: Runs) -> str:
    """Title of a part among others of its paper."""
    words = runs.suite.replace("-", " ").replace("_", " ")
    title = TABS.get(runs.suite, ("", words[:1].upper() + words[1:]))[1]
    return f"{title}: tuning" if is_tuning(runs) else title


def heading_of(runs: Runs) -> str:
    """Title of a part on its own page."""
    return ": ".join(filter(None, (paper_of(runs.suite), tab_of(runs))))


def place_of_tab(runs: Runs) -> tuple[int, str, bool, int, bool]:
    """Sort key of a part's tab: by suite, then by name, the strongest preset first, trials of settings last.

    `full` stands before presets of the user's own.
    """
    known = [*TABS]
    place = known.index(runs.suite) if runs.suite in known else len(known)
    return place, runs.suite, is_tuning(runs), -runs.strength.tier, runs.preset != "full"
