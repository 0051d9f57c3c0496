"""A capsule network without labels: attention to the predictions of higher capsules generates lower ones."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, Natural, NonNegative, Positive, Share, checked
from routebench.capsules.layers import DenseCapsules
from routebench.capsules.population import Capsules
from routebench.models.backbones import grid_after
from routebench.models.facts import facts
from routebench.registry import models
from routebench.routing.make import factory

from .attention import Children, Predictions, attend, predict
from .vmf_mixture import VMFMixture, Weights

Batch = Float[Tensor, "batch channel height width"]
Parents = Float[Tensor, "batch parent pose_above"]
Drawn = Float[Tensor, "count parent pose_above"]
PerImage = Float[Tensor, " batch"]

Blocks = Literal["learned", "transposed"]
Start = Literal["resting", "bottom-up"]
PosteriorName = Literal["top-down", "product", "bottom-up"]
FIRST_DOUBT = 2.5
"""Initial log deviation of the encoder's posterior of children: in a product it hardly counts."""
HALVES = ((3, 2, 1), (3, 2, 1))
"""Kernel, stride and padding of the encoder's downsampling convolutions."""


@dataclass(frozen=True)
class Bound:
    """The evidence lower bound in nats for each image, in the terms that it sums; one sample of children and parents.

    Args:
        pixels: log p(x | V).
        posterior: -log q(V | x, P), of the sampled children.
        mixture: log p(V | P), of the sampled children: equation 8. Divided by children x pose it is per dimension. Like
            every density it depends on the scale of the poses, which is learned; with `posterior` added, it does not.
        parents: -KL(q(P | x) || p(P)).
    """

    pixels: PerImage
    posterior: PerImage
    mixture: PerImage
    parents: PerImage

    @property
    def total(self) -> PerImage:
        """Their sum."""
        return self.pixels + self.posterior + self.mixture + self.parents


