"""Golden numbers of routing methods: outputs and gradients on fixed votes."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from routebench.arguments import legal_values
from routebench.capsules import Windows
from routebench.kernels import using
from routebench.registry import routing
from routebench.routing import hyperparameters_of, make
from tests.golden.book import SINGLE, GoldenCase, GoldenPart, file_of, others
from tests.golden.networks import fixed_network, told_label, trained
from tests.references.problem import Problem, gradients
from tests.references.transcription import SHIPPED, Transcription

BASE = "capsnet-small"
DEEP = "capsnet-small-intermediate"
PROBLEMS = ("dense", "grid")
STEADY = {"slot-attention": {"start": "zeros"}, "mesh": {"start": "zeros", "steps": 0}}
"""Settings without random numbers, which are others in single precision, and without steps that magnify rounding."""


def problem(which: str) -> Problem:
    """Poses, activations and weights that are the same everywhere; `faint` ones are so small that floors matter."""
    random = np.random.RandomState(1)
    windows = Windows(4, 5, 3, 1, 2) if which == "grid" else None
    children, seen = (40, 18) if windows else (7, 7)
    faint = 1e-9 if which == "faint" else 1.0
    drawn = (faint**0.5 * random.standard_normal((2, children, 4)), faint * random.random_sample((2, children)))
    weight = 0.7 * random.standard_normal((seen, 3, 4, 4))
    return Problem(*map(torch.from_numpy, (*drawn, weight)), windows)


def settle(module: nn.Module) -> nn.Module:
    """Gives every parameter a value that is the same everywhere, near where it starts."""
    random = np.random.RandomState(2)
    with torch.no_grad():
        for value in module.parameters():
            start = round(float(value.double().mean()), 1)
            value.copy_(start + 0.3 * torch.from_numpy(random.standard_normal(value.shape)))
    return module


def routed(
    name: str, params: dict[str, Any], which: str, back_end: str = "reference", train: bool = True
) -> list[Tensor]:
    """Outputs, and gradients with respect to poses, activations, transformations and what is learned."""
    torch.manual_seed(0)
    given = problem(which)
    method = settle(make(name, given.sizes, **params)).double().train(train)
    method.progress = 0.5
    if back_end != "reference":
        method.float()
        given = Problem(*(leaf.detach().float() for leaf in given.leaves()), given.windows)
    torch.manual_seed(1)
    with using(back_end):
        found = method(*given.given_to(method))
        outputs = [one for one in (found.poses, found.activations, found.logits) if one is not None]
        leaves = [*given.leaves(), *method.parameters()]
        return [*outputs, *gradients([one.double() for one in outputs], leaves)]


def start(name: str) -> list[Tensor]:
    """What is learned and held before training."""
    torch.manual_seed(0)
    return list(make(name, problem("grid").sizes).state_dict().values())


def scheduled(name: str, schedule: str) -> list[Tensor]:
    """Scores of a network of two layers, and its gradients."""
    params = {"iterations": 4, "schedule": schedule}
    network = fixed_network(DEEP, (1, 14, 14), 3, name, params, middle=4)
    with using("reference"):
        images = torch.from_numpy(np.random.RandomState(0).random_sample((2, 1, 14, 14)))
        scores = network.forward(images).scores  # without the hook that makes them single
        return [scores, *gradients([scores], list(network.parameters()))]


def settings(name: str) -> list[dict[str, Any]]:
    """Every other value of each hyperparameter, and whatever is compared with the transcription of the paper."""
    cls, defaults = routing[name], hyperparameters_of(name)
    legal = legal_values(cls.__init__)
    found = [{"iterations": number} for number in (1, 2, 3)] if "iterations" in defaults else []
    found += [{key: value} for key in defaults if key not in ("iterations", "schedule")
              for value in others(legal[key], defaults[key])]  # fmt: skip
    known = Transcription(name)
    found += [given for given in [*known.options, *known.departures] if given not in found]
    return [given for given in found if given != {"iterations": defaults.get("iterations")}]


def method_parts() -> Iterator[GoldenPart]:
    for name in SHIPPED:
        cases = {"start": GoldenCase(partial(start, name), SINGLE)}
        for which in PROBLEMS:
            cases |= {
                told_label(params, which): GoldenCase(partial(routed, name, params, which))
                for params in [{}, *settings(name)]
            }
        cases["faint"] = GoldenCase(partial(routed, name, {}, "faint"))
        cases["evaluated, grid"] = GoldenCase(partial(routed, name, {}, "grid", train=False))
        defaults = hyperparameters_of(name)
        if "schedule" in defaults:
            legal = legal_values(routing[name].__init__)["schedule"]
            cases |= {
                told_label({"schedule": one}): GoldenCase(partial(scheduled, name, one), 1e-7, (("model", DEEP),), 2)
                for one in legal.choices
            }
        cases["trained"] = GoldenCase(
            partial(trained, BASE, method=name), 1e-4, (("model", BASE), ("optimiser", "sgd")), 2
        )
        yield GoldenPart("method", name, routing.version(name), file_of(routing[name]), defaults, cases)
