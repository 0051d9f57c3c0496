"""Schedules of the learning rate, which recipes name. `register` is the decorator of the registry.

A function gives the learning rate of a step from the recipe and the moment in training. What it takes after a `*` are
its hyperparameters:

>>> from routebench import schedules
>>> @schedules.register("polynomial")  # doctest: +SKIP
... def polynomial(recipe, moment, *, power: float = 0.9):
...     return recipe.learning_rate * (1 - moment.progress) ** power
"""

import math
from collections.abc import Callable

from routebench.recipe import Moment, Recipe
from routebench.registry import schedules as registry

register = registry.register
Schedule = Callable[..., float]


def uses(*settings: str) -> Callable[[Schedule], Schedule]:
    """A decorator that says which of the recipe's settings a schedule reads besides `learning_rate`."""

    def told(schedule: Schedule) -> Schedule:
        schedule.uses = settings  # type: ignore[attr-defined]
        return schedule

    return told


@register("constant")
def constant(recipe: Recipe, _: Moment) -> float:
    """The recipe's learning rate."""
    return recipe.learning_rate


@register("cosine")
def cosine(recipe: Recipe, moment: Moment) -> float:
    """Half a cosine, from the recipe's learning rate down to zero at the end of the training run.

    Source: Loshchilov and Hutter, ICLR 2017, equation 5, without restarts.

    Args:
        recipe: with `learning_rate`.
        moment: with `progress`.
    """
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * moment.progress))


@register("exponential")
@uses("decay", "decay_steps")
def exponential(recipe: Recipe, moment: Moment) -> float:
    """The recipe's learning rate times `decay` for every `decay_steps` steps, continuously.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, whose code has 0.96 every 2,000 steps.

    Args:
        recipe: with `learning_rate`, `decay` and `decay_steps`.
        moment: with `step`.
    """
    return float(recipe.learning_rate * recipe.decay ** (moment.step / recipe.decay_steps))


@register("milestones")
@uses("decay", "milestones")
def milestones(recipe: Recipe, moment: Moment) -> float:
    """The recipe's learning rate times `decay` at each of `milestones`, in epochs.

    Source: Tsai et al., ICLR 2020: 0.1 at 150 and 250 of 350 epochs.

    Args:
        recipe: with `learning_rate`, `decay` and `milestones`.
        moment: with `epoch`.
    """
    passed = sum(moment.epoch >= milestone for milestone in recipe.milestones)
    return float(recipe.learning_rate * recipe.decay**passed)