class TopDownCapsules(nn.Module):
    """Parents predict a grid of children, attention selects parents for each child, children are decoded to pixels.

    Source: Kiefer et al., "Capsule networks as generative models", sections 4.1 and 4.2. The paper gives equations 6 to
    8. It leaves open how parents are inferred, their prior, what is below the children, and the training. These are
    ours:

    The model. Parents P_j ~ N(0, I / pose), so that a length is about 1. Each predicts every child, `Uhat_ij = W~_ij
    P_j + b_ij`. Children begin at a learned resting pose, take `iterations` steps of attention (equation 6), and are
    drawn from the mixture (equation 7) with the weights of the last step. The previous iterate, on which the weights
    depend, is thus a function of the parents alone, and p(V | P) is a density. Convolutions, the same at every
    position, decode pixels from the grid of children, so global information can only come from the parents.

    The posterior. A convolutional encoder gives bottom-up poses of the children. A routing pass over them, normalised
    to mean 0 and variance 1 over all elements of an image, gives the means of the parents; their deviations are
    learned. Given sampled parents, the posterior of a child is by default `top-down` itself: Gaussian, with the mean
    and the mean variance of its mixture. All information about an image then passes through the parents, and a child
    between disagreeing parents costs. With `product` it is that Gaussian times one of the encoder's, as in Sønderby et
    al., "Ladder variational autoencoders", NeurIPS 2016, equations 17 to 19; with `bottom-up` the encoder's alone. Both
    reached a higher bound in our runs, but by ignoring the parents: children carry all information, samples are strokes
    that do not fit together, and lengths of parents say little. They are options.

    The objective is minus the evidence lower bound with one sample. It has no trivial optimum: children that shrink
    gain likelihood without limit, but lose the same in the entropy of their posterior. It bounds the log probability of
    binary pixels; for grey ones, as in any autoencoder with this likelihood, an unnormalised score. With `pixel_sigma`
    it bounds a density of pixels. It is not a bound
    - during `warm_up`, where the divergence of the parents has less weight (held-out losses and evaluation use full
      weight);
    - with `start="bottom-up"`, equation 6 as printed: attention begins at the encoder's pose of each child, so that the
      mixture weights depend on the image. `sample` begins at the resting pose in any case.

    Args:
        shape: (channels, height, width) of the images.
        parents, parent_pose: capsules of the higher layer, and elements of their poses.
        types, pose: children at each position of the grid, and elements of their poses.
        maps: feature maps of the first convolution of the encoder and the last of the decoder; twice as many inside.
        inference: the routing method of the bottom-up pass, by name; it must give activations. A parent's mean is its
            activation times the direction of its pose: `none` is one dense layer and a squash.
        inference_params: hyperparameters of that method.
        blocks: `learned`: W~ are weights of their own. `transposed`: they are the weights of the bottom-up pass,
            transposed, as printed.
        bias: learn b_ij; without, as printed, generated children are symmetric about zero.
        start: `resting` or `bottom-up`, see above.
        iterations: steps of attention, before the mixture weights are computed.
        beta, accumulate: arguments of attention.
        posterior: that of the children, `top-down`, `product` or `bottom-up`, see above.
        warm_up: share of the training in which the weight of the parents' divergence grows from 0 to 1.
        pixel_sigma: deviation of Gaussian pixels; None for Bernoulli pixels.
        kappa, sigma: those of the mixture, initially. From 1 and 0.5, which keep children between parents, learning was
            slower.
        mixture: further arguments of `VMFMixture`: `learn_kappa`, `learn_sigma`, `per_pair`, `weights`, `floor`.
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        parents: Count = 8,
        parent_pose: Count = 8,
        types: Count = 1,
        pose: Count = 8,
        maps: Count = 32,
        inference: str = "none",
        inference_params: dict[str, Any] | None = None,
        blocks: Blocks = "learned",
        bias: bool = True,
        start: Start = "resting",
        iterations: Natural = 2,
        beta: NonNegative = 1.0,
        accumulate: bool = False,
        posterior: PosteriorName = "top-down",
        warm_up: Share = 0.3,
        pixel_sigma: Positive | None = None,
        kappa: float = 10.0,
        sigma: float = 0.2,
        **mixture: Any,
    ):
        super().__init__()
        self.shape, self.pose, self.parents, self.parent_pose = shape, pose, parents, parent_pose
        self.start, self.iterations, self.beta, self.accumulate = start, iterations, beta, accumulate
        self.posterior, self.warm_up, self.pixel_sigma = posterior, warm_up, pixel_sigma
        self.grid = (*grid_after(shape, *HALVES), types)
        children = math.prod(self.grid)
        self.encoder = _encoder(shape[0], maps, types * pose)
        self.doubt = nn.Conv2d(2 * maps, types * pose, 3, padding=1) if posterior != "top-down" else None
        rivals = 1 if inference == "none" else parents  # others share a child out at first
        self.layer = DenseCapsules(
            self.grid,
            parents,
            pose,
            parent_pose,
            factory(inference, **(inference_params or {})),
            weight_std=1.7 * rivals / math.sqrt(children * pose * parent_pose),  # lengths of 0.7 at first
        )
        if not self.layer.routing.gives_activations:
            raise ValueError(f"inference must be by a method that gives activations, which {inference!r} does not")
        size = (children, parents, pose, parent_pose)
        self.own_blocks = nn.Parameter(torch.randn(size) / math.sqrt(pose)) if blocks == "learned" else None
        self.bias = nn.Parameter(torch.zeros(size[:3])) if bias else None
        self.resting = nn.Parameter(torch.randn(children, pose) / math.sqrt(pose))
        self.log_deviation = nn.Parameter(torch.full((parents, parent_pose), math.log(0.3 / math.sqrt(parent_pose))))
        self.mixture = VMFMixture(children, parents, pose, kappa=kappa, sigma=sigma, **mixture)
        self.decoder = _decoder(shape[0], maps, types * pose)

    def encode(self, images: Batch) -> tuple[Children, Children | None]:
        """Bottom-up means of the children, and their deviations where they are used."""
        maps = self.encoder[:-1](images)
        mean = self._cells(self.encoder[-1](maps))
        if self.doubt is None:
            return mean, None
        return mean, (self._cells(self.doubt(maps)) + FIRST_DOUBT).clamp(-8, 5).exp()

    def _cells(self, maps: Float[Tensor, "batch channel height width"]) -> Children:
        return maps.permute(0, 2, 3, 1).reshape(len(maps), -1, self.pose)  # channels last: they become types and poses

    def infer(self, children: Children) -> tuple[Parents, Float[Tensor, "batch parent"]]:
        """Infers means of the parents' posterior, and their lengths, by the bottom-up routing pass."""
        even = functional.layer_norm(children, children.shape[1:])
        routed = self.layer(Capsules(even, even.new_ones(even.shape[:2])))
        return routed.activations[..., None] * functional.normalize(routed.poses, dim=2), routed.activations

    def predictions(self, parents: Parents) -> Predictions:
        """Each parent's prediction of each child."""
        return predict(parents, self.layer.weight if self.own_blocks is None else self.own_blocks, self.bias)

    def settle(self, predictions: Predictions, start: Children | None = None) -> Weights:
        """The mixture's log weights after attention, which begins at the resting pose if no start is given.

        Args:
            predictions: each parent's prediction of each child.
            start: poses of the children at which attention begins; None for the resting pose.
        """
        begin = self.resting.expand(len(predictions), -1, -1) if start is None else start
        found = attend(begin, predictions, beta=self.beta, iterations=self.iterations, accumulate=self.accumulate)
        return self.mixture.log_weights(found.poses, predictions)

    def decode(self, children: Children) -> Batch:
        """Logits of the pixels."""
        maps = children.reshape(len(children), *self.grid[:2], -1).permute(0, 3, 1, 2)
        logits: Tensor = self.decoder(maps)[..., : self.shape[1], : self.shape[2]]
        return logits

    def bound(self, images: Batch, generator: Generator | None = None) -> Bound:
        """The evidence lower bound, term by term; `TopDownCapsules` lists the options with which it is no bound.

        Args:
            images: values in [0, 1].
            generator: a generator on the images' device; None for torch's own.
        """
        mean, deviation = self.encode(images)
        centre, _ = self.infer(mean)
        parents = centre + self.log_deviation.exp() * _normal(centre, generator)
        predictions = self.predictions(parents)
        log_weights = self.settle(predictions, self._begin(mean))
        mean, deviation = self._posterior(mean, deviation, predictions, log_weights)
        noise = _normal(mean, generator)
        children = mean + deviation * noise
        return Bound(
            pixels=-self._surprise(images, self.decode(children)),
            posterior=(0.5 * noise.square() + deviation.log() + 0.5 * math.log(2 * math.pi)).sum(dim=(1, 2)),
            mixture=self.mixture.log_likelihood(children, predictions, log_weights).sum(dim=1),
            parents=-self._divergence(centre),
        )

    def objective(self, images: Batch, generator: Generator | None = None) -> Float[Tensor, ""]:
        """Minus the bound in nats, mean over images; in training, parents cost less during the warm-up.

        Args:
            images: values in [0, 1].
            generator: a generator on the images' device; None for torch's own.
        """
        terms = self.bound(images, generator)
        return -(terms.total - (1 - self._weight()) * terms.parents).mean()

    def forward(self, images: Batch) -> Batch:
        """The same as `reconstruction`."""
        return self.reconstruction(images)

    def reconstruction(self, images: Batch) -> Batch:
        """Images generated from the parents' means alone."""
        mean, _ = self.encode(images)
        predictions = self.predictions(self.infer(mean)[0])
        log_weights = self.settle(predictions, self._begin(mean))
        return self.decode(self.mixture.mean(predictions, log_weights)).sigmoid()

    def posterior_reconstruction(self, images: Batch) -> Batch:
        """Images from the posterior mean of the children: as `reconstruction`, unless the encoder contributes."""
        mean, deviation = self.encode(images)
        predictions = self.predictions(self.infer(mean)[0])
        log_weights = self.settle(predictions, self._begin(mean))
        return self.decode(self._posterior(mean, deviation, predictions, log_weights)[0]).sigmoid()

    def features(self, images: Batch) -> dict[str, Tensor]:
        """`lengths` of the parents' means, (batch, parent), and `poses`, (batch, parent x pose)."""
        poses, lengths = self.infer(self.encode(images)[0])
        return {"lengths": lengths, "poses": poses.flatten(1)}

    @torch.no_grad()
    def sample(
        self,
        count: int,
        generator: Generator | None = None,
        *,
        like: Batch | None = None,
        spread: bool = True,
    ) -> Float[Tensor, "count channel height width"]:
        """Images from the model: parents, then children from the mixture, then the mean of their pixels.

        Args:
            count: how many.
            generator: a generator on the network's device; None for torch's own.
            like: images, such as those of training. Parents are drawn from one Gaussian fitted to these images'
                posteriors, which approximates the aggregate posterior. None draws them from the prior.
            spread: draw children; False takes the mean of the mixture.
        """
        parents = self._prior(count, generator) if like is None else self._aggregate(like, count, generator)
        predictions = self.predictions(parents)
        log_weights = self.settle(predictions)
        if spread:
            return self.decode(self.mixture.sample(predictions, log_weights, generator)).sigmoid()
        return self.decode(self.mixture.mean(predictions, log_weights)).sigmoid()

    def _prior(self, count: int, generator: Generator | None) -> Drawn:
        empty = self.resting.new_empty(count, self.parents, self.parent_pose)
        return _normal(empty, generator) / math.sqrt(self.parent_pose)

    def _aggregate(self, images: Batch, count: int, generator: Generator | None) -> Drawn:
        centre = self.infer(self.encode(images)[0])[0].flatten(1)
        noise = (2 * self.log_deviation).exp().flatten()
        root = torch.linalg.cholesky(torch.cov(centre.T, correction=0) + torch.diag(noise))
        drawn = _normal(centre.new_empty(count, centre.shape[1]), generator)
        parents: Tensor = centre.mean(dim=0) + drawn @ root.T
        return parents.reshape(count, self.parents, self.parent_pose)

    def _begin(self, bottom_up: Children) -> Children | None:
        return bottom_up if self.start == "bottom-up" else None

    def _posterior(
        self, mean: Children, deviation: Children | None, predictions: Predictions, log_weights: Weights
    ) -> tuple[Children, Children]:
        """Mean and deviation of q(V | x, P)."""
        if self.posterior == "bottom-up" and deviation is not None:
            return mean, deviation
        above = self.mixture.mean(predictions, log_weights)
        variance = (log_weights.exp() * self.mixture.sigma.square()).sum(dim=2)[..., None]
        if deviation is None:
            return above, variance.sqrt().expand_as(above)
        share = variance / (variance + deviation.square())
        return above + share * (mean - above), share.sqrt() * deviation

    def _surprise(self, images: Batch, logits: Batch) -> PerImage:
        """-log p(x | V) in nats."""
        if self.pixel_sigma is None:
            surprise = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
            return surprise.sum(dim=(1, 2, 3))
        squared = (images - logits.sigmoid()).square() / self.pixel_sigma**2
        return (0.5 * squared + math.log(self.pixel_sigma * math.sqrt(2 * math.pi))).sum(dim=(1, 2, 3))

    def _divergence(self, centre: Parents) -> PerImage:
        """KL(N(centre, deviation^2) || N(0, 1 / pose)), summed over parents."""
        spread = self.parent_pose * (2 * self.log_deviation).exp()
        return 0.5 * (spread + self.parent_pose * centre.square() - 1 - spread.log()).sum(dim=(1, 2))

    def _weight(self) -> float:
        """Weight of the parents' divergence: 1 outside training."""
        if not self.training or self.warm_up == 0:
            return 1.0
        return min(1.0, float(self.layer.routing.progress) / self.warm_up)  # type: ignore[attr-defined]  # the trainer sets it


