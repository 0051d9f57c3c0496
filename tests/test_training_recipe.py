"""Every field of a recipe changes training, as it says."""

from dataclasses import fields, replace

import pytest
import torch

from routebench.errors import UserError
from routebench.recipe import Recipe
from routebench.training import evaluate, fit
from tests.short_fits import CPU, SHORT, network_of, same_weights, sixty_digits, trained, with_decoder


@pytest.fixture(scope="module")
def data():
    return sixty_digits()


OTHER_VALUES = {
    "epochs": 2,
    "batch_size": 30,
    "optimiser": "sgd",
    "learning_rate": 2e-3,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "schedule": "exponential",
    "decay": 0.5,
    "decay_steps": 3,
    "milestones": (1,),
    "loss": "cross-entropy",
    "reconstruction": 0.5,
    "augmentation": "shift2",
    "selection": "held-out",
    "precision": "bfloat16",
    "channels_last": True,
    "train_on": "all",
    "decayed": "weights",
    "warmup_steps": 3,
    "clip_norm": 1e-3,
    "label_smoothing": 0.1,
}
"""For each field of a recipe a value that is not its default."""


NEEDS = {
    "momentum": {"optimiser": "sgd"},
    "decayed": {"weight_decay": 0.1},
    "clip_norm": {"optimiser": "sgd"},  # Adam takes no notice of a gradient's scale
    "label_smoothing": {"loss": "cross-entropy"},
    "decay": {"schedule": "exponential", "decay_steps": 2},
    "decay_steps": {"schedule": "exponential", "decay": 0.5},
    "milestones": {"schedule": "milestones", "decay": 0.1},
    "selection": {"optimiser": "sgd", "learning_rate": 3.0, "epochs": 4},  # accuracy goes up and down
}
"""What else must be set so that a field can have an effect."""


class TestRecipe:
    @pytest.mark.parametrize("key", [field.name for field in fields(Recipe)])
    def test_every_field_changes_the_result(self, data, key):
        assert key in OTHER_VALUES, f"give the recipe's field {key} a value in OTHER_VALUES"
        base = replace(SHORT, **NEEDS.get(key, {}))
        assert OTHER_VALUES[key] != getattr(base, key)
        one, other = (
            trained(data, recipe, network=with_decoder() if key == "reconstruction" else network_of())[0]
            for recipe in (base, replace(base, **{key: OTHER_VALUES[key]}))
        )
        if key == "channels_last":  # the same numbers, laid out otherwise
            assert one.primary.convolution.weight.stride() != other.primary.convolution.weight.stride()
        else:
            assert not same_weights(one, other)

    def test_reconstruction_needs_a_decoder(self, data):
        with pytest.raises(UserError, match="needs a model with a decoder"):
            trained(data, replace(SHORT, reconstruction=0.1))

    def test_all_images_are_trained_on_and_none_is_held_out(self, data):
        everything = replace(data, train=data.train.joined(data.held_out))
        one, epochs = trained(data, replace(SHORT, train_on="all"))
        other, _ = trained(everything, SHORT)
        assert same_weights(one, other)
        assert not any(epoch.has_held_out for epoch in epochs)

    def test_new_images_for_every_epoch_leave_nothing_to_join(self, data):
        with pytest.raises(UserError, match="fixed training images"):
            trained(replace(data, compose=lambda _: data.train), replace(SHORT, train_on="all"))

    def test_selection_keeps_the_best_epoch_and_the_earlier_of_equals(self, data):
        recipe = replace(SHORT, **NEEDS["selection"])
        network, epochs = trained(data, replace(recipe, selection="held-out"))
        best = max(epoch.held_out_accuracy for epoch in epochs)
        first_best = next(epoch.epoch for epoch in epochs if epoch.held_out_accuracy == best)
        assert first_best < recipe.epochs
        assert evaluate(network, data.held_out, recipe, CPU).accuracy == best
        snapshots = {}
        again = network_of()
        fit(again, data, recipe, seed=0, device=CPU, on_progress=_remember(again, snapshots, recipe.epochs))
        weights = snapshots[first_best]
        assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())

    def test_learning_rates_are_those_of_the_schedule(self, data):
        _, epochs = trained(data, replace(SHORT, schedule="milestones", decay=0.1, milestones=(1, 2)))
        assert [epoch.learning_rate for epoch in epochs] == pytest.approx([1e-3, 1e-4, 1e-5])


def _remember(network, snapshots, epochs):
    """Copies the weights after each epoch's last step; progress is reported after the update."""

    def on_progress(share):
        epoch = share * epochs
        if epoch == pytest.approx(round(epoch)):
            snapshots[round(epoch)] = {name: value.clone() for name, value in network.state_dict().items()}

    return on_progress
