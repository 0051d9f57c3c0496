"""The methods in `examples` keep the contract."""

from pathlib import Path

import pytest
import torch

import routebench
from routebench.capsules import Competition, Sizes, Votes
from routebench.registry import extensions, routing

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_conforms(file):
    found = routebench.check(plugins=file)
    assert found.conforms, str(found)


def test_soft_dispatch_is_a_softmax_over_children_of_the_cosine_with_a_learned_query():
    with extensions.restored():
        extensions.load_plugin(str(EXAMPLES / "soft_dispatch.py"))
        method = routing["soft-dispatch"](Sizes(5, 3, 4))
    torch.manual_seed(0)
    u, weight = torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(5, 3, 6, 4, dtype=torch.float64)
    votes = torch.einsum("bip, ijpq -> bijq", u, weight)
    found = method.double().route(Votes(u, weight, Competition("children")), torch.ones(2, 5))
    for image in range(2):
        for parent in range(3):
            query = method.query[parent] / method.query[parent].norm()
            logits = torch.stack([v @ query / v.norm() for v in votes[image, :, parent]]) * method.scale
            share = logits.exp() / logits.exp().sum()
            mean = 5**0.5 * sum(r * v for r, v in zip(share, votes[image, :, parent], strict=True))
            size = mean.norm()
            assert torch.allclose(found.poses[image, parent], size / (1 + size**2) * mean)
