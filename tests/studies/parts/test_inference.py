"""Inference in the true model finds the truth where it can be found."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from routebench.studies.parts.constellations import (
    CLUTTER,
    KINDS,
    SLOTS,
    Constellation,
    arrangements,
    decoded,
    draw,
    encoded,
    infer,
)
from routebench.studies.parts.constellations._inference import _Mixture


def inferred(known, exactly, count=20):
    scenes = draw(known, count, 5, exactly=exactly)
    poses, present = decoded(encoded(scenes).double() / 255)
    return scenes, infer(poses, present > 0, known.noise)


def rand_index(scenes, found):
    labels, is_part = found.coupling.argmax(dim=-1), scenes.parents >= 0
    every = zip(scenes.parents, labels, is_part, strict=True)
    return np.mean([adjusted_rand_score(true[of], own[of]) for true, own, of in every])


@pytest.mark.parametrize("objects", [2, 4])
def test_parents_poses_and_objects_are_found_where_noise_is_small(objects):
    scenes, found = inferred(Constellation(objects=4), objects)
    assert rand_index(scenes, found) > 0.95
    assert (found.shown == scenes.shown).all(dim=1).double().mean() > 0.9
    assert float((found.objects - scenes.objects)[scenes.shown].abs().mean()) < 0.02


def test_clutter_is_told_from_parts():
    scenes, found = inferred(Constellation(clutter=4), 2)
    labels = found.coupling.argmax(dim=-1)
    assert (labels[scenes.parents == CLUTTER] == KINDS).double().mean() > 0.95
    assert rand_index(scenes, found) > 0.95


def test_noise_makes_it_worse():
    few, many = (rand_index(*inferred(Constellation(noise=noise, clutter=4), 3)) for noise in (0.02, 0.2))
    assert many < few


def test_coupling_adds_up_to_one_in_places_that_hold_a_part():
    scenes, found = inferred(Constellation(clutter=1), 2)
    torch.testing.assert_close(found.coupling.sum(dim=-1), scenes.present.double())


def test_the_posterior_of_an_object_is_that_of_linear_regression():
    scenes = draw(Constellation(), 1, 0, exactly=1)
    poses, present, kind = scenes.poses.flatten(1, 2), scenes.present.flatten(1), int(scenes.shown[0].nonzero())
    mixture = _Mixture(poses, present, variance=0.01)
    coupling = torch.zeros(1, 1, poses.shape[1], KINDS, dtype=torch.float64)
    coupling[..., kind] = 0.5
    means, spread = mixture.posterior(coupling)
    design = torch.cat([arrangements()[kind, child // SLOTS] for child in present[0].nonzero()[:, 0]], dim=1)  # 3 x 3n
    seen = poses[0][present[0]].permute(1, 0, 2).flatten(1)  # two rows
    precision = mixture.prior + 0.5 * design @ design.T / 0.01
    torch.testing.assert_close(spread[0, 0, kind], torch.linalg.inv(precision))
    torch.testing.assert_close(means[0, 0, kind], 0.5 * seen @ design.T / 0.01 @ torch.linalg.inv(precision))


def test_updates_raise_the_bound():
    scenes = draw(Constellation(objects=3, clutter=2, noise=0.1), 10, 0, exactly=3)
    mixture = _Mixture(scenes.poses.flatten(1, 2), scenes.present.flatten(1), variance=0.01)
    alive = torch.ones(10, 1, KINDS, dtype=torch.bool)
    means, spread = mixture.start()
    bounds = [mixture.settle(alive, means, spread, sweeps)[0] for sweeps in range(1, 8)]
    assert all((after >= before - 1e-8).all() for before, after in pairwise(bounds))
