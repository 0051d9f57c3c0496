"""The probabilistic generative capsule model: objects, their parts, templates, and how they are inferred."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from routebench.generative.beliefs import Belief
from routebench.generative.concrete import concrete_log_density
from routebench.generative.encoders import ObjectEncoder, PartEncoder
from routebench.generative.part_whole import Layer, PartWhole, normal_log_density
from routebench.generative.sprites import Sprites

Batch = Float[Tensor, "batch channel height width"]


@dataclass(frozen=True)
class Drawn:
    """Capsules of both layers, drawn from what the encoders say, and what they said."""

    objects: Layer
    parts: Layer
    of_objects: Belief
    of_parts: Belief


class GenerativeCapsules(nn.Module):
    def __init__(
        self, sprites: Sprites, part_whole: PartWhole, part_encoder: PartEncoder, object_encoder: ObjectEncoder,
        *, object_odds: float = 0.1,
    ):
        super().__init__()
        self.sprites, self.part_whole = sprites, part_whole
        self.part_encoder, self.object_encoder = part_encoder, object_encoder
        self.register_buffer("object_log_odds", torch.logit(torch.tensor(object_odds)), persistent=False)

    def draw(self, images: Batch, generator: Generator | None = None) -> Drawn:
        temperature = self.part_whole.temperature
        of_parts = self.part_encoder(images)
        parts = of_parts.sample(temperature, generator)
        of_objects = self.object_encoder(parts)
        return Drawn(of_objects.sample(temperature, generator), parts, of_objects, of_parts)

    def terms(self, images: Batch, drawn: Drawn) -> dict[str, Tensor]:
        t = self.part_whole.temperature
        prior = concrete_log_density(drawn.objects.presences, self.object_log_odds, t).sum(1) + normal_log_density(
            drawn.objects.poses.square().sum(-1), 1.0).sum(1)
        return {
            "pixels": self.sprites.log_likelihood(images, drawn.parts),
            "parts": self.part_whole.log_density(drawn.objects, drawn.parts) - drawn.of_parts.log_density(drawn.parts, t),
            "objects": prior - drawn.of_objects.log_density(drawn.objects, t),
        }

    def objective(self, images, generator=None):
        return -sum(self.terms(images, self.draw(images, generator)).values()).mean()

    def middle(self, images):
        parts = self.part_encoder(images)
        return parts, self.object_encoder(parts.middle())

    def features(self, images):
        _, objects = self.middle(images)
        return {"presences": objects.log_odds, "poses": objects.poses.flatten(1)}

    def reconstruction(self, images):
        return self.sprites.draw(self.part_encoder(images).middle(), tuple(images.shape[2:])).clamp(0, 1)
