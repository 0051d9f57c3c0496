"""APGD and Square do what their papers say, are tried on survivors, and find what attacks of fixed steps miss."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from routebench.attacks import WHITE, Ball, Plan, attack_within, difference, grey_levels, under_attack
from routebench.attacks._adaptive import AutoPGD, checkpoints, cross_entropies, ratio_towards
from routebench.attacks._ball import NEAREST
from routebench.attacks._gradient import UniformNoise
from routebench.attacks._losses import cross_entropy, margins
from routebench.attacks._seeding import seeded
from routebench.attacks._square import HALVED_AFTER, Square, side
from routebench.attacks._stored import Misclassification
from tests.attacks.networks import Misled, Sure, TwoHills, honest, images

CPU = torch.device("cpu")
OBJECTIVES = {"cross-entropy": cross_entropies, "likeliest": ratio_towards(0), "third": ratio_towards(2)}
EPS = 0.09375


@pytest.fixture
def victim():
    with under_attack(honest(), CPU) as found:
        yield found


@pytest.fixture(scope="module")
def double():
    """The honest network in double precision, with images that it has right."""
    some = images().at(torch.arange(0, 40, 4))
    with under_attack(deepcopy(honest()).double(), CPU) as found:
        yield found, some.pixels.double() / 255, some.labels


def transcribed_apgd(function, image, start, eps, steps):
    """Algorithm 1 of Croce and Hein 2020 for one image; `function` gives the value, the gradient and the margin.

    Returns:
        the visited point with the largest margin.
    """
    points, w = [0, 0.22], [0]
    while points[-1] <= 1:
        w.append(math.ceil(round(points[-1] * steps, 6)))
        points.append(points[-1] + max(points[-1] - points[-2] - 0.03, 0.06))

    def project(z):
        return torch.maximum(torch.minimum(z, torch.minimum(image + eps, torch.ones(()))),
                             torch.maximum(image - eps, torch.zeros(())))  # fmt: skip

    x_before = x = start
    f, slope, margin = function(x)
    visited, values = [(margin, x)], [f]
    f_max, x_max, slope_max = f, x, slope
    eta = 2 * eps
    halved_at, f_max_at = [True], [f]
    for k in range(steps):
        z = project(x + eta * slope.sign())
        alpha = 0.75 if k else 1
        x_before, x = x, project(x + alpha * (z - x) + (1 - alpha) * (x - x_before))
        f, slope, margin = function(x)
        values.append(f)
        visited.append((margin, x))
        if f > f_max:
            f_max, x_max, slope_max = f, x, slope
        if k + 1 in w:
            since = w[w.index(k + 1) - 1]
            climbs = sum(values[i + 1] > values[i] for i in range(since, k + 1))
            first = climbs <= 0.75 * (k + 1 - since)
            second = not halved_at[-1] and f_max == f_max_at[-1]
            halved_at.append(first or second)
            f_max_at.append(f_max)
            if first or second:
                eta, x, slope = eta / 2, x_max, slope_max
    return max(visited, key=lambda one: one[0])[1]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_apgd_is_the_algorithm_of_the_paper(double, name):
    model, inputs, labels = double
    with seeded(CPU, name):
        found = AutoPGD(OBJECTIVES[name], 40).run(model, inputs, Misclassification(labels), epsilon=EPS)
    with seeded(CPU, name):
        directions = 2 * torch.rand_like(inputs) - 1
    for place in range(len(inputs)):
        image, label, direction = inputs[place], labels[place : place + 1], directions[place]
        climbed = OBJECTIVES[name](model.output(image[None]).logits, label)

        def function(x, climbed=climbed, label=label):
            x = x[None].clone().requires_grad_()
            logits = model.output(x).logits
            value = climbed(logits)[0]
            (slope,) = torch.autograd.grad(value, x)
            return value.item(), slope[0], margins(logits, label).item()

        start = (image + EPS * direction / direction.abs().max()).clamp(0, 1)
        expected = transcribed_apgd(function, image, start, EPS, 40)
        assert torch.allclose(found[place], expected, atol=1e-9)


def test_checkpoints_are_those_of_the_paper():
    assert list(checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert list(checkpoints(50)) == [11, 21, 29, 35, 40, 44, 47, 50]
    assert max(checkpoints(3)) <= 3


def test_the_ratio_aims_at_a_class_and_does_not_change_with_scale_or_shift():
    logits = torch.tensor([[5.0, 2.0, 4.0, 1.0, 0.0]])
    label = torch.tensor([0])
    for rank, expected in ((0, (4 - 5) / (5 - 1.5)), (1, (2 - 5) / (5 - 1.5)), (3, (0 - 5) / (5 - 1.5))):
        climbed = ratio_towards(rank)(logits, label)
        for same in (logits, 7 * logits, logits - 3):
            assert climbed(same).tolist() == pytest.approx([expected])


@pytest.mark.parametrize(("classes", "expected"), [(3, (2 - 5) / (5 - 1)), (2, 2 - 5)])
def test_the_ratio_of_few_classes_is_a_number(classes, expected):
    logits = torch.tensor([[5.0, 2.0, 1.0]])[:, :classes]
    assert ratio_towards(0)(logits, torch.tensor([0]))(logits).tolist() == pytest.approx([expected])


@pytest.mark.parametrize("attack", [AutoPGD(cross_entropies, 20), AutoPGD(ratio_towards(0), 20), Square(60)])
def test_each_is_worse_than_noise_and_stays_in_the_ball(victim, attack):
    known = images()
    found, floor = (
        attack_within(victim, one, known.pixels, known.labels, 0.1, seed=(0,)) for one in (attack, UniformNoise())
    )
    right, under_noise = ((one.predicted == known.labels).float().mean() for one in (found, floor))
    assert right < under_noise - 0.05
    assert (found.images.int() - known.pixels.int()).abs().max() == grey_levels(0.1)
    assert not found.outside.any()


def transcribed_square(score, image, eps, queries):
    """Algorithms 1 and 2 of Andriushchenko et al. 2020 for one image; a `score` above zero is a success."""
    channels, height, width = image.shape
    signs = 2 * torch.randint(2, (1, channels, 1, width)).double()[0] - 1
    best = (image + eps * signs).clamp(0, 1)
    highest, asked = score(best), 1
    while highest <= 0 and asked < queries:
        size = side(asked - 1, queries, height, width)
        top = int(torch.randint(height - size + 1, (1,)))
        left = int(torch.randint(width - size + 1, (1,)))
        signs = 2 * torch.randint(2, (1, channels, 1, 1)).double()[0] - 1
        tried = best.clone()
        for channel in range(channels):
            for row in range(top, top + size):
                for column in range(left, left + size):
                    pixel = float(image[channel, row, column] + eps * signs[channel, 0, 0])
                    tried[channel, row, column] = min(max(pixel, 0.0), 1.0)
        now, asked = score(tried), asked + 1
        if now > highest:
            best, highest = tried, now
    return best


def test_square_is_the_algorithm_of_the_paper(double):
    model, inputs, labels = double
    for place in (0, 3, 7):
        image, label = inputs[place : place + 1], labels[place : place + 1]
        with seeded(CPU, place):
            found = Square(60).run(model, image, Misclassification(label), epsilon=EPS)
        with seeded(CPU, place):
            expected = transcribed_square(
                lambda x, label=label: float(margins(model.output(x[None]).logits, label)), image[0], EPS, 60
            )
        assert torch.allclose(found[0], expected, atol=1e-12)


def test_squares_shrink_as_in_the_paper():
    assert [side(query, 10_000, 28, 28) for query in (0, 10, 11, 50, 51, 8001)] == [25, 25, 18, 18, 13, 1]
    assert len(HALVED_AFTER) == 9
    assert side(0, 100, 2, 40) == 2


def test_square_rests_on_images_that_it_broke(victim):
    before = victim.queries
    Square(200).run(victim, images().pixels.float() / 255, Misclassification(images().labels), epsilon=0.3)
    assert victim.queries - before < 200 * len(images())


PLAN = Plan(10, 2, {"cross-entropy": cross_entropy, "difference": difference}, 0, apgd_steps=20, queries=50)


def test_the_ratio_breaks_a_sure_network_whose_cross_entropy_has_no_gradient():
    plan = replace(PLAN, losses={"cross-entropy": cross_entropy})
    with under_attack(Sure(), CPU) as found:
        ball = Ball(found, images().pixels, images().labels, 0.1)
        for name in ("bim", "pgd", "apgd-t"):
            ball.run(name, plan)
        wrong = found.predict(ball.images) != images().labels
    assert ball.broken_by(["apgd-t"]).sum() >= 5
    assert torch.equal(wrong, ball.broken_by())


def test_only_survivors_of_white_boxes_are_tried(victim):
    small = Ball(victim, images().pixels, images().labels, 0.05)
    for name in ("noise", "pgd", "apgd-ce"):
        small.run(name, PLAN)
    large = Ball(victim, images().pixels, images().labels, 0.06, small)
    known = small.broken_by(WHITE)
    assert 0 < known.sum() < len(known)
    small.broken["noise", ""] = ~known  # noise breaks all others, which keeps no white box from trying them
    for attack in ("apgd-ce", "square"):
        before = victim.queries
        left = int((~large.broken_within(WHITE)).sum())
        large.run(attack, PLAN)
        assert left <= int((~known).sum())
        assert victim.queries - before <= left * max(PLAN.restarts * (PLAN.apgd_steps + 4), PLAN.queries + 2)
        assert not (large.broken_by([attack]) & known).any()


def test_scores_break_what_a_gradient_of_the_wrong_sign_leaves():
    with under_attack(Misled(), CPU) as found:
        ball = Ball(found, images().pixels, images().labels, 0.15)
        for name in ("apgd-ce", "square"):
            ball.run(name, PLAN)
    assert ball.broken_by(["square"]).sum() > ball.broken_by(["apgd-ce"]).sum()


def test_two_classes_have_one_to_aim_at(victim):
    ball = Ball(victim, images().pixels, images().labels, 0.05)
    ball.run("apgd-t", Plan(1, 1, {}, 0, apgd_steps=1, classes=2))
    assert list(ball.broken) == [("apgd-t", "ratio-1")]


@pytest.mark.parametrize("further", [0, 150])
def test_further_starts_are_spent_on_what_came_nearest_towards_where_it_did(further):
    pixels = torch.full((9, 1, 4, 4), 128, dtype=torch.uint8)
    pixels[:, 0, 0, 1] = torch.tensor([255, 0, 255, 0, 0, 255, 0, 255, 0])
    near = pixels[:, 0, 0, 1] == 0
    assert near.sum() == NEAREST
    plan = Plan(1, 1, {}, 45, apgd_steps=10, further_starts=further, classes=5)  # a seed without luck at first starts
    with under_attack(TwoHills(), CPU) as found:
        ball = Ball(found, pixels, torch.zeros(9, dtype=torch.int64), 0.1)
        ball.run("apgd-t", plan)
        assert torch.equal(found.predict(ball.images) != 0, ball.broken_by())
    assert torch.equal(ball.broken_by(), near & (further > 0))
    assert torch.equal(ball.broken["apgd-t", "ratio-4"], ball.broken_by())


def test_of_several_starts_the_one_that_comes_nearest_is_judged(victim):
    pixels, labels, starts = images().pixels[:9], images().labels[:9], 7
    network = deepcopy(honest()).double()
    found = attack_within(victim, UniformNoise(), pixels, labels, 0.3, seed=(3,), starts=starts)
    alone = attack_within(
        victim, UniformNoise(), pixels.repeat_interleave(starts, 0), labels.repeat_interleave(starts), 0.3, seed=(3,)
    )
    for place, label in enumerate(labels.tolist()):
        tried = alone.images[place * starts : (place + 1) * starts]
        logits = network(tried.double() / 255).logits.tolist()
        ahead = [max(row[:label] + row[label + 1 :]) - row[label] for row in logits]
        best = ahead.index(max(ahead))
        assert torch.equal(found.images[place], tried[best])
        assert found.margins[place].item() == pytest.approx(ahead[best], abs=1e-4)
        assert found.predicted[place] == max(range(10), key=logits[best].__getitem__)
