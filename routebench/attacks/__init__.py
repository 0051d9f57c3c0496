"""Adversarial attacks through foolbox, what they are aimed at, and how what they return is judged."""

import warnings

with warnings.catch_warnings():  # foolbox 3.3.4 imports from a name that SciPy will drop in 2.0
    warnings.simplefilter("ignore", DeprecationWarning)
    import foolbox  # noqa: F401  # here, so that every file of this package finds it imported

from routebench.attacks._ball import (
    ADAPTIVE,
    BEST,
    ITERATIVE,
    NO_LOSS,
    SCORES,
    WHITE,
    Ball,
    Plan,
    targeted_success,
)
from routebench.attacks._gradient import GRADIENT, fgsm, momentum, pgd
from routebench.attacks._losses import ATTACKED, attack_loss, difference, distinct
from routebench.attacks._minimal import FROM_DECISIONS, WITH_GRADIENTS, Shortest, shortest
from routebench.attacks._probes import constant_coupling, gradient_profile, largest_difference
from routebench.attacks._stored import Outcome, attack_within, grey_levels, to_bytes
from routebench.attacks._victim import Victim, under_attack

__all__ = [
    "ADAPTIVE",
    "ATTACKED",
    "BEST",
    "FROM_DECISIONS",
    "GRADIENT",
    "ITERATIVE",
    "NO_LOSS",
    "SCORES",
    "WHITE",
    "WITH_GRADIENTS",
    "Ball",
    "Outcome",
    "Plan",
    "Shortest",
    "Victim",
    "attack_loss",
    "attack_within",
    "constant_coupling",
    "difference",
    "distinct",
    "fgsm",
    "gradient_profile",
    "grey_levels",
    "largest_difference",
    "momentum",
    "pgd",
    "shortest",
    "targeted_success",
    "to_bytes",
    "under_attack",
]
