"""The mixture that generates children from the predictions of their parents."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from routebench.arguments import NonNegative, Positive, checked
from routebench.ops import softmax_over_parents, von_mises_fisher

from .attention import Children, Predictions

Weights = Float[Tensor, "batch child parent"]
EPSILON = 1e-12
"""Number added to a squared length before its root, so that a zero vector has a gradient; its cosines are 0."""
LARGEST = 80.0
"""Upper limit of log-densities in the softmax over densities, whose exponential would overflow."""
WeightsOver = Literal["log-density", "density"]


class VMFMixture(nn.Module):
    """`p(V_i | Uhat_i) = sum_j pi_ij N(V_i; Uhat_ij, sigma_ij^2 I)`, weighted by von Mises-Fisher distributions.

    Source: Kiefer et al., "Capsule networks as generative models", section 4.2, equations 7 and 8: pi_i is a softmax
    over parents j of VMF(V_i; Uhat_ij, kappa_ij). Departures, where the paper is silent or inconsistent:
    - A VMF distribution lives on unit vectors: it is evaluated at `V_i / |V_i|` with mean direction
      `Uhat_ij / |Uhat_ij|`.
    - As printed, the weights depend on the V_i whose density they define, which then does not integrate to one. Here
      they come from the previous iterate of V_i, as in equation 6; given them, this is a proper mixture. The model
      chooses the previous iterate.
    - The softmax is over log-densities, which for equal kappa is softmax(kappa cos), cosine attention; over densities,
      as printed, is an option: its sharpness depends on the size of C_d(kappa).
    - kappa and sigma are one number, or one for each pair, learned as logarithms or fixed. The Gaussian is isotropic.

    The likelihood of learned children has no upper bound: it grows as children and sigma shrink together. `floor`
    prevents that for sigma; a model must also count the entropy of its children.

    Args:
        children, parents, pose: m, n, and elements in a child's pose.
        kappa: initial concentration.
        sigma: initial standard deviation of each pose element; above `floor`.
        learn_kappa, learn_sigma: whether they are learned.
        per_pair: one kappa and one sigma for each pair of a child and a parent.
        weights: what the softmax is over.
        floor: sigma^2 is this squared plus a learned term.
    """

    @checked
    def __init__(
        self,
        children: int,
        parents: int,
        pose: int,
        *,
        kappa: Positive = 1.0,
        sigma: Positive = 0.5,
        learn_kappa: bool = True,
        learn_sigma: bool = True,
        per_pair: bool = False,
        weights: WeightsOver = "log-density",
        floor: NonNegative = 0.01,
    ):
        super().__init__()
        if sigma <= floor:
            raise ValueError(f"sigma must be above its floor {floor}, got {sigma}")
        self.pose, self.weights, self.floor = pose, weights, floor
        shape = (children, parents) if per_pair else ()
        self._log_kappa = nn.Parameter(torch.full(shape, math.log(kappa)), requires_grad=learn_kappa)
        above = 0.5 * math.log(sigma**2 - floor**2)
        self._log_sigma = nn.Parameter(torch.full(shape, above), requires_grad=learn_sigma)

    @property
    def kappa(self) -> Float[Tensor, "*pair"]:
        """Concentration: a scalar, or (child, parent)."""
        return self._log_kappa.exp()

    @property
    def sigma(self) -> Float[Tensor, "*pair"]:
        """Standard deviation, at least the floor: a scalar, or (child, parent)."""
        return (self.floor**2 + (2 * self._log_sigma).exp()).sqrt()

    def log_weights(self, previous: Children, predictions: Predictions) -> Weights:
        """log pi_ij, from the previous iterate of the children.

        Args:
            previous: poses of the children in the previous iterate.
            predictions: Uhat_ij.
        """
        kappa = self.kappa
        length = (previous.square().sum(dim=2) + EPSILON).sqrt()[..., None]
        predicted = (predictions.square().sum(dim=3) + EPSILON).sqrt()
        cosine = torch.einsum("bid,bijd->bij", previous, predictions) / (length * predicted)
        logits = von_mises_fisher.log_peak(kappa, self.pose) - kappa * (1 - cosine)
        if self.weights == "density":
            logits = _densities(logits)
        return logits.log_softmax(dim=2)  # over parents

    def log_likelihood(self, children: Children, predictions: Predictions, log_weights: Weights) -> Tensor:
        """log p(V_i | Uhat_i) in nats, (batch, child); equation 8 is its sum over children.

        Args:
            children: V_i.
            predictions: Uhat_ij.
            log_weights: log pi_ij, see `log_weights`.
        """
        return (log_weights + self.log_components(children, predictions)).logsumexp(dim=2)

    def log_components(self, children: Children, predictions: Predictions) -> Weights:
        """log N(V_i; Uhat_ij, sigma_ij^2 I).

        |V - Uhat|^2 is expanded, so that no second array of the size of `predictions` is kept. In float32 the error is
        about 1e-7 of |V|^2 / sigma^2.

        Args:
            children: V_i.
            predictions: Uhat_ij.
        """
        cross = torch.einsum("bid,bijd->bij", children, predictions)
        squared = children.square().sum(dim=2)[..., None] - 2 * cross + predictions.square().sum(dim=3)
        sigma = self.sigma
        return -0.5 * squared / sigma.square() - self.pose * (sigma.log() + 0.5 * math.log(2 * math.pi))

    def responsibilities(self, children: Children, predictions: Predictions, log_weights: Weights) -> Weights:
        """p(parent j made child i | V_i): what an E-step would assign; sums to one over parents.

        Args:
            children, predictions, log_weights: as for `log_likelihood`.
        """
        return softmax_over_parents(log_weights + self.log_components(children, predictions))

    def mean(self, predictions: Predictions, log_weights: Weights) -> Children:
        """sum_j pi_ij Uhat_ij: one more step of attention, with the weights of the mixture.

        Args:
            predictions, log_weights: as for `log_likelihood`.
        """
        return torch.einsum("bij,bijd->bid", log_weights.exp(), predictions)

    @torch.no_grad()
    def sample(self, predictions: Predictions, log_weights: Weights, generator: Generator | None = None) -> Children:
        """Draws a parent for each child, then the child around that parent's prediction; not differentiable.

        Args:
            predictions, log_weights: as for `log_likelihood`.
            generator: a generator on the predictions' device; None for torch's own.
        """
        batch, children, parents, pose = predictions.shape
        chosen = torch.multinomial(log_weights.exp().reshape(-1, parents), 1, generator=generator)
        chosen = chosen.reshape(batch, children, 1)
        centre = predictions.gather(2, chosen[..., None].expand(-1, -1, -1, pose))[:, :, 0]
        sigma = self.sigma.expand(batch, children, parents).gather(2, chosen)
        noise = torch.randn(centre.shape, generator=generator, device=centre.device, dtype=centre.dtype)
        return centre + sigma * noise


def _densities(logarithms: Weights) -> Weights:
    """Densities minus the largest: the same softmax without overflow or false ties."""
    greatest = logarithms.detach().amax(dim=2, keepdim=True)
    return greatest.clamp(max=LARGEST).exp() * torch.expm1(logarithms - greatest)
