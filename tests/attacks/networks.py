"""Networks to attack: an honest one, and some that each hide something."""

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from routebench.data import load
from routebench.models import build
from routebench.models.network import Output

PER_CLASS = 4


@cache
def honest():
    """A small CNN, trained for two seconds."""
    torch.manual_seed(0)
    network = build("cnn-small", shape=(1, 28, 28), classes=10)
    train = load("mnist5k").train
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    for chosen in order[:3200].split(64):
        loss = functional.cross_entropy(network(train.pixels[chosen].float() / 255).logits, train.labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network.eval()


@cache
def images():
    """Test images, as many of each class, all of which the honest network has right."""
    test, network = load("mnist5k").test, honest()
    with torch.no_grad():
        right = network(test.pixels.float() / 255).scores.argmax(dim=1) == test.labels
    places = [(right & (test.labels == label)).nonzero()[:PER_CLASS, 0] for label in range(10)]
    return test.at(torch.cat(places))


class Wrapped(nn.Module):
    """The honest network behind something."""

    def __init__(self):
        super().__init__()
        self.inner = honest()

    def forward(self, pixels):
        logits = self.logits(pixels)
        return Output(logits, logits.sigmoid())


class Rounded(Wrapped):
    """Logits in steps: the answers are nearly the same, and the gradient is exactly zero."""

    def logits(self, pixels):
        return (self.inner(pixels).logits * 20).round() / 20


class Misled(Wrapped):
    """A gradient of the wrong sign, from logits of the right value."""

    def logits(self, pixels):
        logits = self.inner(pixels).logits
        return 2 * logits.detach() - logits


class Noisy(Wrapped):
    """Another answer every time."""

    def logits(self, pixels):
        logits = self.inner(pixels).logits
        return logits + 0.01 * torch.randn_like(logits)


class Sure(Wrapped):
    """Logits so large that softmax is 0 or 1 in float32, and cross entropy has no gradient."""

    def logits(self, pixels):
        return 1000 * self.inner(pixels).logits


class TwoHills(nn.Module):
    """Breaks on the narrower of two hills, which only one start in twenty climbs, towards the least likely class.

    The hills lie along the first pixel, which is 128 / 255 without an attack; no other class than the last one has a
    gradient. Where the second pixel is above 0.5, the last class has a handicap.
    """

    def forward(self, pixels):
        place = (pixels[:, 0, 0, 0] - 128 / 255) * 255 / 25  # -1 to 1 at eps 0.1
        hill = torch.where(place > -0.9, -2 + 1.5 * place, -3.35 + 43.5 * (-0.9 - place))
        last = hill - 0.5 * (pixels[:, 0, 0, 1] > 0.5)
        logits = torch.stack([0 * last, *[-1 + 0 * last] * 3, last], dim=1)
        return Output(logits, logits.sigmoid())
