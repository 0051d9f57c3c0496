"""Losses against plain loops over images and classes."""

import math

import pytest
import torch

from routebench.errors import UserError
from routebench.losses import linear_margin, margin, reconstruction, sigmoid_margin, spread_over
from routebench.models import build
from routebench.models.network import Output
from routebench.ops import length_logit
from routebench.recipe import LEGAL, Moment
from routebench.registry import losses
from tests import first_calls
from tests.references.problem import assert_close

IMAGES, CLASSES = 4, 5
LABELS = torch.tensor([0, 3, 4, 3])


@pytest.fixture
def output():
    logits = 3 * torch.randn(IMAGES, CLASSES, dtype=torch.float64)
    return Output(logits.requires_grad_(), torch.rand(IMAGES, CLASSES, dtype=torch.float64).requires_grad_())


def mean_over_images(of_image):
    return torch.stack([of_image(image, int(LABELS[image])) for image in range(IMAGES)]).mean()


def margin_by_hand(output, moment):
    def of_image(image, label):
        total = torch.zeros((), dtype=torch.float64)
        for k, p in enumerate(output.scores[image]):
            hinge = torch.relu(0.9 - p) if k == label else torch.relu(p - 0.1)
            total = total + (1.0 if k == label else 0.5) * hinge**2
        return total

    return mean_over_images(of_image)


def spread_by_hand(output, moment, m=None):
    m = 0.2 + 0.7 * moment.progress if m is None else m

    def of_image(image, label):
        a = output.scores[image]
        return sum(torch.relu(m - (a[label] - a[i])) ** 2 for i in range(CLASSES) if i != label)

    return mean_over_images(of_image)


def spread_sigmoid_by_hand(output, moment):
    return spread_by_hand(output, moment, 0.2 + 0.79 / (1 + math.exp(-min(10, moment.step / 50_000 - 4))))


def cross_entropy_by_hand(output, moment):
    def of_image(image, label):
        e = output.logits[image].exp()
        return -torch.log(e[label] / e.sum())

    return mean_over_images(of_image)


def cross_entropy_of_scores_by_hand(output, moment):
    def of_image(image, label):
        e = output.scores[image].exp()
        return -torch.log(e[label] / e.sum())

    return mean_over_images(of_image)


def binary_cross_entropy_by_hand(output, moment):
    def of_image(image, label):
        p = 1 / (1 + torch.exp(-output.logits[image]))
        return torch.stack([-torch.log(q if k == label else 1 - q) for k, q in enumerate(p)]).mean()

    return mean_over_images(of_image)


BY_HAND = {
    "margin": margin_by_hand,
    "spread": spread_by_hand,
    "spread-sigmoid": spread_sigmoid_by_hand,
    "cross-entropy": cross_entropy_by_hand,
    "cross-entropy-of-scores": cross_entropy_of_scores_by_hand,
    "binary-cross-entropy": binary_cross_entropy_by_hand,
}
MOMENTS = [Moment(0, 0.0), Moment(60_000, 0.4), Moment(2_000_000, 1.0)]


@pytest.mark.parametrize("moment", MOMENTS, ids=["start", "middle", "end"])
@pytest.mark.parametrize("name", BY_HAND)
def test_loss_and_its_gradient_equal_the_transcription(name, moment, output):
    found, expected = losses[name](output, LABELS, moment), BY_HAND[name](output, moment)
    leaves = [output.logits, output.scores]
    assert_close(found, expected, rtol=1e-6)  # the sigmoid margin is single precision
    options = {"allow_unused": True, "materialize_grads": True}
    assert_close(
        torch.autograd.grad(found, leaves, **options), torch.autograd.grad(expected, leaves, **options), rtol=1e-5
    )


def test_recipes_know_every_loss():
    assert {*BY_HAND, "own"} == {*losses} == {*LEGAL["loss"].choices}  # the last one is the network's


SOFTMAX = ["cross-entropy", "cross-entropy-of-scores"]
SEVERAL_ALLOWED = [name for name in BY_HAND if name not in SOFTMAX]
SEVERAL = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 0, 0, 1], [0, 1, 0, 1, 0]], dtype=torch.bool)


