"""The likelihood of parts under objects of a stacked capsule autoencoder, against plain loops."""

import math

import pytest
import torch

from routebench.papers.smith.models.stacked.object_decoder import Predictions
from routebench.papers.smith.models.stacked.part_encoder import Parts
from routebench.papers.smith.models.stacked.part_likelihood import explain
from tests.papers.smith import scae as plain
from tests.papers.smith.spread import spread
from tests.references.problem import assert_close

NOBODY = {"normalised": True, "clutter": 0.01}


def made_up(batch, objects=4, parts=5, seed=0):
    """Parts and what objects say of them, near enough to each other that none explains all."""
    poses = spread(batch, parts, 2, 3, seed=seed)
    seen = Parts(poses, spread(batch, parts, seed=seed + 1), spread(batch, parts, 3, seed=seed + 2))
    said = Predictions(
        poses=poses[:, None] + 0.5 * spread(batch, objects, parts, 2, 3, seed=seed + 3),
        deviations=0.3 + spread(batch, objects, parts, seed=seed + 4).sigmoid(),
        presences=torch.nn.functional.logsigmoid(spread(batch, objects, parts, seed=seed + 5)),
        deformation=torch.zeros(batch, dtype=torch.float64),
    )
    return seen, said


def in_loops(seen, said, image, **options):
    arguments = seen.poses.flatten(2), seen.presences.sigmoid(), said.poses.flatten(3), said.deviations
    return plain.explained(*(each[image].tolist() for each in (*arguments, said.presences.exp())), **options)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("batch", [1, 3])
def test_is_that_of_plain_loops(batch, normalised):
    seen, said = made_up(batch)
    found = explain(seen, said, normalised=normalised, clutter=0.02)
    for image in range(batch):
        likely, posterior = in_loops(seen, said, image, normalised=normalised, clutter=0.02)
        assert found.log_likelihood[image].item() == pytest.approx(likely, rel=1e-10)
        assert_close(found.responsibilities[image], torch.tensor(posterior, dtype=torch.float64))
        assert 0.01 < max(map(max, posterior)) < 1 - 1e-9


def test_gradients_are_those_of_small_steps_in_plain_loops():
    seen, said = made_up(1, objects=2, parts=2)
    poses, deviations, presences = (
        value.clone().requires_grad_() for value in (said.poses, said.deviations, said.presences)
    )
    explain(seen, Predictions(poses, deviations, presences, said.deformation), **NOBODY).log_likelihood.sum().backward()

    def moved(name, place, step):
        values = {name: getattr(said, name).clone() for name in ("poses", "deviations", "presences")}
        values[name].view(-1)[place] += step
        return in_loops(seen, Predictions(**values, deformation=said.deformation), 0, **NOBODY)[0]

    for name, value in (("poses", poses), ("deviations", deviations), ("presences", presences)):
        for place in range(value.numel()):
            slope = (moved(name, place, 1e-6) - moved(name, place, -1e-6)) / 2e-6
            assert value.grad.view(-1)[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_stays_finite_where_no_object_is_near_and_none_is_there():
    seen, said = made_up(2)
    far = Predictions(said.poses + 1e3, said.deviations * 0 + 0.01, said.presences - 1e3, said.deformation)
    found = explain(seen, far, **NOBODY)
    assert_close(found.log_likelihood, seen.presences.sigmoid().sum(dim=1) * math.log(0.01))
    assert not found.responsibilities.any()


def test_posterior_presences_are_expected_shares_of_parts():
    seen, said = made_up(3)
    found = explain(seen, said, **NOBODY)
    assert_close(found.posterior() * 5, found.responsibilities.sum(dim=2))
    assert bool((found.posterior().sum(dim=1) < 1).all())
