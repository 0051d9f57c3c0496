"""Numbers that describe what capsules do: how concentrated their activity is, where coupling goes, what it groups."""

from routebench.measures.activity import (
    active,
    dead_share,
    gini,
    hoyer,
    lifetime_sparsity,
    norm_entropy,
    population_sparsity,
    spread_over_images,
    top_share,
)
from routebench.measures.coupling import coupling_entropy, effective_parents, share_between, starved_share, t_score
from routebench.measures.grouping import adjusted_rand_index
from routebench.measures.residual import residual
from routebench.measures.several_labels import HALF, Answers, best_threshold

__all__ = [
    "HALF",
    "Answers",
    "active",
    "adjusted_rand_index",
    "best_threshold",
    "coupling_entropy",
    "dead_share",
    "effective_parents",
    "gini",
    "hoyer",
    "lifetime_sparsity",
    "norm_entropy",
    "population_sparsity",
    "residual",
    "share_between",
    "spread_over_images",
    "starved_share",
    "t_score",
    "top_share",
]
