"""CapsNet's primary capsules, forward and backward, at frequencies and by torch: `make microbench` shows the ratio."""

import pytest
import torch

from routebench.kernels import Convolution, using


@pytest.mark.parametrize("images", [8, 128])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_convolution(benchmark, backend, images):
    random = torch.Generator().manual_seed(0)
    layer = Convolution(256, 256, 9, stride=2)
    maps = torch.rand(images, 256, 20, 20, generator=random).requires_grad_()

    def step():
        found = layer(maps)
        torch.autograd.backward(found.square().sum())
        return found

    with using(backend):
        found = benchmark(step)
    assert found.shape == (images, 256, 6, 6) and bool(torch.isfinite(found).all())
