"""Stacked capsule autoencoders: images from parts, and parts from objects."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from routebench.arguments import Count, Natural, NonNegative, Positive, checked, legal_values
from routebench.errors import UserError, nearest
from routebench.models.facts import facts
from routebench.registry import models

from .object_decoder import ObjectDecoder, Predictions
from .object_encoder import Mask, ObjectEncoder, Stop, stopped
from .part_decoder import PartDecoder, Picture
from .part_encoder import PartEncoder, Parts
from .part_likelihood import Explanation, explain
from .sparsity import posterior_sparsity, prior_sparsity

Batch = Float[Tensor, "batch channel height width"]


@dataclass(frozen=True)
class Weights:
    """Weights of the losses.

    Args:
        part_likelihood: weight of the likelihood of parts under objects; the likelihood of pixels has weight 1.
        deformation: weight of the image-dependent component of the relation of a part to its object.
        prior_within, prior_between, posterior_within, posterior_between: weights of sparsity, see `Sparsity`.
        objects_per_image: target of `prior_within`; None for objects / classes, here 24 / 10. 4.3, which Smith et al.
            print, stands in the authors' script, which never passes it on: what ran had 32 / 10.
    """

    part_likelihood: NonNegative = 1.0
    deformation: NonNegative = 10.0
    prior_within: NonNegative = 2.0
    prior_between: NonNegative = 0.35
    posterior_within: NonNegative = 0.7
    posterior_between: NonNegative = 0.2
    objects_per_image: NonNegative | None = 4.3

    def __post_init__(self) -> None:
        for name, legal in legal_values(type(self)).items():
            legal.take(name, getattr(self, name))


CODE = Weights()
"""Weights of the authors' script for MNIST, which Smith et al. use."""
PAPER = replace(
    CODE, prior_within=1.0, prior_between=1.0, posterior_within=10.0, posterior_between=10.0, objects_per_image=None
)
"""Weights that Kosiorek et al. report, according to Smith et al.: 1, and 10 for posterior sparsity."""


def weights_of(given: str | Mapping[str, float]) -> Weights:
    """Weights by name (`code`, `paper`) or from a table, whose missing entries are those of `code`.

    Raises:
        UserError: the name is unknown.
        ValueError: a weight is below 0.
    """
    if not isinstance(given, Mapping):
        if given not in ("code", "paper"):
            raise UserError(f"scae: expected weights to be code, paper or a table of numbers, got {given!r}")
        return CODE if given == "code" else PAPER
    known = [field.name for field in fields(Weights)]
    for name in given:
        if name not in known:
            raise UserError(f"scae: weights: unknown loss {name!r}{nearest(name, known)}")
    return replace(CODE, **given)


@dataclass(frozen=True)
class Seen:
    """Parts of images, the objects' predictions of them, and which objects explain which parts."""

    parts: Parts
    predictions: Predictions
    explanation: Explanation


