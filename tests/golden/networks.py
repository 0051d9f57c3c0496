"""Golden numbers of networks, and of the recipe that they are trained with."""

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from routebench.arguments import Legal
from routebench.capsules.coordinates import COORDINATES, Field, coordinates
from routebench.data import Images, Tokens, TrainingData
from routebench.kernels import using
from routebench.models import build, options_of
from routebench.models.network import Output
from routebench.papers.hinton.models.window import authors_offsets
from routebench.recipe import Recipe
from routebench.registry import models
from routebench.training import fit
from tests.golden.book import SINGLE, TRAINED, GoldenCase, GoldenPart, file_of, others

CPU = torch.device("cpu")
SMALLER = 20
"""Pixels of the images that networks for larger ones are trained with here."""


def told_label(params: Mapping[str, Any], *more: str) -> str:
    return ", ".join([*(f"{key}={value!r}" for key, value in params.items()), *more]) or "defaults"


def tiny(shape: tuple[int, ...], classes: int, count: int = 7, *, several: bool = False) -> TrainingData:
    """Random images, or tokens of which some are not there, that are the same everywhere."""
    random = np.random.RandomState(3)

    def images(number: int) -> Images | Tokens:
        values = torch.from_numpy(random.randint(0, 256, (number, *shape)).astype(np.uint8))
        shown = random.random_sample((number, classes)) < 0.5
        labels = torch.from_numpy(shown if several else random.randint(0, classes, number))
        if len(shape) == 3:
            return Images(values, labels)
        return Tokens(values / 64, labels, torch.arange(shape[0]) < torch.arange(number)[:, None] + 2)

    return TrainingData("golden", tuple(map(str, range(classes))), images(count), images(3), "")


def fresh(
    name: str, shape: tuple[int, int, int], classes: int, method: str | None, params: Any, **more: Any
) -> nn.Module:
    """A copy of the network with its initial weights, which take as long as all that is measured of it."""
    asked = (name, shape, classes, method, repr(params), repr(sorted(more.items())))
    if asked not in _BUILT:
        torch.manual_seed(0)
        built = build(name, shape=shape, classes=classes, method=method, method_params=params, **more)
        _BUILT[asked] = built, torch.random.get_rng_state()
        for old in [*_BUILT][:-2]:
            del _BUILT[old]
    built, state = _BUILT[asked]
    torch.random.set_rng_state(state)
    return copy.deepcopy(built)


_BUILT: dict[tuple[Any, ...], tuple[nn.Module, Tensor]] = {}
"""The last two that were built, with the state of torch's random numbers afterwards."""


def in_single(output: Output) -> Output:
    return replace(output, logits=output.logits.float(), scores=output.scores.float())


def in_double(network: nn.Module) -> nn.Module:
    """The network in double precision, for images in single; what it says is in single again, as callers expect."""
    network.double().register_forward_pre_hook(lambda _, given: (given[0].double(), *given[1:]))
    network.register_forward_hook(lambda _, __, found: in_single(found) if isinstance(found, Output) else None)
    if hasattr(network, "objective"):
        objective = network.objective
        network.objective = lambda images, draws=None: objective(images.double(), draws)
    return network


def fixed_network(
    name: str, shape: Any, classes: int, method: str | None, params: Any = None, **more: Any
) -> nn.Module:
    """With weights that are the same everywhere, as large as those that it starts with.

    In double precision, but for one that learns without labels: protocols look into it.
    """
    network = fresh(name, shape, classes, method, params, **more)
    random = np.random.RandomState(4)
    with torch.no_grad():
        for value in network.parameters():
            spread = float(f"{float(value.double().std(correction=0)):.1g}") or 0.1
            middle = round(float(value.double().mean()), 1)
            value.copy_(middle + spread * torch.from_numpy(random.standard_normal(value.shape)))
    return network if hasattr(network, "objective") else in_double(network)


QUICK = Recipe(epochs=1, batch_size=3, optimiser="sgd", learning_rate=0.05, loss="cross-entropy")


def trained(
    name: str,
    recipe: Recipe = QUICK,
    *,
    method: str | None = "uniform",
    shape: tuple[int, int, int] = (1, 14, 14),
    classes: int = 3,
    double: bool = True,
    several: bool = False,
    seed: int = 0,
    **more: Any,
) -> list[Tensor]:
    """Three steps through `fit`: losses, accuracies, rates, and by how much every weight moved."""
    network = fresh(name, shape, classes, method, None, **more)
    network = in_double(network) if double else network
    return moved_by(network, tiny(shape, classes, several=several), recipe, seed)


def moved_by(network: nn.Module, data: TrainingData, recipe: Recipe, seed: int = 0) -> list[Tensor]:
    before = {key: value.clone() for key, value in network.state_dict().items()}
    with using("reference"):
        epochs = fit(network, data, recipe, seed=seed, device=CPU)
    told = [[one.train_loss, one.held_out_loss, one.train_accuracy, one.held_out_accuracy] for one in epochs]
    rates = torch.tensor([one.learning_rate for one in epochs], dtype=torch.float64)
    after = network.state_dict()
    return [torch.tensor(told, dtype=torch.float64), rates, *(after[key] - before[key] for key in before)]


