"""The work of one routing iteration, fast: the sweep over children, in plain torch and in kernels."""

from routebench.kernels import products, reference
from routebench.kernels.backend import BACKENDS, KERNELS, noting, sweep, unavailable, use, using, wished
from routebench.kernels.convolution import Convolution
from routebench.kernels.reference import is_transformed
from routebench.kernels.sweep import Sums, Sweep

__all__ = [
    "BACKENDS",
    "KERNELS",
    "Convolution",
    "Sums",
    "Sweep",
    "is_transformed",
    "noting",
    "products",
    "reference",
    "sweep",
    "unavailable",
    "use",
    "using",
    "wished",
]
