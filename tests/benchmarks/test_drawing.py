"""Sixteen templates drawn over each other, by the kernel and in torch: `make microbench` shows the ratio."""

import pytest
import torch

from routebench.kernels import drawing, using
from routebench.papers.smith.models.templates import drawn, inverse

IMAGES, TEMPLATES, SIZE = 32, 16, (28, 28)


@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "forward-and-backward"])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_drawing(benchmark, backend, gradient):
    if backend == "auto" and (why := drawing.missing(1, torch.device("cpu"))):
        pytest.skip(why)
    random = torch.Generator().manual_seed(0)
    templates = torch.rand(TEMPLATES, 2, 12, 12, generator=random).requires_grad_(gradient)
    size = 12 / 28 * torch.eye(2, 3)
    poses = (size + 0.15 * torch.randn(IMAGES, TEMPLATES, 2, 3, generator=random)).requires_grad_(gradient)
    presences = torch.rand(IMAGES, TEMPLATES, generator=random).requires_grad_(gradient)

    def step():
        canvas, _ = drawn(templates, poses, presences, SIZE)
        if gradient:
            torch.autograd.backward(canvas.square().sum())
        return canvas

    with using(backend):
        canvas = benchmark(step)
    assert canvas.shape == (IMAGES, 1, *SIZE) and bool(torch.isfinite(inverse(poses)).all())
    assert float(canvas.detach().min()) >= 0 and 0 < float(canvas.detach().max()) <= 1