class GoldenModel:
    """One network with its paper's method, on the images that its paper has."""

    def __init__(self, name: str):
        self.name, self.facts = name, models[name].facts
        self.method = self.facts.method if self.facts.routed else None
        self.shape, self.classes = self.facts.shape, self.facts.classes

    @property
    def smaller(self) -> tuple[int, ...]:
        """What it is trained on here; sets of parts, and what learns without labels, have small images anyway."""
        if self.facts.takes == "tokens":
            return 5, SMALLER
        is_large = self.shape[1] > SMALLER and not self.facts.unsupervised
        return (self.shape[0], SMALLER, SMALLER) if is_large else self.shape

    def start(self, **more: Any) -> list[Tensor]:
        return list(fresh(self.name, self.shape, self.classes, self.method, None, **more).state_dict().values())

    def answers(self, **more: Any) -> list[Tensor]:
        """What it says of an image in evaluation; of one that learns without labels, its objective and features.

        With options, the image is a small one where the network takes it.
        """
        shape = self.smaller if more else self.shape
        network = in_double(fresh(self.name, shape, self.classes, self.method, None, **more)).eval()
        data = tiny(shape, self.classes, 1).train
        images = data.inputs(slice(1), CPU)[0] if isinstance(data, Tokens) else data.pixels.double() / 255
        torch.manual_seed(1)
        with using("reference"):
            if not self.facts.unsupervised:
                with torch.no_grad():
                    output = network(images)
                return [output.logits, output.scores]
            objective = network.objective(images, torch.Generator().manual_seed(0))
            of = [value for value in network.parameters() if value.requires_grad]
            found = torch.autograd.grad(objective, of, allow_unused=True, materialize_grads=True)
            return [objective[None], *found, *network.features(images).values()]

    def steps(self) -> list[Tensor]:
        """Three steps, on small images where the network takes them."""
        shape, recipe = self.smaller, replace(QUICK, batch_size=1)
        if self.facts.unsupervised:
            recipe = replace(recipe, loss="own", learning_rate=1e-4)
        network = in_double(fresh(self.name, shape, self.classes, self.method, None))
        size = 2 if any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in network.modules()) else 1
        return moved_by(network, tiny(shape, self.classes, 3 * size), replace(recipe, batch_size=size))

    def options(self) -> Iterator[dict[str, Any]]:
        for key, (legal, default) in model_options(self.name).items():
            tried = WORDS[key] if key in WORDS and not legal.choices else others(legal, default)
            yield from ({key: value} for value in tried if value != default)


WORDS: dict[str, tuple[Any, ...]] = {
    "coordinates": tuple(COORDINATES),
    "crops": (13,),
    "start": ("authors",),
    "weights": ("paper",),
    "inference": ("em", "dynamic"),
}
"""Other values of arguments that are words without a `Literal`."""


@cache
def model_options(name: str) -> dict[str, tuple[Legal, Any]]:
    """Options of a network: legal values and default, None where the signature has none."""
    known = options_of(name).items()
    return {key: (legal, None if default is inspect.Parameter.empty else default) for key, (legal, default) in known}


def model_parts() -> Iterator[GoldenPart]:
    for name in models:
        known = GoldenModel(name)
        uses = () if known.method is None else (("method", known.method),)
        cases = {
            "start": GoldenCase(known.start, SINGLE),
            "answers": GoldenCase(known.answers, SINGLE, uses, 1),
            "trained": GoldenCase(known.steps, TRAINED, (*uses, ("loss", QUICK.loss), ("optimiser", "sgd")), 2),
        }
        for params in known.options():
            cases[told_label(params, "start")] = GoldenCase(partial(known.start, **params), SINGLE)
            of = tuple((key, str(value)) for key, value in params.items() if key in OPTIONS)
            cases[told_label(params, "answers")] = GoldenCase(partial(known.answers, **params), SINGLE, (*uses, *of), 1)
        defaults = {key: default for key, (_, default) in model_options(name).items()}
        yield GoldenPart("model", name, models.version(name), file_of(models[name]), defaults, cases)


def _offset(name: str) -> list[Tensor]:
    place = coordinates(name, Field(3, 32, 6.0, 4.0), Field(4, 28, 2.0, 3.0), 16)
    assert place is not None
    return [place.offset(2, 16)]


OPTIONS: dict[str, dict[str, Any]] = {
    "coordinates": {name: partial(_offset, name) for name in COORDINATES},
    "crops": {"13": lambda: [torch.tensor([*authors_offsets()], dtype=torch.float64)]},
}
"""Options whose values have versions of their own, see `Facts.option_versions`, and what each value is."""


def option_parts() -> Iterator[GoldenPart]:
    for option, values in OPTIONS.items():
        for name, make in values.items():
            having = [one for one in models if option in model_options(one)]
            versions = {models[one].facts.option_versions.get(option, {}).get(name, 1) for one in having}
            assert len(versions) == 1, f"{option}={name}: all of {having} have it, and say versions {versions}"
            yield GoldenPart(
                option, name, max(versions), file_of(models["matrix-capsules"]), {}, {"values": GoldenCase(make)}
            )