def several_by_hand(name, output, moment):
    """Image by image and class by class, for images that show several."""
    totals = []
    for image in range(IMAGES):
        shown = [k for k in range(CLASSES) if SEVERAL[image, k]]
        absent = [k for k in range(CLASSES) if not SEVERAL[image, k]]
        p, q = output.scores[image], 1 / (1 + torch.exp(-output.logits[image]))
        if name == "margin":
            total = sum(torch.relu(0.9 - p[k]) ** 2 for k in shown) + 0.5 * sum(
                torch.relu(p[k] - 0.1) ** 2 for k in absent
            )
        elif name == "binary-cross-entropy":
            total = -(sum(q[k].log() for k in shown) + sum((1 - q[k]).log() for k in absent)) / CLASSES
        else:
            m = linear_margin(moment) if name == "spread" else sigmoid_margin(moment)
            total = sum(torch.relu(m - (p[t] - p[i])) ** 2 for t in shown for i in absent) / len(shown)
        totals.append(total)
    return torch.stack(totals).mean()


@pytest.mark.parametrize("moment", MOMENTS, ids=["start", "middle", "end"])
@pytest.mark.parametrize("name", SEVERAL_ALLOWED)
def test_loss_of_several_classes_and_its_gradient_equal_the_transcription(name, moment, output):
    found, expected = losses[name](output, SEVERAL, moment), several_by_hand(name, output, moment)
    leaves, options = [output.logits, output.scores], {"allow_unused": True, "materialize_grads": True}
    assert_close(found, expected, rtol=1e-6)
    assert_close(
        torch.autograd.grad(found, leaves, **options), torch.autograd.grad(expected, leaves, **options), rtol=1e-5
    )


def test_reconstruction_of_the_authors_code_weighs_as_much_as_its_docstring_says(output):
    """Their margin loss is halved and a mean over images and classes; reconstruction is added to it with 0.0005."""
    shown = torch.nn.functional.one_hot(LABELS, CLASSES)
    images, decoded = torch.rand(2, IMAGES, 1, 3, 3, dtype=torch.float64)
    decoded.requires_grad_()
    present, absent = torch.relu(0.9 - output.scores) ** 2, torch.relu(output.scores - 0.1) ** 2
    theirs = (0.5 * shown * present + 0.25 * (1 - shown) * absent).mean()
    theirs = theirs + 0.0005 * (decoded - images).square().sum(dim=(1, 2, 3)).mean()
    ours = margin(output, LABELS, Moment()) + 0.0005 * 2 * CLASSES * reconstruction(images, decoded)
    leaves = [output.scores, decoded]
    assert_close(torch.autograd.grad(ours, leaves), torch.autograd.grad(2 * CLASSES * theirs, leaves), rtol=1e-9)


@pytest.mark.parametrize("name", SEVERAL_ALLOWED)
def test_one_class_costs_the_same_in_either_form_of_labels(name, output):
    marked = torch.nn.functional.one_hot(LABELS, CLASSES).bool()
    assert_close(losses[name](output, marked, Moment()), losses[name](output, LABELS, Moment()))


@pytest.mark.parametrize("name", SEVERAL_ALLOWED)
def test_an_image_that_shows_nothing_has_a_finite_loss(name, output):
    assert bool(torch.isfinite(losses[name](output, torch.zeros(IMAGES, CLASSES, dtype=torch.bool), Moment())))


@pytest.mark.parametrize("name", SOFTMAX)
def test_cross_entropy_of_several_classes_is_refused(name, output):
    with pytest.raises(UserError, match="takes one class per image, and these images may show several; choose margin"):
        losses[name](output, SEVERAL, Moment())


@pytest.mark.parametrize("name", BY_HAND)
def test_every_loss_is_a_mean_over_images(name, output):
    whole = losses[name](output, LABELS, Moment())
    parts = [
        losses[name](Output(output.logits[[image]], output.scores[[image]]), LABELS[[image]], Moment())
        for image in range(IMAGES)
    ]
    assert_close(whole, torch.stack(parts).mean())


