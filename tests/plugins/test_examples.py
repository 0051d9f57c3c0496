"""The methods in `examples` keep the contract."""

from pathlib import Path

import pytest
import torch

import routebench
from routebench.capsules import Competition, Sizes, Votes
from routebench.registry import extensions, routing

EXAMPLES = Path(__file__).parents[2] / "examples"


METHODS = sorted(file for file in EXAMPLES.glob("*.py") if "@routing.register" in file.read_text())


@pytest.mark.parametrize("file", METHODS, ids=lambda file: file.stem)
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


@pytest.mark.parametrize("iterations", [1, 3])
def test_kernel_density_weighs_votes_by_softmax_over_parents_then_over_children(iterations):
    with extensions.restored():
        extensions.load_plugin(str(EXAMPLES / "kernel_density.py"))
        method = routing["kernel-density"](Sizes(5, 3, 4), iterations=iterations)
    torch.manual_seed(0)
    u, weight = torch.randn(1, 5, 6, dtype=torch.float64), torch.randn(5, 3, 6, 4, dtype=torch.float64)
    votes = torch.einsum("ip, ijpq -> ijq", u[0], weight)
    found = method.route(Votes(u, weight, Competition("children")), torch.ones(1, 5))

    def squashed(vector):
        return vector.norm() * vector / (0.5 + vector @ vector)

    logits = torch.zeros(5, 3, dtype=torch.float64)
    for _ in range(iterations):
        shares = torch.stack([row.exp() / row.exp().sum() for row in logits])
        coupling = torch.stack([column / column.sum() for column in shares.T]).T
        modes = [squashed(sum(c * v for c, v in zip(coupling[:, j], votes[:, j], strict=True))) for j in range(3)]
        for i in range(5):
            for j in range(3):
                logits[i, j] += 1 - (squashed(votes[i, j]) - modes[j]).square().sum()
    assert torch.allclose(found.poses[0], torch.stack(modes))
    assert torch.allclose(found.coupling[0], coupling)
