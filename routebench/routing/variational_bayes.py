"""Variational-Bayes routing."""

import math
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from routebench.arguments import Among, Count, NonNegative, Range
from routebench.capsules import Activations, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed

SMALLEST = 1e-6
"""Least value of what a prior must be positive in."""
Observed = tuple[Tensor, Tensor, Tensor, Tensor]
"""Mass and posterior mean of each parent, ln|Psi_j^-1|, and what its quadratic form is made of."""


@routing.register("variational-bayes")
class VariationalBayesRouting(IterativeRouting):
    """EM routing with a posterior in place of each estimate: no cluster of votes can collapse onto one child.

    Mixing proportions are Dirichlet; the mean and the precision of each parent's votes are Gaussian-Wishart, with prior
    mean 0 and prior scale psi0 times the identity. An absent or single child leaves the prior, so that no floor is
    needed.

    Precisions are diagonal, or full matrices. With diagonal ones, no vote is stored. Full ones store all votes, lane x
    child x parent x pose of them, and for the gradient nearly five times as many numbers in each iteration: quadratic
    forms are no sweep. To full Psi_j^-1, its trace times the unit of rounding and the size of a pose is added, so that
    it has a Cholesky factor where votes are large and few; where they overflow there is none, and all is NaN.

    Source: De Sousa Ribeiro, Leontidis and Kollias, AAAI 2020 (arXiv:1905.11455); updates as in the authors' code.
    Departures: the first iteration couples uniformly over the axis of competition, where the code divides by the parent
    types alone. The code divides a child's densities by their sum, or by 1e-11 where that is less, so that a child far
    from all parents goes nowhere; here it is shared out as any other. In `capsnet-small` on digits no sum was below
    0.01, at the start or after training. As in the code, the expected log determinant of diagonal precisions is a full
    Wishart's, too, and mixing proportions are those of the parents at one position. Scatters are taken about the
    posterior mean, with kappa0 m m^T for the prior's, which is the same as the paper's sum about the mean of the votes.

    Poses and the arguments of activations are batch-normalised per parent type without gain and bias, as in the code,
    so that images of a batch influence each other in training. A batch of one lane is normalised by the running
    statistics; they follow the last iteration, and in evaluation they serve every iteration. The normalisation of
    activations would cancel beta_a and beta_u, which are one number per type, so that they exist only without it.

    Args:
        iterations: number of updates; the code uses 3.
        alpha0: concentration of the Dirichlet prior; large values make parents equally likely.
        kappa0: children's worth of evidence behind the prior mean.
        extra_freedom: degrees of freedom of the Wishart prior, beyond one per element of a pose: nu0 - D.
        psi0: prior scale of precisions; large values let parents be sharper.
        covariance: `diagonal` or `full`.
        competition: which parents share a child, in convolutional layers.
        schedule: the order in which several layers iterate; the paper finishes one layer before the next.
        pose_norm: batch-normalise poses.
        activation_norm: batch-normalise the arguments of activations.
    """

    source = "De Sousa Ribeiro, Leontidis and Kollias, AAAI 2020 (arXiv:1905.11455)"
    title = "Variational Bayes"
    claims: tuple[Claim, ...] = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.MASS_CONSERVATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )
    uses_activations = True

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        alpha0: Annotated[float, Ge(SMALLEST)] = 1.0,
        kappa0: Annotated[float, Ge(SMALLEST)] = 1.0,
        extra_freedom: NonNegative = 1.0,
        psi0: Annotated[float, Ge(SMALLEST), Range(0.1, 10.0, "log")] = 1.0,
        covariance: Literal["diagonal", "full"] = "diagonal",
        competition: Axis = "types+positions",
        schedule: ScheduleName = "sequential",
        pose_norm: Annotated[bool, Among((False, True))] = True,
        activation_norm: bool = True,
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.alpha0 = alpha0
        self.kappa0 = kappa0
        self.extra_freedom = extra_freedom
        self.psi0 = psi0
        self.covariance = covariance
        self.competition = competition
        self.pose_norm = pose_norm
        self.activation_norm = activation_norm
        self.norm_of_poses = nn.BatchNorm1d(sizes.parents, affine=False) if pose_norm else None
        self.norm_of_logits = nn.BatchNorm1d(sizes.parents, affine=False) if activation_norm else None
        if not activation_norm:
            self.beta_u = nn.Parameter(torch.zeros(sizes.parents))
            self.beta_a = nn.Parameter(torch.zeros(sizes.parents))
        if not pose_norm:  # a running mean would shift all elements of a pose alike, whatever their signs
            self.claims = (*self.claims, Claim.POSE_SIGNED_PERMUTATION)
            self.claims += (Claim.POSE_ROTATION,) if covariance == "full" else ()
        if not (pose_norm or activation_norm):
            self.claims = (*self.claims, Claim.BATCH_INDEPENDENCE)

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """Responsibilities (in the first iteration, uniform coupling), then the posteriors that they give."""
        observe = self._observe_full if self.covariance == "full" else self._observe_diagonal
        mass, mean, log_inverse, precision = observe(votes, activations, previous)
        alpha, kappa, nu, pose = self.alpha0 + mass, self.kappa0 + mass, self._freedom(mass), self.sizes.pose
        log_share = torch.digamma(alpha) - torch.digamma(alpha.sum(dim=-1, keepdim=True))  # E ln pi_j
        log_determinant = expected_log_determinant(nu, log_inverse, pose)
        bias = log_share + 0.5 * log_determinant - 0.5 * pose / kappa  # what is the same for all parents cancels
        iteration = 1 if previous is None else previous.iteration + 1
        logits = self._normalised(self._activate(log_share, log_determinant), self.norm_of_logits, iteration)
        poses = self._normalised(mean, self.norm_of_poses, iteration)
        return Routed(poses, logits.sigmoid(), logits, iteration=iteration, memory=(mean, precision, bias))

    def _freedom(self, mass: Float[Tensor, "lane parent"]) -> Float[Tensor, "lane parent"]:
        """nu_j."""
        freedom: Tensor = self.sizes.pose + self.extra_freedom + mass
        return freedom

    def _observe_diagonal(self, votes: Votes, activations: Activations, previous: Routed | None) -> Observed:
        """R_j, m_j, the diagonal of Psi_j^-1, and the expected precision nu_j Psi_j, by sweeps."""
        if previous is None:
            mass, first, _ = votes.sweep(weights=activations)
            centre = first / (self.kappa0 + mass)[..., None]
            mass, first, second = votes.sweep(centre=centre, weights=activations, moments=2)
        else:
            centre, curvature, bias = previous.memory
            mass, first, second = votes.sweep(
                curvature=curvature, bias=bias, centre=centre, weights=activations, moments=2
            )
        assert second is not None  # two moments were asked for
        mean = (mass[..., None] * centre + first) / (self.kappa0 + mass)[..., None]  # m_j, for m_0 = 0
        shift = mean - centre
        # both data terms of the paper's Psi_j^-1, and kappa_0 (m_j - m_0)^2, are a scatter about m_j
        scatter = second - 2 * shift * first + shift.square() * mass[..., None]
        inverse_scale = 1 / self.psi0 + scatter.clamp(min=0) + self.kappa0 * mean.square()  # Psi_j^-1
        return mass, mean, inverse_scale.log().sum(dim=-1), self._freedom(mass)[..., None] / inverse_scale

    def _observe_full(self, votes: Votes, activations: Activations, previous: Routed | None) -> Observed:
        """The same with matrices; of the expected precision, A with A^T A = nu_j Psi_j."""
        stored = votes.dense().transpose(1, 2)  # lane parent child pose
        logits = stored.new_zeros(stored.shape[:3])
        if previous is not None:
            mean, root, bias = previous.memory
            whitened = (stored - mean[:, :, None]) @ root.mT
            logits = bias[..., None] - 0.5 * whitened.square().sum(dim=-1)
        coupling = votes.competition.couple(logits.transpose(1, 2))
        weighted = coupling * activations[..., None]
        mass = weighted.sum(dim=1)
        mean = votes.aggregate(weighted, shown=coupling) / (self.kappa0 + mass)[..., None]
        apart = stored - mean[:, :, None]
        scatter = (apart * weighted.transpose(1, 2)[..., None]).mT @ apart
        one = torch.eye(self.sizes.pose, dtype=mean.dtype, device=mean.device)
        inverse_scale = one / self.psi0 + scatter + self.kappa0 * mean[..., :, None] * mean[..., None, :]
        rounding = torch.finfo(mean.dtype).eps * self.sizes.pose * inverse_scale.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        factor, failed = torch.linalg.cholesky_ex(inverse_scale + rounding[..., None, None] * one)  # L L^T
        factor = torch.where(failed[..., None, None] == 0, factor, math.nan)
        root = torch.linalg.solve_triangular(factor, self._freedom(mass).sqrt()[..., None, None] * one, upper=False)
        log_determinant = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        return mass, mean, log_determinant, root

    def _activate(
        self, log_share: Float[Tensor, "lane parent"], log_determinant: Float[Tensor, "lane parent"]
    ) -> Float[Tensor, "lane parent"]:
        """beta_a - (beta_u + exp(E ln pi_j) H_j), where H_j is the entropy of a Gaussian of the expected precision."""
        entropy = 0.5 * self.sizes.pose * math.log(2 * math.pi * math.e) - 0.5 * log_determinant
        cost = log_share.exp() * entropy
        return -cost if self.activation_norm else self.beta_a - (self.beta_u + cost)

    def _normalised(
        self, values: Float[Tensor, "lane parent *pose"], norm: nn.BatchNorm1d | None, iteration: int
    ) -> Float[Tensor, "lane parent *pose"]:
        """Batch-normalised per parent, if at all."""
        if norm is None:
            return values
        if not self.training or len(values) == 1:
            return batch_norm(values, norm.running_mean, norm.running_var)
        if iteration < self.iterations:
            return batch_norm(values, None, None, training=True)
        normalised: Tensor = norm(values)
        return normalised


def expected_log_determinant(
    nu: Float[Tensor, "*axes"], log_inverse: Float[Tensor, "*axes"], pose: int
) -> Float[Tensor, "*axes"]:
    """E ln|Lambda| of a Wishart with nu degrees of freedom, more than pose - 1; `log_inverse` is ln|Psi^-1|.

    Args:
        nu: degrees of freedom.
        log_inverse: ln|Psi^-1|, of the same shape.
        pose: rows of Lambda.
    """
    lost = torch.arange(pose, device=nu.device, dtype=nu.dtype)
    return torch.digamma((nu[..., None] - lost) / 2).sum(dim=-1) + pose * math.log(2) - log_inverse
