"""Attacks do what their papers say, within the budget, and are judged by what they leave behind."""

import math

import pytest
import torch

from routebench.attacks import (
    FROM_DECISIONS,
    GRADIENT,
    WITH_GRADIENTS,
    Ball,
    Plan,
    Victim,
    attack_loss,
    attack_within,
    difference,
    distinct,
    fgsm,
    grey_levels,
    momentum,
    pgd,
    shortest,
    targeted_success,
    to_bytes,
    under_attack,
)
from routebench.attacks._gradient import LinfAdditiveUniformNoiseAttack, UniformNoise, bim
from routebench.attacks._losses import cross_entropy
from routebench.attacks._seeding import seeded
from routebench.attacks._victim import scaled
from routebench.models.network import Output
from routebench.recipe import Moment
from routebench.registry import losses
from tests.attacks.networks import Noisy, Rounded, honest, images

CPU = torch.device("cpu")


@pytest.fixture
def victim():
    with under_attack(honest(), CPU) as found:
        yield found


def strike(victim, attack, eps=0.1, seed=0):
    known = images()
    return attack_within(victim, attack, known.pixels, known.labels, eps, seed=(seed,))


@pytest.mark.parametrize("name", GRADIENT)
def test_each_is_worse_than_noise_and_stays_in_the_ball(victim, name):
    found, floor = strike(victim, GRADIENT[name](difference, 5)), strike(victim, UniformNoise())
    right, under_noise = ((one.predicted == images().labels).float().mean() for one in (found, floor))
    assert right < under_noise - 0.2
    for one in (found, floor):
        changed = (one.images.int() - images().pixels.int()).abs()
        assert changed.max() == grey_levels(0.1) == 25
        assert not one.outside.any()
        assert one.images.dtype == torch.uint8


def test_noise_of_foolbox_leaves_the_ball_and_is_caught(victim):
    assert strike(victim, LinfAdditiveUniformNoiseAttack()).outside.any()


def test_fgsm_is_one_line(victim):
    inputs = scaled(images().pixels, CPU).requires_grad_()
    torch.nn.functional.cross_entropy(honest()(inputs).logits, images().labels).backward()
    expected = (inputs + 25 / 255 * inputs.grad.sign()).clamp(0, 1)
    found = strike(victim, fgsm(cross_entropy))
    assert torch.equal(found.images, (expected * 255).round().to(torch.uint8))


def test_bim_with_one_step_is_fgsm(victim):
    assert torch.equal(strike(victim, bim(cross_entropy, 1)).images, strike(victim, fgsm(cross_entropy)).images)


def test_momentum_follows_the_paper(victim):
    pixels, labels = images().pixels, images().labels
    original = scaled(pixels, CPU)
    found, running = original.clone(), torch.zeros_like(original)
    for _ in range(3):
        inputs = found.clone().requires_grad_()
        difference(honest()(inputs), labels).backward()
        running = running + inputs.grad / inputs.grad.abs().sum(dim=(1, 2, 3), keepdim=True)
        found = found + 25 / 255 * (2 / 3) * running.sign()
        found = (original + (found - original).clamp(-25 / 255, 25 / 255)).clamp(0, 1)
    assert torch.equal(strike(victim, momentum(difference, 3)).images, (found * 255).round().to(torch.uint8))


