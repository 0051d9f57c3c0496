"""The sparsity losses of a stacked capsule autoencoder, against plain loops."""

import pytest
import torch

from routebench.papers.smith.models.stacked.sparsity import posterior_sparsity, prior_sparsity
from tests.papers.smith import scae as plain
from tests.papers.smith.spread import spread
from tests.references.problem import assert_close


@pytest.mark.parametrize(("batch", "images"), [(1, None), (1, 128), (6, None), (6, 128)])
def test_prior_losses_are_those_of_plain_loops(batch, images):
    presences = spread(batch, 4).sigmoid()
    wanted = {"objects_per_image": 1.3, "share": 0.1, "images": images}
    found = prior_sparsity(presences, **wanted)
    assert [found.within.item(), found.between.item()] == pytest.approx(
        plain.prior_losses(presences.tolist(), **wanted), rel=1e-10
    )


@pytest.mark.parametrize("batch", [1, 6])
def test_posterior_losses_are_those_of_plain_loops(batch):
    presences = spread(batch, 4).sigmoid()
    found = posterior_sparsity(presences)
    assert [found.within.item(), found.between.item()] == pytest.approx(
        plain.posterior_losses(presences.tolist()), rel=1e-7
    )


def test_gradients_are_those_of_small_steps():
    presences = spread(3, 4).sigmoid().requires_grad_()
    wanted = {"objects_per_image": 1.3, "share": 0.1, "images": 128}
    for losses in (lambda given: prior_sparsity(given, **wanted), posterior_sparsity):
        assert torch.autograd.gradcheck(lambda given, of=losses: (of(given).within, of(given).between), presences)


def test_presences_of_exactly_nothing_give_finite_gradients():
    presences = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    found = posterior_sparsity(presences)
    (found.within + found.between).backward()
    assert found.within.item() == pytest.approx(0, abs=1e-6)
    assert bool(torch.isfinite(presences.grad).all())


def test_between_examples_does_not_depend_on_how_often_a_batch_is_repeated():
    presences = spread(3, 4).sigmoid()
    wanted = {"objects_per_image": 1.3, "share": 0.1}
    one, twice = (prior_sparsity(given, images=128, **wanted) for given in (presences, presences.repeat(2, 1)))
    assert_close(one.between, twice.between)
    raw = prior_sparsity(presences.repeat(2, 1), images=None, **wanted)
    assert_close(raw.between, 4 * prior_sparsity(presences, images=None, **wanted).between)
