"""Recipes refuse what makes no sense, and set learning rates."""

import math
from dataclasses import asdict

import pytest

from routebench.errors import UserError
from routebench.recipe import LATER, LEGAL, REGISTRIES, Moment, Recipe

START = Moment(0, 0.0, 0)
CHOICES = {key: legal.choices for key, legal in LEGAL.items() if legal.choices}


@pytest.mark.parametrize("key", CHOICES)
def test_unknown_choice_is_refused_with_the_known_ones(key):
    expected = f"unknown {REGISTRIES[key].kind} 'qqqqqqqq'" if key in REGISTRIES else f"{key} must be one of "
    with pytest.raises(UserError, match=f"training: {expected}.*{CHOICES[key][0]}"):
        Recipe(**{key: "qqqqqqqq"})


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in CHOICES for value in CHOICES[key]])
def test_every_choice_is_accepted(key, value):
    assert getattr(Recipe(**{key: value}), key) == value


@pytest.mark.parametrize(
    "given",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"decay_steps": 0},
        {"decay": -0.1},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"momentum": -0.1},
        {"momentum": math.nan},
        {"weight_decay": -1e-4},
        {"reconstruction": -1.0},
        {"reconstruction": math.nan},
        {"milestones": (-1,)},
        {"warmup_steps": -1},
        {"clip_norm": -1.0},
        {"clip_norm": math.nan},
        {"label_smoothing": 1.0, "loss": "cross-entropy"},
        {"label_smoothing": -0.1, "loss": "cross-entropy"},
    ],
    ids=str,
)
def test_value_that_makes_no_sense_is_refused(given):
    with pytest.raises(UserError, match=f"training: {next(iter(given))} must"):
        Recipe(**given)


def test_nothing_is_selected_by_images_that_were_trained_on():
    with pytest.raises(UserError, match="selection must be last with train_on = 'all'"):
        Recipe(selection="held-out", train_on="all")


def test_settings_that_came_later_are_named_only_where_they_are_not_as_before():
    assert set(asdict(Recipe())) - set(Recipe().settings) == set(LATER)
    given = {"train_on": "all", "warmup_steps": 3, "clip_norm": 1.0, "loss": "cross-entropy", "label_smoothing": 0.1}
    assert Recipe(**Recipe(**given).settings) == Recipe(**given)
    for name, value in given.items():
        smoothed = {"loss": "cross-entropy"} if name == "label_smoothing" else {}
        assert Recipe(**{name: value, **smoothed}).settings[name] == value


def test_only_a_softmax_has_targets_to_smooth():
    for loss in CHOICES["loss"]:
        if loss != "cross-entropy":
            with pytest.raises(UserError, match=f"label_smoothing is for the loss cross-entropy, got '{loss}'"):
                Recipe(loss=loss, label_smoothing=0.1)


def test_what_is_registered_can_be_chosen():
    for setting, registry in REGISTRIES.items():
        assert [*CHOICES[setting]] == [*registry]
        for name in registry:
            assert getattr(Recipe(**{setting: name}), setting) == name


def test_whole_numbers_will_do_for_rates():
    assert Recipe(learning_rate=1, momentum=0, weight_decay=0).rate_at(START) == 1


class TestLearningRate:
    def test_stays_where_it_is_unless_scheduled(self):
        assert {
            Recipe(learning_rate=0.1).rate_at(Moment(step, 0.0, epoch)) for step in (0, 9999) for epoch in (0, 300)
        } == {0.1}

    def test_half_a_cosine_ends_at_zero(self):
        recipe = Recipe(learning_rate=0.1, schedule="cosine")
        rates = [recipe.rate_at(Moment(9, progress, 3)) for progress in (0, 0.25, 0.5, 1)]
        assert rates == pytest.approx([0.1, 0.05 * (1 + math.sqrt(0.5)), 0.05, 0])

    @pytest.mark.parametrize("schedule", ["constant", "cosine", "exponential"])
    def test_the_rate_warms_up_to_that_of_the_schedule(self, schedule):
        warm, cold = (Recipe(learning_rate=0.1, schedule=schedule, warmup_steps=steps) for steps in (4, 0))
        shares = [
            warm.rate_at(Moment(step, step / 10, 0)) / cold.rate_at(Moment(step, step / 10, 0)) for step in range(6)
        ]
        assert shares == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])

    def test_exponential_decay_is_continuous_in_steps(self):
        recipe = Recipe(learning_rate=0.1, schedule="exponential", decay=0.96, decay_steps=2000)
        assert recipe.rate_at(START) == pytest.approx(0.1)
        assert recipe.rate_at(Moment(2000, 0.0, 0)) == pytest.approx(0.096)
        assert recipe.rate_at(Moment(1000, 0.0, 0)) == pytest.approx(0.1 * math.sqrt(0.96))

    def test_milestones_are_epochs_that_have_passed(self):
        recipe = Recipe(learning_rate=0.1, schedule="milestones", decay=0.1, milestones=(150, 250))
        rates = [recipe.rate_at(Moment(0, 0.0, epoch)) for epoch in (0, 149, 150, 249, 250, 349)]
        assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
