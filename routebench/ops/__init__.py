"""Plain functions that routing methods are written in: the readable reference of everything that is computed."""

from routebench.ops.gaussian import description_length_logit, log_normaliser
from routebench.ops.squash import length, length_logit, squash

__all__ = ["description_length_logit", "length", "length_logit", "log_normaliser", "squash"]
