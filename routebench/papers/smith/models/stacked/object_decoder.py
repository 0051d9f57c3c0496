"""Predictions of every object capsule for every part: its pose, the deviation of that, and its presence."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..affine_poses import NUMBERS, after, pose_of
from .part_encoder import noisy
from .per_capsule import PerCapsuleMLP

LEAST_DEVIATION = 1e-2
"""Smallest deviation of a part's pose from an object's prediction, as in the authors' code."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of objects for parts.

    Args:
        poses: pose of the part if it belongs to the object.
        deviations: deviation of each number of that pose.
        presences: log probability that the object and its part are present: log a_k a_km.
        deformation: half the sum of squares of the image-dependent component of the relation of parts to their object.
    """

    poses: Float[Tensor, "batch object part 2 3"]
    deviations: Float[Tensor, "batch object part"]
    presences: Float[Tensor, "batch object part"]
    deformation: Float[Tensor, " batch"]

    def prior(self) -> Float[Tensor, "batch object"]:
        """The prior presence of every object: a_k times the greatest a_km."""
        return self.presences.exp().amax(dim=2)


class ObjectDecoder(nn.Module):
    """Two small networks per object: one gives its parameters, the other its pose and those of its parts.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), sections 2.1 and
    2.3; sizes, constants and start values are those of the authors' code.

    Args:
        parts, objects: capsules.
        encoded: numbers per object, from its encoder.
        parameters: number of parameters of an object; 32 in the code.
        hidden: units of each hidden layer; 128 in the code.
        noise: width of the uniform noise around 0 that is added to the logits of both presences in training; 4 in the
            code.
    """

    def __init__(self, *, parts: int, objects: int, encoded: int, parameters: int, hidden: int, noise: float):
        super().__init__()
        self.sizes = (parts * NUMBERS, NUMBERS, 1, parts, parts)
        self.noise = noise
        self.parameters_of = PerCapsuleMLP(objects, (encoded, hidden, parameters))
        # The last layer has no bias, so that what does not depend on the image is in `relations` alone; and the code
        # hands it one number more, which says that the capsule is not dropped, and is always 1.
        self.outputs = PerCapsuleMLP(objects, (parameters + 1, hidden, sum(self.sizes)), last_bias=False)
        self.biases = nn.Parameter(torch.zeros(objects, sum(self.sizes[1:])))
        limit = (6 / (objects * (parts + NUMBERS))) ** 0.5  # as TensorFlow draws an array of that shape
        self.relations = nn.Parameter(torch.empty(objects, parts, NUMBERS).uniform_(-limit, limit))

    def forward(
        self, encodings: Float[Tensor, "batch object encoded"], generator: Generator | None = None
    ) -> Predictions:
        """Predicts each part from each object.

        Args:
            encodings: encodings of the objects.
            generator: generator of the noise, on their device; None for torch's own.
        """
        own = self.parameters_of(encodings)
        outputs = self.outputs(torch.cat([own, torch.ones_like(own[..., :1])], dim=-1))
        relations, rest = outputs.split([self.sizes[0], sum(self.sizes[1:])], dim=-1)
        pose, there, part_there, deviations = (rest + self.biases).split(self.sizes[1:], dim=-1)
        relations = relations.unflatten(-1, (-1, NUMBERS))  # b object part 6
        noise = self.noise if self.training else 0.0
        there, part_there = noisy(there, noise, generator), noisy(part_there, noise, generator)
        return Predictions(
            poses=after(pose_of(pose)[:, :, None], pose_of(relations + self.relations)),
            deviations=functional.softplus(deviations + 0.5) + LEAST_DEVIATION,
            presences=functional.logsigmoid(there) + functional.logsigmoid(part_there),
            deformation=0.5 * relations.square().flatten(1).sum(dim=1),
        )
