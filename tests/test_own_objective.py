"""Training by a network's own objective: no label counts, an interrupted run goes on, the best epoch is kept."""

import math
from dataclasses import replace

import pytest
import torch

from routebench.data import Images, TrainingData
from routebench.errors import Diverged, UserError
from routebench.models import build
from routebench.recipe import Recipe
from routebench.training import evaluate, fit
from tests.short_fits import CPU, curves, network_of, same_weights, sixty_digits

RECIPE = Recipe(epochs=4, batch_size=24, loss="own", augmentation="rotate90")


@pytest.fixture(scope="module")
def data():
    return sixty_digits()


def vae(seed=0):
    torch.manual_seed(seed)
    return build("vae", shape=(1, 14, 14), classes=10)


def trained(data, recipe=RECIPE, seed=0, **more):
    network = vae()
    return network, fit(network, data, recipe, seed=seed, device=CPU, **more)


def test_labels_make_no_difference(data):
    train = Images(data.train.pixels, data.train.labels.flip(0))
    held_out = Images(data.held_out.pixels, data.held_out.labels.flip(0))
    other = TrainingData(data.name, data.classes, train, held_out, "")
    one, two = trained(data), trained(other)
    assert same_weights(one[0], two[0])
    assert str(curves(one[1])) == str(curves(two[1]))


def test_accuracies_are_absent_and_losses_are_not(data):
    _, epochs = trained(data)
    assert all(math.isnan(epoch.train_accuracy) and math.isnan(epoch.held_out_accuracy) for epoch in epochs)
    assert epochs[-1].train_loss < epochs[0].train_loss
    assert all(math.isfinite(epoch.held_out_loss) for epoch in epochs)


def test_seed_and_epoch_decide_the_noise(data):
    still = replace(RECIPE, augmentation="none", batch_size=60)  # one batch: its order is of no importance
    one, other = (trained(data, still, seed=seed)[0] for seed in (0, 1))
    assert not same_weights(one, other)
    assert same_weights(one, trained(data, still)[0])


def test_a_run_that_goes_on_ends_where_one_without_a_break_does(data, tmp_path):
    class Stopped(Exception):
        pass

    def stop(share):
        if share > 0.6:
            raise Stopped

    file = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Stopped):
        trained(data, checkpoint=file, on_progress=stop)
    assert file.exists()
    whole, resumed = trained(data), trained(data, checkpoint=file)
    assert same_weights(whole[0], resumed[0])
    assert str(curves(whole[1])) == str(curves(resumed[1]))


def test_selection_keeps_the_epoch_of_the_lowest_held_out_objective(data):
    recipe = replace(RECIPE, optimiser="sgd", learning_rate=6e-2, momentum=0.9, epochs=8, selection="held-out")
    network, epochs = trained(data, recipe)
    lowest = min(epoch.held_out_loss for epoch in epochs)
    assert lowest < epochs[-1].held_out_loss
    assert evaluate(network, data.held_out, recipe, CPU).loss == pytest.approx(lowest, rel=1e-6)


def test_the_held_out_objective_is_the_same_for_whoever_asks(data):
    network, epochs = trained(data)
    again = [evaluate(network, data.held_out, RECIPE, CPU).loss for _ in range(2)]
    assert again == [epochs[-1].held_out_loss] * 2
    assert not network.training


def test_divergence_is_told(data):
    with pytest.raises(Diverged):
        trained(data, replace(RECIPE, optimiser="sgd", learning_rate=1e20))


def test_loss_and_network_must_suit(data):
    with pytest.raises(UserError, match="expected loss to be own for VAE, got 'margin'"):
        trained(data, replace(RECIPE, loss="margin"))
    with pytest.raises(UserError, match="expected loss to be one on labels for CapsuleNetwork, got 'own'"):
        fit(network_of(), data, RECIPE, seed=0, device=CPU)