def _encoder(channels: int, maps: int, elements: int) -> nn.Sequential:
    """Maps pixels to means of the children, on a quarter of the grid."""
    first, second = HALVES
    return nn.Sequential(
        nn.Conv2d(channels, maps, *first),
        nn.ReLU(),
        nn.Conv2d(maps, 2 * maps, *second),
        nn.ReLU(),
        nn.Conv2d(2 * maps, elements, 3, padding=1),
    )


def _decoder(channels: int, maps: int, elements: int) -> nn.Sequential:
    """Maps poses of the children to logits of pixels; each child reaches about two cells around it."""
    return nn.Sequential(
        nn.Conv2d(elements, 2 * maps, 3, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * maps, maps, 4, 2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(maps, channels, 4, 2, padding=1),
    )


def _normal(like: Tensor, generator: Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


@models.register("top-down-capsules", version=1)
@facts(
    source="Kiefer et al., Capsule Networks as Generative Models, sections 4.1 and 4.2; all else is ours",
    routed=False,
    unsupervised=True,
    passes_on=(TopDownCapsules, VMFMixture),
)
def top_down_capsules(shape: tuple[int, int, int], classes: int, **options: Any) -> TopDownCapsules:  # noqa: ARG001  # the signature is the interface
    """8 parents generate a grid of children by attention, and children generate pixels; trained on the ELBO.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes of the data; unused.
        options: arguments of `TopDownCapsules`.
    """
    return TopDownCapsules(shape, **options)
