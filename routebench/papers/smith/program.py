"""The generative capsule model as a Pyro program, and its approximate posterior as another.

Pyro derives the bound from these two and marginalises the choice of objects. `GenerativeCapsules` computes the same
bound by hand. Read this file to see what the model is.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from routebench.errors import UserError

from .models.probabilistic.beliefs import Belief
from .models.probabilistic.concrete import concrete_log_density, concrete_sample
from .models.probabilistic.model import Batch, GenerativeCapsules
from .models.probabilistic.part_whole import POSE, Layer, log_density_off, normal_log_density, switched

try:
    import pyro
    from pyro import distributions as dist
    from pyro.infer import TraceEnum_ELBO
except ModuleNotFoundError:
    raise UserError(f"{__name__}: Pyro is not installed; pip install 'routebench[pyro]'") from None


class Program:
    """`model` and `guide` for Pyro, of a generative capsule model.

    Sites: `t0` and `t1` are logits of presences; `A0` and `A1` poses; `s` the object of each part, 0 being clutter;
    `x` the pixels.

    Args:
        network: holds every learned number; gradients of Pyro's bound arrive there.
    """

    def __init__(self, network: GenerativeCapsules):
        self.network = network

    def model(self, images: Batch) -> None:
        """p(x, t1, A1, s, t0, A0): equations 1 to 7."""
        net, whole = self.network, self.network.part_whole
        count, objects, parts = len(images), net.object_encoder.objects, whole.log_odds.shape[1]
        images_plate = pyro.plate("images", count, dim=-2)
        with images_plate, pyro.plate("objects", objects, dim=-1):
            t0 = pyro.sample("t0", ConcreteLogit(net.object_log_odds.expand(count, objects), net.temperature))
            A0 = pyro.sample(
                "A0", dist.Normal(images.new_zeros(count, objects, POSE), net.object_deviation).to_event(1)
            )
        means, deviations = _places(net, A0)
        with images_plate, pyro.plate("parts", parts, dim=-1):
            choice = dist.Categorical(logits=whole.selection(t0).movedim(1, -1))
            s = pyro.sample("s", choice, infer={"enumerate": "parallel"})
            each = torch.arange(parts)
            t1 = pyro.sample("t1", ConcreteLogit(whole.log_odds[s, each], net.temperature))
            mean = means[torch.arange(count)[:, None], s, each]
            pose = SwitchedNormal(t1, mean, deviations[s, each], whole.off_deviation, whole.switch)
            A1 = pyro.sample("A1", pose)
        drawn = net.sprites.draw(
            Layer(t1.reshape(count, parts), A1.reshape(count, parts, POSE)), (images.shape[2], images.shape[3])
        )
        with pyro.plate("canvases", count, dim=-1):
            pyro.sample("x", dist.Normal(drawn, net.sprites.deviation).to_event(3), obs=images)

    def guide(self, images: Batch) -> None:
        """q(t1, A1 | x) q(t0, A0 | t1, A1), by the encoders."""
        net = self.network
        with pyro.plate("images", len(images), dim=-2):
            parts = self._drawn(net.believed(net.part_encoder(images)), "parts", "1")
            self._drawn(net.believed(net.object_encoder(parts)), "objects", "0")

    def _drawn(self, belief: Belief, plate: str, layer: str) -> Layer:
        """Draws a layer from an encoder's posterior."""
        with pyro.plate(plate, belief.log_odds.shape[1], dim=-1):
            presences = pyro.sample(f"t{layer}", ConcreteLogit(belief.log_odds, self.network.temperature))
            if belief.log_deviations is None:
                pose: Any = dist.Delta(belief.poses, event_dim=1)
            else:
                pose = dist.Normal(belief.poses, belief.log_deviations.exp()).to_event(1)
            return Layer(presences, pyro.sample(f"A{layer}", pose))

    def bound(self, images: Batch) -> float:
        """Pyro's own estimate of the bound, in nats, summed over images; it draws from torch's random numbers."""
        return -float(TraceEnum_ELBO(max_plate_nesting=2).loss(self.model, self.guide, images))


class ConcreteLogit(dist.TorchDistribution):  # type: ignore[misc]  # Pyro has no types
    """Distribution of the logit of a Concrete presence. Arguments as for `concrete_log_density`."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = dist.constraints.real
    has_rsample = True

    def __init__(self, log_odds: Tensor, temperature: float):
        self.log_odds, self.temperature = log_odds, temperature
        super().__init__(log_odds.shape, validate_args=False)

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008  # torch's signature
        """A draw, differentiable with respect to the log odds."""
        return concrete_sample(self.log_odds.expand(sample_shape + self.batch_shape), self.temperature)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density in nats."""
        return concrete_log_density(value, self.log_odds, self.temperature)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "ConcreteLogit":
        """The same for more images or parts."""
        return ConcreteLogit(self.log_odds.expand(batch_shape), self.temperature)


class SwitchedNormal(dist.TorchDistribution):  # type: ignore[misc]
    """A pose that is normal about its object's prediction if its part is present, else about the identity.

    Equations 5 and 6; the ways between on and off are those of `PartWhole`. Only `arithmetic` is normalised.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = dist.constraints.real_vector
    has_rsample = False

    def __init__(self, presence: Tensor, mean: Tensor, deviation: Tensor, off_deviation: float, switch: str):
        self.presence, self.centre, self.spread = presence, mean, deviation
        self.off_deviation, self.switch = off_deviation, switch
        shape = (presence + mean[..., 0] + deviation).shape
        super().__init__(shape, mean.shape[-1:], validate_args=False)

    def sample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008
        """A draw, as if the part were there."""
        centre = self.centre.expand(sample_shape + self.batch_shape + self.event_shape)
        return centre + self.spread[..., None] * torch.randn_like(centre)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density in nats."""
        on = normal_log_density((value - self.centre).square().sum(dim=-1), self.spread)
        off = log_density_off(value.square().sum(dim=-1), self.off_deviation, self.switch)
        return switched(self.presence, on, off, self.switch)


def _places(network: GenerativeCapsules, objects: Tensor) -> tuple[Tensor, Tensor]:
    """Means (image, object, part, 6) and deviations (object, part) of poses, clutter first."""
    whole = network.part_whole
    expected = whole.expected_poses(objects)
    means = torch.cat([torch.zeros_like(expected[:, :1]), expected], dim=1)
    clutter = torch.full_like(whole.deviations[:1], whole.clutter_deviation)
    return means, torch.cat([clutter, whole.deviations])
