"""A variational autoencoder: the baseline for features learned without labels."""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, checked
from routebench.models.facts import facts
from routebench.registry import models

Batch = Float[Tensor, "batch channel height width"]
Latent = Float[Tensor, "batch latent"]


class VAE(nn.Module):
    """Fully connected encoder and decoder with one hidden layer each, normal latents, Bernoulli pixels.

    Source: Kingma and Welling, ICLR 2014 (arXiv:1312.6114), section 3; the baseline of Smith et al., "Capsule networks:
    a probabilistic perspective", table 1, whose "simple VAE" is not described. 10 latent and 128 hidden units follow
    from the parameter count of its decoder in section 4. ReLU, Bernoulli likelihood and one sample per image are ours.

    Args:
        shape: (channels, height, width) of the images.
        latent: latent units.
        hidden: units of the hidden layer of encoder and of decoder.
    """

    @checked
    def __init__(self, shape: tuple[int, int, int], *, latent: Count = 10, hidden: Count = 128):
        super().__init__()
        self.shape = shape
        pixels = shape[0] * shape[1] * shape[2]
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def encode(self, images: Batch) -> tuple[Latent, Latent]:
        """Mean and standard deviation of q(z | x)."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return mean, (0.5 * log_variance).exp()

    def forward(self, images: Batch) -> Batch:
        """The same as `reconstruction`."""
        return self.reconstruction(images)

    def reconstruction(self, images: Batch) -> Batch:
        """Images decoded from the mean of q(z | x): the probability of each pixel to be white."""
        decoded: Tensor = self.decoder(self.encode(images)[0]).sigmoid().unflatten(1, self.shape)
        return decoded

    def objective(self, images: Batch, generator: Generator | None = None) -> Float[Tensor, ""]:
        """Minus the evidence lower bound in nats, mean over images, with one sample of z per image.

        Args:
            images: values in [0, 1].
            generator: generator of the sample, on the images' device; None for torch's own.
        """
        mean, deviation = self.encode(images)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        logits = self.decoder(mean + deviation * noise)
        pixels = functional.binary_cross_entropy_with_logits(logits, images.flatten(1), reduction="none").sum(dim=1)
        return (pixels + divergence(mean, deviation)).mean()

    def features(self, images: Batch) -> dict[str, Tensor]:
        """`mu` and `sigma` of q(z | x), each (batch, latent)."""
        mean, deviation = self.encode(images)
        return {"mu": mean, "sigma": deviation}


def divergence(mean: Latent, deviation: Latent) -> Float[Tensor, " batch"]:
    """KL(N(mean, deviation^2) || N(0, I)) in nats, summed over latent units; Kingma and Welling, appendix B.

    Args:
        mean, deviation: parameters of the normal distribution of each latent unit.
    """
    return 0.5 * (mean.square() + deviation.square() - 1 - 2 * deviation.log()).sum(dim=1)


@models.register("vae", version=1)
@facts(
    source='Smith et al., "Capsule networks: a probabilistic perspective", table 1, with sizes of its section 4',
    routed=False,
    title="VAE",
    unsupervised=True,
)
def vae(shape: tuple[int, int, int], classes: int, *, latent: int = 10, hidden: int = 128) -> VAE:  # noqa: ARG001  # the signature is the interface
    """Pixels - 128 - 10 normal latents - 128 - pixels, trained on its evidence lower bound without labels.

    Args:
        shape, latent, hidden: as for `VAE`.
        classes: number of classes of the data; unused.
    """
    return VAE(shape, latent=latent, hidden=hidden)
