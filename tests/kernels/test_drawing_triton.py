"""Triton's kernels that draw templates, against the reference in double precision; in the interpreter without a GPU."""

import importlib.util

import pytest
import torch

from routebench.kernels import drawing
from routebench.papers.smith.models.templates import composited, inverse

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def random(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def poses(images, count):
    """Some templates lie partly beside the canvas, and one wholly."""
    draw = torch.Generator().manual_seed(1)
    found = 0.6 * torch.eye(2, 3) + 0.3 * torch.randn(images, count, 2, 3, generator=draw)
    found[0, 0, :, 2] = 5
    return inverse(found.double())


def evaluated(way, given, dtype, device, size):
    leaves = [value.to(device, dtype).requires_grad_() for value in given]
    found = torch.cat(way(*leaves, size), dim=1)
    weighting = random(*found.shape, seed=3).to(found)
    return [part.cpu().double() for part in (found.detach(), *torch.autograd.grad((found * weighting).sum(), leaves))]


def beyond(images, channels, size, device="cpu"):
    """By how much what is drawn, and each gradient, is further off than twice plain torch in single precision."""
    given = [random(3, channels + 1, 4, 3), poses(images, 3), random(images, 3, seed=2)]
    exact = evaluated(composited, given, torch.float64, "cpu", size)
    single = evaluated(composited, given, torch.float32, "cpu", size)
    drawn = evaluated(drawing.draw, given, torch.float32, device, size)
    return [
        float((mine - right).abs().max() - 2 * (plain - right).abs().max() - 1e-6 * right.abs().max())
        for mine, plain, right in zip(drawn, single, exact, strict=True)  # magnified poses magnify rounding
    ]


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("images", "channels", "size"), [(1, 1, (5, 6)), (3, 3, (12, 13))])
def test_drawing_and_its_gradients(images, channels, size):
    assert max(beyond(images, channels, size)) < 0


@pytest.mark.usefixtures("interpreter")
def test_parts_of_a_batch_are_summed(monkeypatch):
    monkeypatch.setattr(drawing, "PARTS", 2)
    assert max(beyond(3, 1, (5, 6))) < 0


@pytest.mark.usefixtures("interpreter")
def test_nothing_is_kept_without_a_gradient():
    given = [random(3, 2, 4, 3).float(), poses(1, 3).float(), random(1, 3).float()]
    (canvas, opacity), expected = drawing.draw(*given, (5, 6)), composited(*given, (5, 6))
    assert torch.allclose(canvas, expected[0], atol=1e-6) and torch.allclose(opacity, expected[1], atol=1e-6)
    assert len(drawing._work(*given, (5, 6)).forward(keep=False)) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("channels", [1, 3])
def test_on_a_gpu(channels):
    assert max(beyond(64, channels, (40, 40), device="cuda")) < 0