def test_the_same_seed_gives_the_same_images_and_leaves_the_generator_alone(victim):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, again, other = (strike(victim, pgd(difference, 2), seed=seed).images for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    with seeded(CPU, "a"):
        first = torch.rand(3)
    with seeded(CPU, "b"):
        assert not torch.equal(first, torch.rand(3))


@pytest.mark.parametrize(("attack", "eps"), [("pgd", 0.09), ("apgd-ce", 0.13)])
def test_restarts_find_more_and_lose_nothing(victim, attack, eps):
    broken = []
    for restarts in (1, 6):
        ball = Ball(victim, images().pixels, images().labels, eps)
        ball.run(attack, Plan(1, restarts, {"difference": difference}, 0, apgd_steps=1))
        broken.append(ball.broken_by([attack]))
    assert bool((broken[1] | ~broken[0]).all())
    assert broken[1].sum() > broken[0].sum()


def test_the_worst_case_is_no_better_than_any_attack(victim):
    plan = Plan(3, 1, {"difference": difference, "cross-entropy": cross_entropy}, 0)
    small, large = (Ball(victim, images().pixels, images().labels, eps) for eps in (0.05, 0.1))
    for ball in (small, large):
        for name in ("noise", "fgsm", "pgd"):
            ball.run(name, plan)
    large.take_over(small)
    for broken in (*large.broken.values(), *small.broken.values()):
        assert bool((large.broken_by() | ~broken).all())
    wrong = victim.predict(large.images) != images().labels
    assert torch.equal(wrong, large.broken_by())
    assert (large.images.int() - images().pixels.int()).abs().max() <= 25


def test_success_towards_classes_is_a_mean_over_them(victim):
    def success(targets):
        return targeted_success(
            victim, "bim", cross_entropy, images().pixels, images().labels, eps=0.15, targets=targets, steps=5, seed=0
        )

    alone = [success([target]) for target in (2, 7)]
    assert success([2, 7]) == pytest.approx(sum(alone) / 2)
    assert sum(alone) > 0
    others = images().labels != 2
    aims = torch.full((int(others.sum()),), 2)
    found = attack_within(
        victim, bim(cross_entropy, 5), images().pixels[others], images().labels[others], 0.15, seed=(0,), targets=aims
    )
    assert float((found.predicted == 2).double().mean()) == pytest.approx(alone[0])


class Liar:
    """Says that it always succeeds, and changes nothing."""

    def __call__(self, model, inputs, criterion, *, epsilons):
        return inputs, inputs, torch.ones(len(inputs), dtype=torch.bool)


class Escapes:
    """Goes twice as far as it may, and says so of nothing."""

    def __call__(self, model, inputs, criterion, *, epsilons):
        far = inputs + 2 * epsilons
        return far, far, torch.zeros(len(inputs), dtype=torch.bool)


def test_an_attack_that_lies_is_judged_by_its_images(victim):
    found = strike(victim, Liar())
    assert torch.equal(found.predicted, images().labels)
    assert found.overstated.all()
    ball = Ball(victim, images().pixels, images().labels, 0.1)
    ball.add("liar", "", found)
    assert not ball.broken_by().any()


def test_an_attack_that_leaves_its_budget_is_held_to_it_and_told(victim):
    found = strike(victim, Escapes())
    assert found.outside.all()
    assert (found.images.int() - images().pixels.int()).abs().max() == 25


@pytest.mark.parametrize("name", [*WITH_GRADIENTS, *FROM_DECISIONS])
def test_smallest_changes_are_those_of_the_stored_images(victim, name):
    some = images().at(torch.arange(0, 40, 5))
    found = shortest(victim, name, some.pixels, some.labels, steps=20, queries=60, seed=0)
    reached = found.distances.isfinite()
    assert reached.float().mean() > 0.5
    assert not found.failed
    assert found.queries > 0
    assert (victim.predict(found.images)[reached] != some.labels[reached]).all()
    expected = (found.images.double() / 255 - some.pixels.double() / 255).flatten(1).norm(dim=1)
    assert found.distances[reached].numpy() == pytest.approx(expected[reached].numpy(), rel=1e-5)
    again = shortest(victim, name, some.pixels, some.labels, steps=20, queries=60, seed=0)
    assert torch.equal(again.images, found.images)


def test_more_queries_come_closer(victim):
    some = images().at(torch.arange(0, 40, 5))
    near, far = (
        shortest(victim, "hop-skip-jump", some.pixels, some.labels, steps=1, queries=asked, seed=0)
        for asked in (300, 30)
    )
    assert near.distances.median() < far.distances.median()
    assert near.queries > far.queries


def test_images_of_one_class_leave_decisions_nowhere_to_start(victim):
    some = images().at(torch.arange(4))
    found = shortest(victim, "boundary", some.pixels, some.labels, steps=1, queries=20, seed=0)
    assert found.failed
    assert all(math.isinf(distance) for distance in found.distances)


@pytest.mark.parametrize("name", ["margin", "spread", "cross-entropy"])
def test_the_training_loss_is_that_of_training(name):
    logits = torch.randn(6, 10, generator=torch.Generator().manual_seed(0))
    output, labels = Output(logits, logits.sigmoid()), torch.arange(6)
    expected = 6 * losses[name](output, labels, Moment())
    assert attack_loss("training", name)(output, labels) == pytest.approx(float(expected))


def test_the_difference_of_logits_is_above_zero_for_wrong_answers():
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 5.0]])
    assert difference(Output(logits, logits), torch.tensor([0, 1])) == pytest.approx((1 - 2) + (5 - 3))


def test_a_loss_that_is_named_twice_is_attacked_once():
    assert distinct(["training", "cross-entropy"], "cross-entropy") == {
        "training": "training",
        "cross-entropy": "training",
    }
    assert distinct(["training", "cross-entropy"], "margin") == {
        "training": "training",
        "cross-entropy": "cross-entropy",
    }


def test_bytes_keep_to_the_budget_and_to_what_is_a_number():
    original = torch.tensor([[[[0, 100, 255, 7]]]], dtype=torch.uint8)
    wanted = torch.tensor([[[[-1.0, 0.9, math.inf, math.nan]]]])
    assert to_bytes(wanted, original, 10).flatten().tolist() == [0, 110, 255, 7]
    assert [grey_levels(eps) for eps in (0.05, 0.1, 0.2, 0.5, 1.0)] == [12, 25, 51, 127, 255]


def test_the_network_is_left_as_it_was():
    network = Noisy().train()
    with under_attack(network, CPU) as found:
        assert isinstance(found, Victim)
        assert not network.training
        assert not any(parameter.requires_grad for parameter in network.parameters())
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_network_that_passes_no_gradient_can_be_attacked():
    with under_attack(Rounded(), CPU) as found:
        same = strike(found, fgsm(difference))
    assert torch.equal(same.images, images().pixels)
