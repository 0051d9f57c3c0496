"""Golden numbers of what networks are trained with, and of the augmentations and corruptions of images."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from routebench.data import CORRUPTIONS, SEVERITIES, corrupted
from routebench.losses import reconstruction
from routebench.models.network import Output
from routebench.protocols.robustness import Robustness
from routebench.recipe import LEGAL, REGISTRIES, VERSIONS, Moment, Recipe
from routebench.registry import augmentations, losses
from tests.golden.book import TRAINED, GoldenCase, GoldenPart, file_of, others
from tests.golden.networks import QUICK, tiny, told_label, trained

BASE = ("model", "capsnet-small")
USES = (BASE, ("method", "uniform"))
OF_KIND = {
    "optimiser": ("learning_rate", "momentum", "weight_decay", "decayed", "clip_norm"),
    "schedule": ("decay", "decay_steps", "milestones", "warmup_steps"),
    "loss": ("reconstruction", "label_smoothing"),
    "selection": ("epochs",),
    "train_on": ("batch_size",),
    "precision": ("channels_last",),
}
"""The settings of the recipe that belong to its words: their defaults stand in each part of the kind."""
FORCED: dict[str, dict[str, Any]] = {
    "schedule": {"epochs": 3, "decay": 0.5, "decay_steps": 2, "milestones": (1, 2)},
    "selection": {"epochs": 3, "learning_rate": 0.4},
    "optimiser": {"learning_rate": 1e-3},
}
"""What other settings are while one of a kind is tried."""


def answered(name: str, moment: Moment, several: bool) -> list[Tensor]:
    """A loss of fixed answers, and its gradients; of few images, each pair of classes at another distance."""
    random = np.random.RandomState(5)
    logits = torch.from_numpy(2 * random.standard_normal((9, 5))).requires_grad_()
    scores = torch.from_numpy(random.random_sample((9, 5))).requires_grad_()
    labels = torch.from_numpy(random.random_sample((9, 5)) < 0.4 if several else random.randint(0, 5, 9))
    loss = losses[name](Output(logits, scores), labels, moment)
    return [loss[None], *torch.autograd.grad(loss, (logits, scores), materialize_grads=True, allow_unused=True)]


def reconstructed() -> list[Tensor]:
    random = np.random.RandomState(6)
    images, decoded = (torch.from_numpy(random.random_sample((3, 1, 4, 5))).requires_grad_() for _ in range(2))
    loss = reconstruction(images, decoded)
    return [loss[None], *torch.autograd.grad(loss, (images, decoded))]


def augmented(name: str, side: int) -> list[Tensor]:
    images = torch.from_numpy(np.random.RandomState(7).random_sample((6, 2, side, side)))
    return [augmentations[name](images, torch.Generator().manual_seed(8))]


def _corrupted(name: str, severity: int) -> list[Tensor]:
    return [corrupted(tiny((2, 12, 14), 3, 6).train.pixels, name, severity)]


def recipe_parts() -> Iterator[GoldenPart]:
    """Losses, optimizers, schedules, augmentations, and the other words of a recipe."""
    for kind in (*REGISTRIES, *VERSIONS):
        for name in LEGAL[kind].choices:
            recipe = replace(QUICK, **{**FORCED.get(kind, {}), kind: name})
            cases = dict(_cases(kind, name, recipe))
            own = {key: getattr(Recipe(), key) for key in (kind, *OF_KIND.get(kind, ()))}
            version = REGISTRIES[kind].version(name) if kind in REGISTRIES else VERSIONS[kind].get(name, 1)
            yield GoldenPart(kind, name, version, file_of(Recipe), own, cases)


def _cases(kind: str, name: str, recipe: Recipe) -> Iterator[tuple[str, GoldenCase]]:
    if name == "own":
        yield "trained", GoldenCase(partial(trained, "vae", recipe, method=None), TRAINED, (("model", "vae"),), 2)
        return
    if kind == "loss":
        moments = {"start": Moment(0, 0.0), "middle": Moment(150_000, 0.4), "end": Moment()}
        for when, moment in moments.items():
            for several in (False, True):
                label = f"{when}{', several classes' if several else ''}"
                yield label, GoldenCase(partial(answered, name, moment, several))
        yield "reconstruction", GoldenCase(reconstructed)
        decoding = partial(trained, BASE[1], replace(recipe, reconstruction=0.5), decoder=True)
        yield "trained, reconstruction=0.5", GoldenCase(decoding, TRAINED, USES, 2)
    if kind == "augmentation":
        for side in (28, 48):
            yield f"{side} pixels", GoldenCase(partial(augmented, name, side), 1e-6)
    if kind == "precision" and name != "float32":
        yield "trained", GoldenCase(partial(trained, BASE[1], recipe, double=False), 0.05, USES, 2)
        return
    yield "trained", GoldenCase(partial(trained, BASE[1], recipe), TRAINED, USES, 2)
    yield "trained, seed 1", GoldenCase(partial(trained, BASE[1], recipe, seed=1), TRAINED, USES, 2)
    for key in OF_KIND.get(kind, ()):
        for value in others(LEGAL[key], getattr(recipe, key)) if key not in ("reconstruction", "milestones") else ():
            if key == "label_smoothing" and name != "cross-entropy":
                continue
            changed = {key: value, **({"weight_decay": 0.1} if key == "decayed" else {})}
            yield (
                told_label({key: value}),
                GoldenCase(partial(trained, BASE[1], replace(recipe, **changed)), TRAINED, USES, 2),
            )


def corruption_parts() -> Iterator[GoldenPart]:
    for name in CORRUPTIONS:
        cases = {
            f"severity {one}": GoldenCase(partial(_corrupted, name, one), 1e-5) for one in range(1, SEVERITIES + 1)
        }
        version = Robustness.part_versions["corruption"].get(name, 1)
        yield GoldenPart("corruption", name, version, file_of(Robustness), {}, cases)
