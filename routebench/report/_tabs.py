"""Titles of pages for readers, and the order of their tabs."""

from types import MappingProxyType

from routebench.analysis import Runs

HINTON, TSAI, KIEFER, SMITH = "Hinton et al. 2018", "Tsai et al. 2020", "Kiefer et al.", "Smith et al."
TABS = MappingProxyType({
    "accuracy": ("", "Accuracy"),
    "overlap": ("", "Overlap"),
    "linear-probe": ("", "Rotation"),
    "viewpoint": ("", "Viewpoints"),
    "robustness": ("", "Attacks"),
    "sparsity": ("", "Sparsity"),
    "parts": ("", "Parts"),
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
})  # fmt: skip
"""By suite: the paper that it repeats, if any, and a title; in the order of tabs. Other suites come last."""


def paper_of(suite: str) -> str:
    """The paper that a shipped suite repeats; empty for any other."""
    return TABS.get(suite, ("", ""))[0]


def tab_of(suite: str) -> str:
    """Title of a suite among others of its paper."""
    words = suite.replace("-", " ").replace("_", " ")
    return TABS.get(suite, ("", words[:1].upper() + words[1:]))[1]


def heading_of(suite: str) -> str:
    """Title of a suite on its own page."""
    return ": ".join(filter(None, (paper_of(suite), tab_of(suite))))


def place_of_tab(runs: Runs) -> tuple[int, str, int]:
    """Sort key of a part's tab: by suite, then by name, the strongest preset first."""
    known = [*TABS]
    return known.index(runs.suite) if runs.suite in known else len(known), runs.suite, -runs.strength
