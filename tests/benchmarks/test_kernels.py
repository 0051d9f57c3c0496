"""One routed layer, forward and backward, by every back end: `make microbench` shows their ratio in one run."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules, DenseCapsules
from routebench.kernels import BACKENDS, KERNELS, noting, using
from routebench.ops import length, squash
from routebench.routing import factory
from tests.kernels.sweeps import random_sweep

IMAGES = 16
BY_NAME = tuple(name for name in BACKENDS if name != "auto")


def capsnet(method):
    """A quarter of CapsNet's class capsules."""
    poses = squash(torch.randn(IMAGES, 3, 3, 32, 8))
    return DenseCapsules((3, 3, 32), 10, 8, 16, factory(method, iterations=3)), Capsules(poses, length(poses))


def convolutional(method, **params):
    """Capsules as in Hinton et al. 2018 and Tsai et al. 2020, with half their types on a smaller grid."""
    poses = torch.randn(IMAGES, 7, 7, 16, 16)
    layer = ConvCapsules((7, 7, 16), 16, 16, 16, factory(method, iterations=2, **params), stride=2, matrix=True)
    return layer, Capsules(poses, torch.rand(poses.shape[:-1]))


@pytest.mark.parametrize("backend", BY_NAME)
@pytest.mark.parametrize("method", ["dynamic", "em", "inverted-attention"])
@pytest.mark.parametrize("layer", [capsnet, convolutional], ids=lambda make: make.__name__)
def test_forward_and_backward(benchmark, layer, method, backend):
    time_forward_and_backward(benchmark, *layer(method), backend)


@pytest.mark.parametrize("backend", BY_NAME)
@pytest.mark.parametrize("axis", ["types", "types+positions", "positions"])
def test_competition_axes_of_a_convolutional_layer(benchmark, axis, backend):
    time_forward_and_backward(benchmark, *convolutional("em", competition=axis), backend)


def time_forward_and_backward(benchmark, routed, children, backend):
    """Both ways through a layer by one back end, which is shown to have done it."""
    kernel = KERNELS.get(backend)
    if kernel and (why := kernel.obstacle(random_sweep(poses="vectors"))):
        pytest.skip(f"{backend}: {why}")
    children.poses.requires_grad_()

    def step():
        found = routed(children)
        torch.autograd.backward(found.poses.square().sum() + found.activations.sum())

    with using(backend), noting() as used:
        benchmark(step)
    assert used == {backend}
    assert bool(torch.isfinite(children.poses.grad).all())
