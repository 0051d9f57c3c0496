"""Recipes of the papers by name. A suite's `[training]` table takes one as `recipe = "NAME"`; its other keys win."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from routebench.errors import unknown

NAME = "recipe"
"""The key of a training table that names one."""


@dataclass(frozen=True)
class NamedRecipe:
    """How a paper trains.

    Args:
        source: who trains so, and what the settings are for.
        settings: of a `routebench.recipe.Recipe`; what is not here is left to its default, and so not known.
    """

    source: str
    settings: Mapping[str, Any]


def settings_of(name: str) -> Mapping[str, Any]:
    """The settings of a named recipe.

    Raises:
        UserError: there is none of that name.
    """
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name].settings


def merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """One table from several: the settings of the recipe that is named last, under all that the tables write out.

    A later table's key replaces an earlier one's. A key that is written out, in whichever table, replaces that of a
    recipe: a preset's `epochs = 1` holds for a method with `recipe = "tsai"`, whose 350 epochs it shortens.

    Raises:
        UserError: a recipe has no such name.
    """
    written: dict[str, Any] = {}
    for table in tables:
        written |= table
    name = written.pop(NAME, None)
    return written if name is None else {**settings_of(name), **written}


def _recipe(source: str, *bases: Mapping[str, Any], **settings: Any) -> NamedRecipe:
    return NamedRecipe(source, MappingProxyType({key: base[key] for base in bases for key in base} | settings))


_THREE_STEPS: Mapping[str, Any] = {
    "epochs": 350,
    "batch_size": 128,
    "schedule": "milestones",
    "milestones": (150, 250),
    "decay": 0.1,
}
_CIFAR: Mapping[str, Any] = {**_THREE_STEPS, "augmentation": "pad-crop-flip"}
_SGD: Mapping[str, Any] = {"optimiser": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
_SABOUR: Mapping[str, Any] = {
    "batch_size": 128,
    "optimiser": "adam",
    "learning_rate": 1e-3,
    "schedule": "exponential",
    "decay": 0.96,
    "decay_steps": 2000,
    "loss": "margin",
    "reconstruction": 0.0005,
    "augmentation": "shift2",
}
_HINTON: Mapping[str, Any] = {
    "batch_size": 64,
    "optimiser": "adam",
    "schedule": "exponential",
    "decay": 0.96,
    "decay_steps": 20_000,
}

RECIPES: Mapping[str, NamedRecipe] = {
    "sabour": _recipe(
        "Sabour, Frosst and Hinton, NeurIPS 2017: CapsNet with a decoder on MNIST; they do not say how long", _SABOUR
    ),
    "kiefer": _recipe(
        "Kiefer et al., Capsule networks as generative models: 13 epochs of the recipe of Sabour et al.",
        _SABOUR,
        epochs=13,
    ),
    "hinton-em": _recipe(
        "Hinton, Sabour and Frosst, ICLR 2018: EM routing, with rates that they gave in the reviews, as two public "
        "codes have them; they do not say how long",
        _HINTON,
        learning_rate=3e-3,
        weight_decay=2e-7,
        loss="spread",
    ),
    "hinton-em-smallnorb": _recipe(
        "`hinton-em` with the random windows, brightness and contrast of the authors' code for smallNORB",
        _HINTON,
        learning_rate=3e-3,
        weight_decay=2e-7,
        loss="spread",
        augmentation="smallnorb-jitter",
    ),
    "hinton-em-code": _recipe(
        "the defaults of the code of Hinton, Sabour and Frosst: another rate, a margin that grows with the step, and a "
        "decay of 2e-7 of weights, not of biases and betas; here times five: their loss is the mean over five classes, "
        "and ours the sum",
        _HINTON,
        learning_rate=1e-2,
        weight_decay=1e-6,
        decayed="weights",
        loss="spread-sigmoid",
        augmentation="smallnorb-jitter",
    ),
    "smallnorb-cnn": _recipe(
        "the CNN of Hinton, Sabour and Frosst for smallNORB, which they tuned and do not describe. Tuned here, in "
        "`smallnorb-cnn` on held-out toys of `rendered-shapes-small-azimuth`, 6 epochs: 16 points of a Sobol sequence, "
        "learning rate 3e-4 to 3e-2 and weight decay 1e-7 to 1e-2 by their logarithms, dropout 0 to 0.8; the best two "
        "by the mean of three epochs, and `hinton-em`, again with three new seeds: the best (93.4 %, before 92.1 and "
        "89.8), rounded, with dropout 0.5",
        _HINTON,
        learning_rate=1.1e-3,
        weight_decay=7e-6,
        loss="cross-entropy",
        augmentation="smallnorb-jitter",
    ),
    "scae": _recipe(
        "the script for MNIST of Kosiorek et al., Stacked capsule autoencoders, NeurIPS 2019: 300,000 steps, which are "
        "640 epochs of 60,000 images; it pads these to 40 x 40 and shifts them at random, which is left to the data",
        batch_size=128,
        epochs=640,
        optimiser="rmsprop",
        learning_rate=3e-5,
        momentum=0.9,
        loss="own",
    ),
    "tsai": _recipe(
        "Tsai et al., ICLR 2020: their method, CNN and ResNet-18 on CIFAR; momentum and weight decay from their code",
        _CIFAR,
        _SGD,
        loss="cross-entropy",
    ),
    "tsai-dynamic": _recipe(
        "Tsai et al., ICLR 2020: dynamic routing on CIFAR, with the loss of their table 1",
        _CIFAR,
        optimiser="adam",
        learning_rate=1e-3,
        loss="margin",
    ),
    "tsai-em": _recipe(
        "Tsai et al., ICLR 2020: EM routing on CIFAR, with the loss of their table 1",
        _CIFAR,
        optimiser="adam",
        learning_rate=1e-2,
        loss="spread",
    ),
    "tsai-multimnist": _recipe(
        "Tsai et al., ICLR 2020, appendix B.2: all networks on DiverseMultiMNIST; an epoch is 60,000 new images",
        _THREE_STEPS,
        _SGD,
        loss="binary-cross-entropy",
    ),
}
"""Named recipes. `python -m routebench list recipes` shows them."""
