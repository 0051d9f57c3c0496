"""The von Mises-Fisher distribution on the unit sphere: constant, log-density, mean resultant length and samples.

Its density at a unit vector x of R^d is `C_d(kappa) exp(kappa <m, x>)`, with the mean direction m, a unit vector, the
concentration kappa >= 0, and `C_d(kappa) = kappa^v / ((2 pi)^(d/2) I_v(kappa))`, v = d/2 - 1 (Mardia and Jupp,
Directional Statistics, 2000, equation 9.3.4).

How the Bessel function is dealt with. Its order is raised to at least `ORDER` by the recurrence of the ratios

    q_u = I_(u+1)(kappa) / (kappa I_u(kappa)),   q_(u-1) = 1 / (2 u + kappa^2 q_u),

all of whose terms are positive, so that nothing cancels and errors shrink on the way down. At that order Debye's
expansion in 1 / sqrt(u^2 + kappa^2) (DLMF 10.41.3 and 10.41.11) holds to the last digit for every kappa, small and
large alike: no regions have to be joined. Powers of kappa are cancelled on paper, so that kappa = 0 is allowed. Other
ways fail somewhere: `scipy.special.ive` underflows at high orders and knows no GPU, the power series needs about kappa
terms, the expansion for large arguments needs kappa >> d^2, and a continued fraction alone gives no constant.

Everything is computed in float64, whatever the dtype of kappa, and given back in that of kappa: concentrations are few.
"""

import math
from fractions import Fraction
from functools import cache

import torch
from jaxtyping import Float
from torch import Generator, Tensor

ORDER = 32
"""Order of the Bessel function from which on Debye's expansion alone is used."""

TERMS = 14
"""Number of terms of the expansion, besides its first; the first left out is below 1e-17 at order `ORDER`."""


def log_constant(kappa: Float[Tensor, "*axes"], dimension: int) -> Float[Tensor, "*axes"]:
    """log C_d(kappa). Its gradient is minus `resultant_length`, and can be differentiated again.

    Args:
        kappa: concentrations, not negative.
        dimension: d, at least 2: the sphere is that of unit vectors in R^d.
    """
    value: Tensor = _LogConstant.apply(kappa, _at_least_two(dimension), False)  # type: ignore[no-untyped-call]
    return value


def log_peak(kappa: Float[Tensor, "*axes"], dimension: int) -> Float[Tensor, "*axes"]:
    """log C_d(kappa) + kappa: the log-density at the mean direction, without the loss of digits of that sum.

    Args:
        kappa, dimension: as for `log_constant`.
    """
    value: Tensor = _LogConstant.apply(kappa, _at_least_two(dimension), True)  # type: ignore[no-untyped-call]
    return value


def log_density(
    points: Float[Tensor, "*axes d"], mean: Float[Tensor, "*axes d"], kappa: Float[Tensor, "*axes"]
) -> Float[Tensor, "*axes"]:
    """log-density with respect to the area of the unit sphere, in nats; axes broadcast.

    `<m, x>` is taken as 1 - |x - m|^2 / 2, which for unit vectors is the same and keeps its digits when kappa is large.

    Args:
        points: unit vectors.
        mean: unit vectors, the mean directions.
        kappa: concentrations, not negative.
    """
    return log_peak(kappa, points.shape[-1]) - 0.5 * kappa * (points - mean).square().sum(dim=-1)


def resultant_length(kappa: Float[Tensor, "*axes"], dimension: int) -> Float[Tensor, "*axes"]:
    """A_d(kappa) = I_(d/2)(kappa) / I_(d/2-1)(kappa): the length of the distribution's mean vector, in [0, 1).

    Mardia and Jupp, Directional Statistics, 2000, equation 9.3.8. Differentiable by ordinary operations.

    Args:
        kappa, dimension: as for `log_constant`.
    """
    wide = kappa.double()
    raised, _ = _raised(wide, _at_least_two(dimension))
    return (wide * raised).to(kappa.dtype)