class SCAE(nn.Module):
    """Stacked capsule autoencoder: parts that reconstruct images, objects that reconstruct the poses of parts.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), and their code with its
    script for MNIST; with 24 part and 24 object capsules the baseline of Smith et al., "Capsule networks: a
    probabilistic perspective", figure 4 and appendix C. What paper and code leave open is named with each argument.

    Departures: the code also trains two linear classifiers of presences within its loss. Here training sees no label; a
    probe is fitted afterwards. The code's presences are noisy in evaluation too; ours only in training, so that
    features are a function of the image. Only the losses between examples depend on the batch.

    Args:
        shape: (channels, height, width) of the images.
        classes: the sparsity losses assume that every object shows in one of so many images, as the code does. They use
            no labels.
        parts, objects: capsules. 24 and 24 as in Kosiorek et al. and Smith et al.; 40 and 32 in the script.
        width: channels of the four convolutions.
        features: special features of a part.
        template: rows and columns of a template.
        set_width, set_layers, set_heads: sizes of the Set Transformer.
        encoded, parameters, hidden: numbers per object: from its encoder, between its two networks, in hidden layers.
        weights: weights of the losses: `code`, `paper`, or a table with the names of `Weights`. Smith et al. tried both
            and found those of the code slightly better.
        noise: width of the uniform noise on the logits of presences in training; 0 for none. It drives presences to 0
            or 1.
        places: whether the part encoder learns a bias per place, see `PartEncoder`; the code does, the paper does not
            say.
        coloured, weighed: options of templates, see `PartDecoder`; on in the script, off by the code's defaults.
        deviation: that of a pixel from its mean, see `PartDecoder`; 1 in the code.
        gain: how many times faster templates learn, see `PartDecoder`; 1 in the code.
        mask: how the Set Transformer uses presences, see `ObjectEncoder`. Default `log`, because with presences between
            0 and 1 the code attends to a single part.
        stop: which gradients from objects reach the parts, see `stopped`.
        normalised: whether the weights of the mixture of part likelihoods sum to 1, as in the paper and unlike the
            code. Without that, raising any presence gains likelihood, and only the losses on presences oppose it.
        clutter: weight and density of parts that no object explains.
        batch: images over which presences are summed for `prior_between`; None for those of the batch, see
            `prior_sparsity`.

    Raises:
        UserError: an argument is unknown.
        ValueError: a number is out of its range.
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        *,
        parts: Count = 24,
        objects: Count = 24,
        width: Count = 128,
        features: Natural = 16,
        template: Count = 11,
        set_width: Count = 16,
        set_layers: Natural = 3,
        set_heads: Count = 1,
        encoded: Count = 256,
        parameters: Count = 32,
        hidden: Count = 128,
        weights: str | Mapping[str, float] = "code",
        noise: NonNegative = 4.0,
        places: bool = True,
        coloured: bool = True,
        weighed: bool = True,
        deviation: float = 1.0,
        gain: float = 1.0,
        mask: Mask = "log",
        stop: Stop = "poses",
        normalised: bool = True,
        clutter: Positive = 0.01,
        batch: Count | None = 128,
    ):
        super().__init__()
        self.weights = weights_of(weights)
        self.share, self.batch = 1 / classes, batch
        known = self.weights.objects_per_image
        self.objects_per_image = objects / classes if known is None else known
        self.stop, self.normalised, self.clutter = stop, normalised, clutter
        self.part_encoder = PartEncoder(shape, parts=parts, features=features, width=width, places=places, noise=noise)
        self.part_decoder = PartDecoder(
            shape,
            parts=parts,
            features=features,
            template=template,
            coloured=coloured,
            weighed=weighed,
            deviation=deviation,
            gain=gain,
        )
        self.object_encoder = ObjectEncoder(
            objects=objects,
            features=features,
            pixels=shape[0] * template**2,
            width=set_width,
            layers=set_layers,
            heads=set_heads,
            encoded=encoded,
            mask=mask,
        )
        self.object_decoder = ObjectDecoder(
            parts=parts, objects=objects, encoded=encoded, parameters=parameters, hidden=hidden, noise=noise
        )

    def see(self, images: Batch, generator: Generator | None = None) -> Seen:
        """Infers the parts and objects of images.

        Args:
            images: values in [0, 1].
            generator: generator of the noise in training, on the images' device; None for torch's own.
        """
        parts = self.part_encoder(images, generator)
        told = stopped(parts, self.stop)
        templates = self.part_decoder.coloured(parts)
        if self.stop != "nothing":
            templates = templates.detach()
        predictions = self.object_decoder(self.object_encoder(told, templates), generator)
        explanation = explain(told, predictions, normalised=self.normalised, clutter=self.clutter)
        return Seen(parts, predictions, explanation)

    def forward(self, images: Batch) -> Batch:
        """The same as `reconstruction`."""
        return self.reconstruction(images)

    def objective(self, images: Batch, generator: Generator | None = None) -> Float[Tensor, ""]:
        """The sum of all losses, likelihoods in nats; a mean over images, except for losses between images.

        Args:
            images: values in [0, 1].
            generator: generator of the noise in training, on the images' device; None for torch's own.
        """
        return torch.stack(list(self.losses(images, generator).values())).sum()

    def losses(self, images: Batch, generator: Generator | None = None) -> dict[str, Float[Tensor, ""]]:
        """The weighted losses, by name.

        Args:
            images: values in [0, 1].
            generator: generator of the noise in training, on the images' device; None for torch's own.
        """
        seen = self.see(images, generator)
        weights = self.weights
        prior = prior_sparsity(
            seen.predictions.prior(),
            objects_per_image=self.objects_per_image,
            share=self.share,
            images=self.batch,
        )
        posterior = posterior_sparsity(seen.explanation.posterior())
        return {
            "pixels": -self.part_decoder.log_likelihood(images, seen.parts).mean(),
            "parts": -weights.part_likelihood * seen.explanation.log_likelihood.mean(),
            "deformation": weights.deformation * seen.predictions.deformation.mean(),
            "prior_within": weights.prior_within * prior.within,
            "prior_between": weights.prior_between * prior.between,
            "posterior_within": weights.posterior_within * posterior.within,
            "posterior_between": weights.posterior_between * posterior.between,
        }

    def features(self, images: Batch) -> dict[str, Tensor]:
        """Presences of objects in [0, 1], each (batch, object): `prior`, and `posterior`, which Smith et al. report.

        The prior presence of an object is a_k max_m a_km, its posterior presence is its share of the parts.
        """
        seen = self.see(images)
        return {"prior": seen.predictions.prior(), "posterior": seen.explanation.posterior()}

    @property
    def templates(self) -> Float[Tensor, "part channel row column"]:
        """Templates of every part, before colouring."""
        return self.part_decoder.templates()

    def visible(self, images: Batch) -> Float[Tensor, "batch part height width"]:
        """Visible brightness of each template in the reconstruction of images."""
        return self.part_decoder.visible(self.part_encoder(images, None))

    @checked
    def reconstruction(
        self, images: Batch, *, by: Literal["parts", "objects"] = "parts", of: Picture = "mode"
    ) -> Batch:
        """Reconstructs images, values in [0, 1].

        Args:
            images: values in [0, 1].
            by: `parts`: with the poses of the part encoder; `objects`: each part with the pose predicted by the object
                that explains it best.
            of: `mode` or `mean`, see `PartDecoder.picture`.
        """
        seen = self.see(images)
        if by == "parts":
            return self.part_decoder.picture(seen.parts, of=of)
        best = seen.explanation.responsibilities.argmax(dim=1)[:, None, :, None, None]  # b 1 part 1 1
        poses = seen.predictions.poses.gather(1, best.expand(-1, 1, -1, 2, 3))[:, 0]
        return self.part_decoder.picture(replace(seen.parts, poses=poses), of=of)


SOURCE = (
    'Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019, with the capsules and weights of Smith et al., '
    '"Capsule networks: a probabilistic perspective", appendix C'
)


@models.register("scae", version=1)
@facts(source=SOURCE, routed=False, title="SCAE", unsupervised=True, passes_on=(SCAE,))
def scae(shape: tuple[int, int, int], classes: int, **options: Any) -> SCAE:
    """24 parts and 24 objects at the sizes of the authors' code; options are arguments of `SCAE`.

    Args:
        shape, classes: as for `SCAE`.
        options: its other arguments.
    """
    return SCAE(shape, classes, **options)


SMALL: Mapping[str, Any] = {"parts": 16, "width": 32, "encoded": 64, "hidden": 64, "gain": 10.0}


@models.register("scae-small", version=1)
@facts(
    source="a small network with the parts of `scae`, for two processor cores",
    routed=False,
    unsupervised=True,
    passes_on=(SCAE,),
)
def scae_small(shape: tuple[int, int, int], classes: int, **options: Any) -> SCAE:
    """16 parts and 24 objects, 32 channels, narrower objects, and templates that learn ten times as fast.

    With Adam at 3e-3 and batches of 32 it trains in ten epochs of a few thousand digits.

    Args:
        shape, classes: as for `SCAE`.
        options: its other arguments.
    """
    return SCAE(shape, classes, **{**SMALL, **options})
