"""The convolution at frequencies, against torch's, with gradients, in sizes that divide and in sizes that do not."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.functional import conv2d

from routebench import kernels
from routebench.kernels import Convolution
from routebench.kernels import convolution as tested
from routebench.models import build

SIZES = {  # batch, channels, maps, height, width, rows and columns of the kernel, stride
    "capsnet": (3, 5, 7, 20, 20, 9, 9, 2),
    "uneven": (2, 3, 4, 13, 18, 5, 7, 3),
    "stride of 1": (2, 4, 4, 11, 12, 5, 5, 1),
    "one place": (1, 2, 3, 9, 9, 9, 9, 2),
    "even kernel": (2, 2, 2, 10, 12, 3, 4, 2),
    "a rest that no window sees": (2, 3, 4, 19, 22, 9, 9, 4),
}


def drawn(size: str) -> tuple[Tensor, Tensor, int]:
    batch, channels, maps, height, width, rows, columns, stride = SIZES[size]
    images = torch.randn(batch, channels, height, width, dtype=torch.float64, requires_grad=True)
    return images, torch.randn(maps, channels, rows, columns, dtype=torch.float64, requires_grad=True), stride


def large() -> tuple[Convolution, Tensor]:
    """A layer and images for which the way over frequencies pays."""
    return Convolution(128, 128, 9, stride=2), torch.randn(64, 128, 20, 20)


@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_are_those_of_torch(size):
    images, weight, stride = drawn(size)
    ours, plain = tested.convolve(images, weight, stride), conv2d(images, weight, stride=stride)
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)
    of_outputs = torch.randn_like(plain)
    for mine, right in zip(*(torch.autograd.grad(y, (images, weight), of_outputs) for y in (ours, plain)), strict=True):
        assert mine.shape == right.shape
        torch.testing.assert_close(mine, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("channels", "maps", "last"), [(1, 64, True), (1, 65, True), (3, 8, True), (3, 65, False)])
def test_few_maps_lie_last_and_are_those_of_torch(channels, maps, last):
    layer = Convolution(channels, maps, 5, stride=2).double()
    images = torch.randn(4, channels, 12, 11, dtype=torch.float64, requires_grad=True)
    ours, plain = layer(images), conv2d(images, layer.weight, layer.bias, stride=2)
    assert ours.is_contiguous(memory_format=torch.channels_last) is last
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)
    of_outputs = torch.randn_like(plain)
    for wanted in ((images,), (layer.weight, layer.bias), (images, layer.weight, layer.bias)):
        mine, right = (torch.autograd.grad(y, wanted, of_outputs, retain_graph=True) for y in (ours, plain))
        torch.testing.assert_close(mine, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("maps", [64, 65])
def test_many_kernels_of_one_channel_lie_last_only_where_they_learn(maps):
    layer, images = Convolution(1, maps, 5), torch.rand(2, 1, 8, 8)
    with torch.no_grad():
        assert layer(images).is_contiguous(memory_format=torch.channels_last) is (maps == 64)
    layer.requires_grad_(False)
    assert layer(images).is_contiguous(memory_format=torch.channels_last) is (maps == 64)
    assert layer.requires_grad_()(images).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("maps", [2, 65])
def test_gradient_of_the_gradient_of_one_channel(maps):
    layer = Convolution(1, maps, 3, stride=2).double()
    images = torch.randn(2, 1, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer, (images,))


def test_one_image_without_a_batch_and_images_under_vmap_are_those_of_torch():
    layer, images = Convolution(3, 8, 5), torch.randn(4, 3, 12, 12)
    expected = conv2d(images, layer.weight, layer.bias)
    torch.testing.assert_close(layer(images[0]), expected[0])
    torch.testing.assert_close(vmap(lambda image: layer(image[None])[0])(images), expected)


@pytest.mark.parametrize("wanted", [0, 1])
def test_one_gradient_alone(wanted):
    images, weight, stride = drawn("uneven")
    given = [value if place == wanted else value.detach() for place, value in enumerate((images, weight))]
    ours, plain = tested.convolve(*given, stride), conv2d(*given, stride=stride)
    torch.testing.assert_close(
        *(torch.autograd.grad(y.square().sum(), given[wanted])[0] for y in (ours, plain)), rtol=0, atol=1e-11
    )


def test_gradient_of_the_gradient():
    images, weight, stride = drawn("even kernel")
    assert torch.autograd.gradgradcheck(lambda *given: tested.convolve(*given, stride), (images, weight))


def test_single_precision_rounds_to_a_millionth_of_the_largest_value():
    layer, images = large()
    exact = conv2d(images.double(), layer.weight.double(), stride=2)
    error = (tested.convolve(images, layer.weight, 2).double() - exact).abs().max()
    assert error < 2e-6 * exact.abs().max()


def test_a_large_layer_goes_over_frequencies_and_agrees(monkeypatch):
    calls = []
    convolve = tested.convolve
    monkeypatch.setattr(tested, "convolve", lambda *given: calls.append(given) or convolve(*given))
    layer, images = large()
    found = layer(images)
    assert len(calls) == 1
    with kernels.using("reference"):
        plain = layer(images)
    assert len(calls) == 1
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "images"),
    [
        (Convolution(64, 64, 3), torch.zeros(64, 64, 20, 20)),
        (Convolution(1, 64, 9), torch.zeros(64, 1, 28, 28)),
        (Convolution(64, 64, 9, stride=2), torch.zeros(1, 64, 20, 20)),
        (Convolution(64, 64, 9, stride=2).double(), torch.zeros(64, 64, 20, 20, dtype=torch.float64)),
    ],
    ids=["small kernel", "one channel", "one image", "double precision"],
)
def test_where_it_does_not_pay_torch_does_it(layer, images):
    assert not tested.pays(images, layer.weight, layer.stride[0])


def test_autocast_takes_torch():
    layer, images = large()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(images).dtype == torch.bfloat16
        digits = torch.rand(2, 1, 8, 8, requires_grad=True)
        assert torch.autograd.grad(Convolution(1, 2, 5)(digits).sum(), digits)


@pytest.mark.parametrize(
    ("backend", "attacked", "own"), [("auto", True, True), ("auto", False, False), ("reference", True, False)]
)
def test_images_of_one_channel_have_a_gradient_of_its_own(backend, attacked, own):
    with kernels.using(backend):
        answers = Convolution(1, 2, 5)(torch.rand(2, 1, 8, 8, requires_grad=attacked))
    assert ("OfOneChannel" in answers.grad_fn.name()) is own


def test_transformed_functions_take_torch():
    layer, images = large()
    weights = {name: torch.stack([value.detach()] * 2) for name, value in layer.named_parameters()}
    found = vmap(lambda given: functional_call(layer, given, (images,)))(weights)
    torch.testing.assert_close(found[0], layer(images), rtol=1e-4, atol=1e-5)


def test_images_that_are_too_small_are_torchs_error():
    with pytest.raises(RuntimeError, match=r"[Kk]ernel size"):
        Convolution(64, 64, 9, stride=2)(torch.zeros(64, 64, 8, 8))


@pytest.mark.parametrize("model", ["capsnet", "cnn"])
def test_networks_of_published_size_use_it(model, monkeypatch):
    calls = []
    convolve = tested.convolve
    monkeypatch.setattr(tested, "convolve", lambda *given: calls.append(given) or convolve(*given))
    network = build(model, shape=(1, 28, 28), classes=10, method=None if model == "cnn" else "uniform")
    with torch.no_grad():
        network(torch.zeros(32, 1, 28, 28))
    assert len(calls) == 1