class _LogConstant(torch.autograd.Function):
    """log C_d(kappa), with kappa added where `peak`; keeps nothing but kappa for its gradient."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, kappa: Tensor, dimension: int, peak: bool) -> Tensor:
        ctx.save_for_backward(kappa)
        ctx.dimension, ctx.peak = dimension, peak  # type: ignore[attr-defined]
        wide = kappa.double()
        _, logarithms = _raised(wide, dimension)
        order = _top_order(dimension)
        root = torch.hypot(wide, torch.full_like(wide, order))
        series, _ = _debye(root, order)
        exponent = -(order**2) / (wide + root) if peak else -root
        rest = order * (order + root).log() + 0.5 * root.log() - series.log()
        constant = 0.5 * (1 - dimension) * math.log(2 * math.pi)
        return (exponent + (rest + logarithms + constant)).to(kappa.dtype)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        (kappa,) = ctx.saved_tensors  # type: ignore[attr-defined]
        slope = -resultant_length(kappa, ctx.dimension)  # type: ignore[attr-defined]
        return gradient * (1 + slope if ctx.peak else slope), None, None  # type: ignore[attr-defined]


def _raised(kappa: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """q at order d/2 - 1, and the sum of log q over the orders from there to below the top one."""
    order = _top_order(dimension)
    root = torch.hypot(kappa, torch.full_like(kappa, order))
    series, slope = _debye(root, order)
    ratio = 1 / (order + root) - slope / (series * root)
    logarithms = torch.zeros_like(kappa)
    while order > 0.5 * dimension - 1:
        ratio = 1 / (2 * order + kappa.square() * ratio)
        logarithms = logarithms + ratio.log()
        order -= 1
    return ratio, logarithms


def _top_order(dimension: int) -> float:
    """The first order of the form d/2 - 1 + k that is at least `ORDER`."""
    order = 0.5 * dimension - 1
    return order + max(0, math.ceil(ORDER - order))


def _debye(root: Tensor, order: float) -> tuple[Tensor, Tensor]:
    """sum_k U_k(p) / order^k, and the sum that takes I to its derivative, where p = order / root.

    U_k(p) is p^k times a polynomial in p^2, so that both are sums over 1 / root, with polynomials in p^2.
    """
    powers = torch.arange(TERMS + 1, dtype=root.dtype, device=root.device)
    values, slopes = (torch.tensor(table, dtype=root.dtype, device=root.device) for table in _coefficients())
    polynomials = ((order / root).square()[..., None] ** powers)[..., None, :]
    inverse = (1 / root)[..., None] ** powers
    return tuple((inverse * (polynomials * table).sum(dim=-1)).sum(dim=-1) for table in (values, slopes))  # type: ignore[return-value]


@cache
def _coefficients() -> tuple[list[list[float]], list[list[float]]]:
    """Coefficients of u_k(t) in powers of t = p^2, with U_k(p) = p^k u_k(p^2), and of what U_k adds to the derivative.

    DLMF 10.41.10 and 10.41.11: U_(k+1) = p^2 (1 - p^2) U_k' / 2 + (1/8) int_0^p (1 - 5 s^2) U_k(s) ds, and V_k - U_k =
    -p (1 - p^2) (U_(k-1) / 2 + p U_(k-1)'), where 1 - p^2 = kappa^2 / root^2.
    """
    size = TERMS + 1
    rows = [[Fraction(1)] + [Fraction(0)] * TERMS]
    slopes = [[Fraction(0)] * size]
    for k in range(TERMS):
        new, slope = [Fraction(0)] * (size + 1), [Fraction(0)] * size
        for m, c in enumerate(rows[-1]):
            power = k + 2 * m  # c p^power is a term of U_k
            new[m] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            new[m + 1] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
            slope[m] = c * (Fraction(1, 2) + power)
        rows.append(new[:size])
        slopes.append(slope)
    return [[float(c) for c in row] for row in rows], [[float(c) for c in row] for row in slopes]


def _at_least_two(dimension: int) -> int:
    if dimension < 2:
        raise ValueError(f"a von Mises-Fisher distribution needs vectors of at least 2 elements, got {dimension}")
    return dimension


@torch.no_grad()
def sample(
    mean: Float[Tensor, "*axes d"], kappa: Float[Tensor, "*axes"], generator: Generator | None = None
) -> Float[Tensor, "*axes d"]:
    """One draw for each mean direction, for every kappa >= 0; not differentiable. NaN gives NaN, infinity the mean.

    Source: Wood, "Simulation of the von Mises Fisher distribution", Communications in Statistics 23, 1994, algorithm
    VM*, whose rejection accepts at least two of three proposals. Departures: the beta variable is (1 + t) / 2 with t
    the first element of a uniform unit vector, which needs normal variables only; and one minus the cosine is what is
    computed, so that samples of a large kappa keep their digits. Computed in float64.

    Args:
        mean: unit vectors.
        kappa: concentrations, of the shape of `mean` without its last axis.
        generator: a generator on the device of `mean`; None for torch's own.

    Raises:
        ValueError: a concentration is negative, or vectors have fewer than 2 elements.
    """
    dimension = _at_least_two(mean.shape[-1])
    if bool((kappa < 0).any()):
        raise ValueError(f"expected concentrations of 0 or more, got {float(kappa.min()):g}")
    centre = mean.double().reshape(-1, dimension)
    gap = _one_minus_cosine(kappa.double().expand(mean.shape[:-1]).reshape(-1), dimension, generator)[:, None]
    noise = _normal(centre.shape, centre.device, generator)
    tangent = noise - (noise * centre).sum(dim=1, keepdim=True) * centre
    tangent = tangent / torch.linalg.vector_norm(tangent, dim=1, keepdim=True)
    drawn: Tensor = (1 - gap) * centre + (gap * (2 - gap)).sqrt() * tangent
    return drawn.to(mean.dtype).reshape(mean.shape)


def _one_minus_cosine(kappa: Tensor, dimension: int, generator: Generator | None) -> Tensor:
    """1 - <m, x> of one draw for each kappa, by rejection of all that are not yet accepted."""
    spread = (dimension - 1) / (2 * kappa + torch.hypot(2 * kappa, torch.full_like(kappa, dimension - 1)))  # b of Wood
    far = 2 * spread / (1 + spread)  # 1 - x_0
    near = 1 - far  # x_0
    drawn = torch.where(kappa.isinf(), 0.0, kappa)  # which stands for NaN alone
    (waiting,) = kappa.isfinite().nonzero(as_tuple=True)
    while len(waiting):
        k, b, f, n = (values[waiting] for values in (kappa, spread, far, near))
        uniform = _normal((len(waiting), dimension), kappa.device, generator)
        beta = 0.5 * (1 + uniform[:, 0] / torch.linalg.vector_norm(uniform, dim=1))
        gap = 2 * b * beta / (1 - (1 - b) * beta)
        margin = k * (f - gap) + (dimension - 1) * ((f + n * gap) / (f * (1 + n))).log()
        chance = torch.rand(len(waiting), generator=generator, device=kappa.device, dtype=kappa.dtype)
        accepted = margin >= chance.log()
        drawn[waiting[accepted]] = gap[accepted]
        waiting = waiting[~accepted]
    return drawn


def _normal(shape: tuple[int, ...], device: torch.device, generator: Generator | None) -> Tensor:
    return torch.randn(shape, generator=generator, device=device, dtype=torch.float64)
