"""Steps as people train now: AdamW, a cosine, warm-up, clipping and smoothed targets, each against its formula."""

import math
from dataclasses import replace

import pytest
import torch

from routebench.data import Images, TrainingData
from routebench.losses import loss_named
from routebench.models.network import Output
from routebench.optimizers import make_optimizer
from routebench.recipe import Moment, Recipe
from routebench.training import fit, training_step


class OneLayer(torch.nn.Module):
    """Logits by one matrix, whose gradient is known."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3, bias=False)

    def forward(self, images):
        logits = self.linear(images.flatten(1))
        return Output(logits, logits.sigmoid())


def stepped(recipe: Recipe, factor: float = 1.0):
    """By how much one step moves the weights, and the gradient that it had."""
    torch.manual_seed(0)
    network, images = OneLayer(), factor * torch.rand(5, 1, 2, 2)
    before, labels = network.linear.weight.detach().clone(), torch.arange(5) % 3
    optimiser = make_optimizer(network, recipe)
    loss, _, _ = training_step(network, optimiser, (images,), labels, recipe=recipe, moment=Moment(0, 0.0))
    weight = before.clone().requires_grad_()
    logits = images.flatten(1) @ weight.T
    expected = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
    assert torch.allclose(loss, expected)
    return network.linear.weight.detach() - before, torch.autograd.grad(expected, weight)[0], before


SGD = Recipe(optimiser="sgd", momentum=0.0, learning_rate=0.5, loss="cross-entropy")


@pytest.mark.parametrize("most", [0.0, 1e-3, 1e3])
def test_a_gradient_is_scaled_down_to_the_largest_norm(most):
    moved, gradient, _ = stepped(replace(SGD, clip_norm=most))
    factor = min(1.0, most / float(gradient.norm())) if most else 1.0
    assert torch.allclose(moved, -0.5 * factor * gradient, rtol=1e-4, atol=1e-7)


def test_smoothed_targets_are_a_mean_with_equal_ones():
    logits, labels = torch.randn(6, 4, dtype=torch.float64), torch.arange(6) % 4
    target = 0.7 * torch.nn.functional.one_hot(labels, 4) + 0.3 / 4
    expected = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
    found = loss_named("cross-entropy", 0.3)(Output(logits, logits), labels, Moment())
    assert torch.allclose(found, expected)
    stepped(replace(SGD, label_smoothing=0.3))


def test_adamw_takes_its_decay_apart_from_the_gradient():
    recipe = Recipe(optimiser="adamw", learning_rate=0.01, weight_decay=0.1, loss="cross-entropy")
    moved, gradient, before = stepped(recipe)
    expected = -0.01 * 0.1 * before - 0.01 * gradient / (gradient.abs() + 1e-8)  # the first step of Adam
    assert torch.allclose(moved, expected, rtol=1e-3, atol=1e-7)


def test_the_rate_of_a_run_follows_the_cosine_and_warms_up():
    recipe = replace(SGD, epochs=4, batch_size=5, schedule="cosine", warmup_steps=2)
    images = Images(torch.randint(256, (10, 1, 2, 2), dtype=torch.uint8), torch.arange(10) % 3)
    data = TrainingData("x", tuple("abc"), images, images, "")
    epochs = fit(OneLayer(), data, recipe, seed=0, device=torch.device("cpu"))
    last = [(1 + math.cos(math.pi * step / 8)) / 4 for step in (1, 3, 5, 7)]  # of the last step of each epoch, of two
    assert [epoch.learning_rate for epoch in epochs] == pytest.approx(last)