@pytest.mark.parametrize("name", BY_HAND)
def test_right_answers_cost_less_than_wrong_ones(name):
    scores = torch.full((1, CLASSES), 0.05)
    scores[0, 2] = 0.95
    output = Output(length_logit(scores), scores)
    costs = [float(losses[name](output, torch.tensor([label]), Moment())) for label in range(CLASSES)]
    assert min(costs) == costs[2]
    assert sorted(costs)[1] > costs[2] + 0.1


def test_margin_loss_is_zero_beyond_both_margins():
    scores = torch.tensor([[0.95, 0.05, 0.1]])
    assert float(margin(Output(scores, scores), torch.tensor([0]), Moment())) == 0.0


def test_spread_loss_with_margin_one_is_the_squared_hinge_on_the_gap():
    scores = torch.tensor([[0.7, 0.2, 0.9]], dtype=torch.float64)
    found = spread_over(scores, torch.tensor([0]), 1.0)
    assert float(found) == pytest.approx((1 - 0.5) ** 2 + (1 + 0.2) ** 2)


def test_linear_margin_goes_from_0_2_to_0_9():
    assert [linear_margin(Moment(0, progress)) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.2, 0.55, 0.9])


def test_sigmoid_margin_has_the_values_of_the_authors_code():
    found = [sigmoid_margin(Moment(step)) for step in (0, 200_000, 10_000_000)]
    assert found == pytest.approx([0.2142, 0.595, 0.98996], abs=1e-4)


def test_after_training_every_schedule_has_ended():
    assert (linear_margin(Moment()), sigmoid_margin(Moment())) == pytest.approx((0.9, 0.98996), abs=1e-4)


class TestCrossEntropyOnCapsules:
    def test_can_become_small_although_lengths_stay_below_one(self):
        lengths = torch.full((1, 10), 1e-3)
        lengths[0, 4] = 0.999
        on_lengths = float(torch.nn.functional.cross_entropy(lengths, torch.tensor([4])))
        assert on_lengths > 1.4  # -log(e / (e + 9)) = 1.46: as low as it gets on lengths themselves
        output = Output(length_logit(lengths), lengths)
        assert float(losses["cross-entropy"](output, torch.tensor([4]), Moment())) < 0.02

    @pytest.mark.parametrize(("classes", "floor"), [(5, 0.905), (10, 1.461)])
    def test_of_scores_it_has_a_floor(self, classes, floor):
        """ln(1 + (J - 1) / e): where the right activation is 1 and all others are 0."""
        right = torch.zeros(1, classes)
        right[0, 2] = 1.0
        best = float(losses["cross-entropy-of-scores"](Output(right, right), torch.tensor([2]), Moment()))
        assert best == pytest.approx(floor, abs=1e-3)
        any_scores = torch.rand(100, classes)
        found = losses["cross-entropy-of-scores"](Output(any_scores, any_scores), torch.full((100,), 2), Moment())
        assert float(found) > best

    def test_networks_give_log_odds_and_not_lengths(self):
        output = build("capsnet-small", shape=(1, 28, 28), classes=10, method="dynamic")(torch.rand(2, 1, 28, 28))
        assert_close(output.logits, torch.log(output.scores / (1 - output.scores)), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("lengths", [0.0, 1.0])
    def test_log_odds_of_certain_lengths_are_finite(self, lengths):
        assert bool(torch.isfinite(length_logit(torch.tensor([lengths]))).all())


def test_reconstruction_is_the_sum_of_squared_pixel_errors_of_an_image():
    images, decoded = torch.rand(3, 1, 4, 5), torch.rand(3, 1, 4, 5)
    expected = torch.stack([((images[n] - decoded[n]) ** 2).sum() for n in range(3)]).mean()
    assert_close(reconstruction(images, decoded), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["margin", "spread", "spread-sigmoid", "binary-cross-entropy"])
@pytest.mark.parametrize("labels", [torch.tensor([1]), torch.ones(1, CLASSES, dtype=torch.bool)])
def test_labels_of_another_batch_are_refused(monkeypatch, name, labels, output):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    with pytest.raises(ValueError, match="expected labels of shape"):
        losses[name](output, labels, MOMENTS[0])
