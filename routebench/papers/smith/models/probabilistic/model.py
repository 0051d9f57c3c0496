"""The probabilistic generative capsule model: objects, their parts, templates, and their inference."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from routebench.arguments import Positive, Share, checked

from .beliefs import Belief
from .concrete import concrete_log_density, concrete_sample
from .encoders import ObjectEncoder, PartEncoder
from .part_whole import POSE, Layer, PartWhole, normal_log_density
from .sprites import Sprites

Batch = Float[Tensor, "batch channel height width"]
PerImage = Float[Tensor, " batch"]


@dataclass(frozen=True)
class Scene:
    """Capsules of both layers for a batch of images."""

    objects: Layer
    parts: Layer


@dataclass(frozen=True)
class Posterior:
    """The approximate posterior of both layers for a batch of images."""

    objects: Belief
    parts: Belief


@dataclass(frozen=True)
class Bound:
    """The evidence lower bound in nats for each image, by layers, as in appendix A; one sample.

    Args:
        pixels: log p(x | t1, A1).
        parts: log p(t1, A1 | t0, A0) - log q(t1, A1 | x).
        objects: log p(t0, A0) - log q(t0, A0 | t1, A1).
    """

    pixels: PerImage
    parts: PerImage
    objects: PerImage

    @property
    def total(self) -> PerImage:
        """Their sum."""
        return self.pixels + self.parts + self.objects


class GenerativeCapsules(nn.Module):
    """Generates images from objects, their parts and the parts' templates; infers them with encoders.

    Images are explained by two layers of capsules, each with a presence t, relaxed to a Concrete number, and an affine
    pose I + A. The object that a part belongs to is marginalised. Training raises a lower bound on log p(x). With point
    estimates of poses ("delta") the bound is for the presences alone, maximised over poses.

    Source: Smith et al., "Capsule networks: a probabilistic perspective" (arXiv:2004.03553), sections 2 and 4,
    appendices A and B. The bound is equation 9; equation 8 counts the choice of objects twice.
    `routebench.papers.smith.program` writes the same model in Pyro, and a test finds both bounds equal.

    Args:
        sprites: the templates and p(x | t1, A1).
        part_whole: p(t1, A1 | t0, A0).
        part_encoder, object_encoder: q(t1, A1 | x) and q(t0, A0 | t1, A1).
        object_probability: prior probability that an object is on; the paper does not give it.
        object_deviation: deviation of the poses of objects from the identity; theirs is 1.
        posterior: `delta`: point estimates of poses. `full`: normal poses, after the share `delta_until` of training; a
            full posterior from the first step hardly learns, as the paper says. `objects`: normal poses for objects
            only, so that using an object to place parts costs, and sharing one saves.
        delta_until: a share of the training run; 0 for a full posterior from the start.
        then: what learns after `delta_until`: everything, or the `encoder` alone, of a model that is finished. Section
            2.3 starts "from a model initialised with the EM parameters", which may be either.

    Attributes:
        progress: share of the training run that has passed, 0 to 1; training sets it.
    """

    object_log_odds: Tensor

    @checked
    def __init__(
        self,
        sprites: Sprites,
        part_whole: PartWhole,
        part_encoder: PartEncoder,
        object_encoder: ObjectEncoder,
        *,
        object_probability: Share = 0.1,
        object_deviation: Positive = 1.0,
        posterior: Literal["delta", "objects", "full"] = "delta",
        delta_until: Share = 0.5,
        then: Literal["everything", "encoder"] = "everything",
    ):
        super().__init__()
        if object_probability in (0, 1):
            raise ValueError(f"object_probability must be between 0 and 1, got {object_probability}")
        self.sprites, self.part_whole = sprites, part_whole
        self.part_encoder, self.object_encoder = part_encoder, object_encoder
        odds = torch.logit(torch.tensor(object_probability))
        self.register_buffer("object_log_odds", odds, persistent=False)
        if posterior == "full" and part_whole.switch == "anywhere":
            raise ValueError("switch anywhere needs poses of parts that are certain, got posterior 'full'")
        self.object_deviation = object_deviation
        self.posterior, self.delta_until, self.then, self.progress = posterior, delta_until, then, 1.0

    @property
    def temperature(self) -> float:
        """Temperature of relaxed presences."""
        return self.part_whole.temperature

    @property
    def generative_parameters(self) -> int:
        """Number of learned parameters of p: fewer than 30,000 in the paper."""
        return sum(value.numel() for part in (self.sprites, self.part_whole) for value in part.parameters())

    @property
    def constant(self) -> float:
        """Nats that point estimates of object poses add to every bound: a constant that grows with their number."""
        if self.posterior != "delta" and self.progress >= self.delta_until:
            return 0.0
        return self.object_encoder.objects * float(normal_log_density(torch.zeros(()), self.object_deviation))

    def infer(self, images: Batch, generator: Generator | None = None) -> tuple[Posterior, Scene]:
        """Beliefs of the encoders about images, and capsules drawn from them, layer by layer.

        Args:
            images: values in [0, 1].
            generator: generator of the samples, on the images' device; None for torch's own.
        """
        parts = self.believed(self.part_encoder(images))
        of_parts = parts.sample(self.temperature, generator)
        objects = self.believed(self.object_encoder(of_parts))
        return Posterior(objects, parts), Scene(objects.sample(self.temperature, generator), of_parts)

    def believed(self, said: Belief) -> Belief:
        """Beliefs of an encoder, with certain poses for as long as training wants them so."""
        return said if self.progress >= self.delta_until else replace(said, log_deviations=None)

    def middle(self, images: Batch) -> Posterior:
        """Beliefs of the encoders where nothing is drawn: objects from parts at their centre."""
        parts = self.part_encoder(images)
        return Posterior(self.object_encoder(parts.middle()), parts)

    def bound(self, images: Batch, posterior: Posterior, scene: Scene) -> Bound:
        """The bound at capsules that were drawn from a posterior.

        Args:
            images: values in [0, 1].
            posterior: beliefs about the images.
            scene: the capsules.
        """
        of_parts = self.part_whole.log_density(scene.objects, scene.parts)
        return Bound(
            self.sprites.log_likelihood(images, scene.parts),
            of_parts - posterior.parts.log_density(scene.parts, self.temperature),
            self.prior(scene.objects) - posterior.objects.log_density(scene.objects, self.temperature),
        )

    def prior(self, objects: Layer) -> PerImage:
        """log p(t0, A0) in nats."""
        presences = concrete_log_density(objects.presences, self.object_log_odds, self.temperature)
        return (presences + normal_log_density(objects.poses.square().sum(dim=-1), self.object_deviation)).sum(dim=1)

    def objective(self, images: Batch, generator: Generator | None = None) -> Float[Tensor, ""]:
        """Minus the bound in nats, mean over images, with one sample of every capsule.

        Args:
            images: values in [0, 1].
            generator: generator of the samples, on the images' device; None for torch's own.
        """
        if self.then == "encoder" and self.posterior != "delta":
            for generative in (self.sprites, self.part_whole):
                generative.requires_grad_(self.progress < self.delta_until)
        return -self.bound(images, *self.infer(images, generator)).total.mean()

    def features(self, images: Batch) -> dict[str, Tensor]:
        """`presences`: logits of t0 (appendix D), (batch, object); `poses`: A0, (batch, object x 6)."""
        objects = self.middle(images).objects
        return {"presences": objects.log_odds, "poses": objects.poses.flatten(1)}

    def forward(self, images: Batch) -> Batch:
        """The same as `reconstruction`."""
        return self.reconstruction(images)

    def reconstruction(self, images: Batch) -> Batch:
        """Images drawn from the parts at the centre of q(t1, A1 | x)."""
        return self.drawn(self.part_encoder(images).middle(), images)

    def drawn(self, parts: Layer, like: Batch) -> Batch:
        """Draws parts on canvases of the size of other images, clamped to [0, 1].

        Args:
            parts: parts of every image.
            like: images whose height and width canvases have.
        """
        return self.sprites.draw(parts, (like.shape[2], like.shape[3])).clamp(0, 1)

    @property
    def templates(self) -> Float[Tensor, "template channel row column"]:
        """Colours times opacity: the templates as seen on a black ground."""
        return self.sprites.colours * self.sprites.alphas

    def visible(self, images: Batch) -> Float[Tensor, "batch template height width"]:
        """Visible brightness of each template in the reconstruction of images."""
        return self.sprites.visible(self.part_encoder(images).middle(), (images.shape[2], images.shape[3]))

    @torch.no_grad()
    def sample(self, count: int, generator: Generator, size: tuple[int, int] = (28, 28)) -> Batch:
        """Samples images: objects from their prior, parts from objects, templates from parts.

        Presences are Concrete, as in training; a pose is drawn as if its part were there.

        Args:
            count: number of images.
            generator: generator of the samples, on the network's device.
            size: (height, width) of the images, in pixels.
        """
        like = self.sprites.raw_alphas
        number = self.object_encoder.objects
        presences = concrete_sample(self.object_log_odds.to(like).expand(count, number), self.temperature, generator)
        noise = torch.randn(count, number, POSE, generator=generator, device=like.device, dtype=like.dtype)
        return self._made_by(Layer(presences, self.object_deviation * noise), generator, size)

    @torch.no_grad()
    def sample_again(self, images: Batch, generator: Generator) -> Batch:
        """Samples images from the objects inferred in given images, instead of objects from the prior.

        With point estimates the bound does not hold objects to the spread of their prior. Samples from the prior may
        then look like no image although the model has learned how objects place parts.

        Args:
            images: values in [0, 1].
            generator: generator of the samples, on the images' device.
        """
        _, scene = self.infer(images, generator)
        return self._made_by(scene.objects, generator, (images.shape[2], images.shape[3]))

    def _made_by(self, objects: Layer, generator: Generator, size: tuple[int, int]) -> Batch:
        return self.sprites.draw(self.part_whole.sample(objects, generator), size).clamp(0, 1)
