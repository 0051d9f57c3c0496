"""Plain functions that routing methods are written in: the readable reference of everything that is computed."""

from routebench.ops.choice import highest
from routebench.ops.competition import AXES, Axis, Competition, softmax_over_parents
from routebench.ops.gaussian import description_length_logit, log_normaliser
from routebench.ops.sinkhorn import sinkhorn
from routebench.ops.squash import ABSENT, length, length_logit, squash
from routebench.ops.windows import Windows

__all__ = [
    "ABSENT",
    "AXES",
    "Axis",
    "Competition",
    "Windows",
    "description_length_logit",
    "highest",
    "length",
    "length_logit",
    "log_normaliser",
    "sinkhorn",
    "softmax_over_parents",
    "squash",
]
