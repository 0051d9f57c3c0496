"""Layers under torch.func and forward-mode differentiation: the same numbers as without."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules, DenseCapsules, PrimaryCapsules
from routebench.registry import routing
from routebench.routing import factory
from tests.references.problem import assert_close

pytestmark = [  # of torch itself: what it does one by one, and how it makes a jvp
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated"),
]

LAYERS = {
    "dense": (lambda method: DenseCapsules(5, 3, 4, 4, method), (5,)),
    "matrices": (lambda method: DenseCapsules(5, 3, 4, 4, method, matrix=True), (5,)),
    "grid": (lambda method: ConvCapsules((3, 4, 2), 2, 4, 4, method), (3, 4, 2)),
}
USE = [
    "uniform",
    "dynamic",
    "em",
    "inverted-attention",
    "variational-bayes",
    "self-attention",
    "slot-attention",
    "mesh",
    "heinsen",
]
"""Methods that go different ways through votes."""


def a_layer(name, kind, dtype=torch.float64):
    make, place = LAYERS[kind]
    layer = make(factory(name)).to(dtype).eval()
    poses, activations = torch.randn(2, *place, 4, dtype=dtype), torch.rand(2, *place, dtype=dtype)
    return layer, poses, activations


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("name", routing)
def test_vmap_over_images_is_a_batch(name, kind):
    layer, poses, activations = a_layer(name, kind)
    found = vmap(lambda x, a: layer(Capsules(x[None], a[None])).poses[0])(poses, activations)
    assert_close(found, layer(Capsules(poses, activations)).poses)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("name", USE)
def test_jacobians_are_those_of_autograd(name, kind):
    layer, poses, activations = a_layer(name, kind)

    def parents(x):
        return layer(Capsules(x, activations)).poses.sum(dim=-1)

    expected = torch.autograd.functional.jacobian(parents, poses)
    for way in (jacrev, jacfwd):
        assert_close(way(parents)(poses), expected)
    along = torch.randn_like(poses)
    slope = (expected * along).flatten(start_dim=-poses.ndim).sum(dim=-1)
    assert_close(jvp(parents, (poses,), (along,))[1], slope)
    with forward_ad.dual_level():
        assert_close(forward_ad.unpack_dual(parents(forward_ad.make_dual(poses, along))).tangent, slope)


@pytest.mark.parametrize("name", USE)
def test_gradients_of_each_image_add_up_to_that_of_the_batch(name):
    layer, poses, activations = a_layer(name, "dense", torch.float32)  # where the kernel does the batch
    parameters = dict(layer.named_parameters())

    def loss(given, x, a):
        return functional_call(layer, given, (Capsules(x[None], a[None]),)).poses.sin().sum()

    apart = vmap(grad(loss), (None, 0, 0))(parameters, poses, activations)
    layer(Capsules(poses, activations)).poses.sin().sum().backward()
    for key, value in parameters.items():
        if value.grad is not None:
            assert_close(apart[key].sum(dim=0), value.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [(torch.float64, 1e-9, 1e-11), (torch.float32, 1e-4, 1e-6)])
@pytest.mark.parametrize("kernel", [1, 3])
def test_primary_capsules_under_vmap_are_those_of_a_batch(kernel, dtype, rtol, atol):
    primary, images = PrimaryCapsules(8, 2, 4, kernel=kernel).to(dtype), torch.randn(3, 8, 5, 5, dtype=dtype)
    one_by_one = vmap(lambda image: primary(image[None]).poses[0])(images)
    assert_close(one_by_one, primary(images).poses, rtol, atol)
