"""FAB does what its paper says, and finds what a gradient that vanishes keeps from others."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from routebench.attacks import Ball, Plan, attack_within, grey_levels, under_attack
from routebench.attacks._fab import FastAdaptiveBoundary, nearest_on
from routebench.attacks._gradient import UniformNoise
from routebench.attacks._losses import margins
from routebench.attacks._stored import Misclassification
from tests.attacks.networks import honest, images

CPU = torch.device("cpu")
EPS, STEPS = 0.2, 12


def by_linear_program(gradient, rise, place):
    """The length of the shortest step, in the largest element; or None where the box allows none."""
    pixels = len(place)
    lengths = np.r_[np.zeros(pixels), 1]
    within = np.r_[np.c_[np.eye(pixels), -np.ones(pixels)], np.c_[-np.eye(pixels), -np.ones(pixels)]]
    found = linprog(
        lengths, A_ub=within, b_ub=np.zeros(2 * pixels), A_eq=np.r_[gradient, 0][None], b_eq=[rise],
        bounds=[*zip(-place, 1 - place, strict=True), (0, None)],
    )  # fmt: skip
    return found.fun if found.success else None


def test_the_step_is_the_solution_of_the_linear_program():
    draw = torch.Generator().manual_seed(0)
    gradients = torch.randn(40, 7, generator=draw, dtype=torch.float64)
    gradients[:5, :3] = 0
    rises = torch.randn(40, generator=draw, dtype=torch.float64)
    places = torch.rand(40, 7, generator=draw, dtype=torch.float64).round(decimals=1)  # some on the edge of the box
    steps = nearest_on(gradients, rises, places)
    assert ((places + steps >= 0) & (places + steps <= 1)).all()
    possible = 0
    for gradient, rise, place, step in zip(gradients, rises, places, steps, strict=True):
        length = by_linear_program(gradient.numpy(), float(rise), place.numpy())
        if length is None:
            furthest = sum(max(float(g * r), float(-g * p)) if rise > 0 else min(float(g * r), float(-g * p))
                           for g, r, p in zip(gradient, 1 - place, place, strict=True))  # fmt: skip
            assert float(gradient @ step) == pytest.approx(furthest)
            continue
        possible += 1
        assert float(gradient @ step) == pytest.approx(float(rise))
        assert float(step.abs().max()) == pytest.approx(length, abs=1e-7)
    assert 20 < possible < 40


def transcribed(function, image, steps):
    """Algorithm 1 of Croce and Hein 2020 towards one class, for one image; `function` gives difference, slope, margin.

    Returns:
        all visited points with their margins, before the backward step.
    """

    def project(x, w, b):
        step = nearest_on(w[None], (b - w @ x)[None], x[None])[0]
        return step, float(step.abs().max())

    x, visited = image, []
    for _ in range(steps):
        f, w, _ = function(x)
        b = w @ x - f
        delta, d = project(x, w, b)
        delta_clean, d_clean = project(image, w, b)
        alpha = min(d / (d + d_clean), 0.1)
        x = ((1 - alpha) * (x + 1.05 * delta) + alpha * (image + 1.05 * delta_clean)).clamp(0, 1)
        margin = function(x)[2]
        visited.append((margin, x))
        if margin > 0:
            x = (1 - 0.9) * image + 0.9 * x
    return visited


@pytest.mark.parametrize("rank", [0, 3])
def test_it_is_the_algorithm_of_the_paper(rank):
    some = images().at(torch.arange(0, 40, 8))
    inputs, labels = some.pixels.double() / 255, some.labels
    with under_attack(deepcopy(honest()).double(), CPU) as model:
        found = FastAdaptiveBoundary(rank, STEPS).run(model, inputs, Misclassification(labels), epsilon=EPS)
        for place, (image, label) in enumerate(zip(inputs, labels, strict=True)):
            order = model.output(image[None]).logits[0].argsort(descending=True).tolist()
            aim = [one for one in order if one != label][rank]

            def function(x, label=label, aim=aim, shape=image.shape):
                x = x.clone().requires_grad_()
                logits = model.output(x.view(1, *shape)).logits
                ahead = logits[0, aim] - logits[0, label]
                return ahead.item(), torch.autograd.grad(ahead, x)[0], margins(logits, label[None]).item()

            visited = transcribed(function, image.flatten(), STEPS)
            inside = [one for one in visited if (one[1] - image.flatten()).abs().max() <= EPS]
            expected = max(inside, key=lambda one: one[0])[1] if inside else image.flatten()
            assert torch.allclose(found[place].flatten(), expected, atol=1e-9)


def test_it_breaks_more_than_noise_and_stays_in_the_ball():
    known = images()
    with under_attack(honest(), CPU) as victim:
        found, floor = (
            attack_within(victim, one, known.pixels, known.labels, 0.15, seed=(0,))
            for one in (FastAdaptiveBoundary(0, 20), UniformNoise())
        )
    right, under_noise = ((one.predicted == known.labels).float().mean() for one in (found, floor))
    assert right < under_noise - 0.05
    assert (found.images.int() - known.pixels.int()).abs().max() <= grey_levels(0.15)
    assert not found.outside.any()


def test_it_draws_nothing_and_aims_at_each_class_once():
    with under_attack(honest(), CPU) as victim:
        balls = [Ball(victim, images().pixels, images().labels, 0.1) for _ in range(2)]
        for seed, ball in enumerate(balls):
            before = victim.queries
            ball.run("fab-t", Plan(1, 3, {}, seed, apgd_steps=3, classes=4))
            assert victim.queries - before <= 3 * len(images()) * (3 * 2 + 2)
    assert list(balls[0].broken) == [("fab-t", f"class-{number}") for number in (1, 2, 3)]
    assert torch.equal(balls[0].broken_by(), balls[1].broken_by())
    assert balls[0].broken_by().any()
