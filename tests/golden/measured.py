"""Golden numbers of protocols on tiny networks with fixed weights, and of attacks."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from routebench.attacks import FROM_DECISIONS, WITH_GRADIENTS, Ball, Plan, attack_loss, shortest, under_attack
from routebench.data import Dataset, Images, load
from routebench.data.dataset import fingerprint
from routebench.protocols import linear_probe
from routebench.protocols.attacking.corrupting import calibration_error
from routebench.protocols.attacking.settings import ATTACKS, Settings
from routebench.protocols.base import Fit, FitRequest
from routebench.protocols.robustness import Robustness
from routebench.registry import datasets, protocols
from routebench.training import fit
from tests.golden.book import GoldenCase, GoldenPart, file_of
from tests.golden.networks import CPU, QUICK, fixed_network
from tests.golden.pictures import small_generators

SIDE = 14
CNN = (("model", "cnn-small"),)
TIMES = ("s", "ms", "bytes", "flop/s", "bytes/s", "yardsticks")
COUNTED = ("second", "_runs", "largest_batch", "probe_steps")
"""Units, and words in names, of metrics that are measured with a clock or of memory, and so have no golden number."""


@cache
def digits(classes: int = 10, per_class: int = 6, side: int = SIDE) -> Dataset:
    """A few digits of half size, of which test digits have conditions."""
    whole = load("mnist5k")

    def few(images: Images, number: int) -> Images:
        places = torch.cat([(images.labels == label).nonzero()[:number, 0] for label in range(classes)])
        pixels = images.pixels[places]
        return Images(pixels if side == 28 else functional.avg_pool2d(pixels.float(), 2).to(torch.uint8),
                      images.labels[places])  # fmt: skip

    parts = few(whole.train, per_class), few(whole.held_out, 2), few(whole.test, 4)
    number = torch.arange(len(parts[2]))
    conditions = {"azimuth": 20 * (number % 5), "elevation": 30 + 5 * (number % 3), "familiar": number % 5 < 2}
    return Dataset("golden", whole.classes[:classes], *parts, fingerprint(*parts), "mnist5k", conditions=conditions)


def overlaid() -> Dataset:
    """The same with two labels each."""
    base = digits(10, 6, 28)

    def two(images: Images) -> Images:
        other = images.at((torch.arange(len(images)) * 7 + 3) % len(images))
        shown = functional.one_hot(images.labels, 10) + functional.one_hot(other.labels, 10)
        return Images(torch.maximum(images.pixels, other.pixels), shown.bool())

    parts = two(base.train), two(base.held_out), two(base.test)
    return replace(base, train=parts[0], held_out=parts[1], test=parts[2], conditions={})


class GoldenContext:
    """Lends networks that are trained for a few steps from weights that are the same everywhere."""

    device = CPU

    def fit(self, request: FitRequest) -> Fit:
        data, shown = load(request.data), {} if request.iterations is None else {"iterations": request.iterations}
        network = fixed_network(
            request.model, data.train.shape, len(data.classes), request.method,
            {**request.method_params, **shown} if request.method else None, **request.model_params,
        )  # fmt: skip
        kept: list[Mapping[str, Tensor]] = []
        epochs = fit(
            network, data.for_training(), request.recipe, seed=request.seed, device=CPU,
            after_epoch=lambda _, weights: kept.append({key: value.clone() for key, value in weights.items()}),
        )  # fmt: skip
        tested = tuple(50.0 + number for number in range(len(epochs))) if request.tested else ()
        return Fit(network.eval(), epochs, 1.0, lambda epoch: kept[epoch - 1], tested)

    def progress(self, share: float) -> None:
        assert 0 <= share <= 1


PROBED = {"angles": [0, 90], "fixed_angles": [45], "train_angles": [90], "affine": True}
OWN = {"method": None, "iterations": None, "loss": "own"}
PROTOCOLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "accuracy": ({}, {"test_iterations": [1, 3], "best_on_test": True}),
    "cost": ({}, {"batches": [2], "backends": ["reference"], "children": [64], "tokens": [5], "parents": [3],
                  "seconds": 1e-3}),
    "equivariance": ({}, {"turns": [90], "shifts": [2], "scales": [1.2]}),
    "generation": ({"model": "vae", **OWN}, {
        "angles": [180], "images": 4, "probe_images": 20, "steps": 3, "learning_rate": 0.05, "optimiser": "adam",
        "samples": 2}),
    "linear-probe": ({}, PROBED),
    "objects": ({"model": "slot-autoencoder", "method": "inverted-attention", "data": "take:300:composed-shapes",
                 "loss": "own"}, {"objects": [2], "scenes": 4}),
    "overlap": ({"data": "golden-two"}, {"threshold": 0.3}),
    "parts": ({"model": "part-capsules-true", "method": "em", "data": "take:300:constellations"},
              {"objects": [1, 3], "clutter": [0, 2], "scenes": 6, "follow": 3}),
    "predictive-coding": ({"method": "none", "iterations": None},
                          {"targets": ["label"], "free": ["children"], "l1": 0.2, "l2": 0.3, "steps": 4,
                           "step_size": 0.05}),
    "robustness": ({"model": "cnn-small", "method": None, "iterations": None, "loss": "cross-entropy",
                    "data": "golden", "rate": 0.4}, {
        "images": 20, "eps": [0.05, 0.15], "main_eps": 0.05, "steps": 3, "restarts": 2, "apgd_steps": 3,
        "further_starts": 2, "square_queries": 10, "attacks": ["noise", "fgsm", "pgd", "apgd-t", "square"],
        "losses": ["training", "difference"], "targeted": ["fgsm"], "targets": 2, "transfer_from": "cnn-small",
        "minimal_images": 2, "minimal_steps": 3, "queries": 20, "l2_eps": [1.0], "transfer_rate": 0.002,
        "corruptions": ["contrast"], "severities": [1], "corrupted_images": 20}),
    "sparsity": ({}, {"follow": 4, "images": 16}),
    "tuning": ({}, {"study": 1, "trial": 2}),
    "viewpoint": ({}, {}),
}  # fmt: skip
"""What each protocol is measured with: what its cell has beside the usual, and its options."""


def measured(name: str, options: Mapping[str, Any]) -> list[Tensor]:
    """All metrics but times by name, and all arrays."""
    known = {"model": "capsnet-small", "method": "dynamic", "iterations": 2, "data": "golden28", "loss": "margin",
             **PROTOCOLS[name][0]}  # fmt: skip
    rate = known.pop("rate", 1e-4 if known["loss"] == "own" else QUICK.learning_rate)
    recipe = replace(QUICK, epochs=2, batch_size=20, loss=known.pop("loss"), learning_rate=rate)
    request = FitRequest(recipe=recipe, seed=0, **known)
    with ExitStack() as stack:
        of_data = {"golden": digits, "golden28": partial(digits, 10, 6, 28), "golden-two": overlaid}
        stack.enter_context(small_generators())
        stack.enter_context(patch.dict(datasets.entries, of_data))
        stack.enter_context(patch.object(linear_probe, "affine_data", lambda name: "golden28"))
        found = protocols[name]().measure(request, options, GoldenContext())
    values: dict[str, list[float]] = {}
    for one in found.metrics:
        if one.unit not in TIMES and not any(word in one.metric for word in COUNTED):
            values.setdefault(f"{one.metric} {one.split}", []).append(float(one.value))
    arrays = [value for _, value in sorted(found.arrays.items())]
    return [*(torch.tensor(value, dtype=torch.float64) for _, value in sorted(values.items())), *arrays]


def calibrated() -> list[Tensor]:
    """The calibration error of answers of every confidence."""
    random = np.random.RandomState(9)
    confidence, right = (torch.from_numpy(random.random_sample(200)) for _ in range(2))
    return [torch.tensor([calibration_error(confidence, right < confidence**2)])]


def protocol_parts() -> Iterator[GoldenPart]:
    for name, protocol in ((name, protocols[name]) for name in PROTOCOLS):
        known, options = PROTOCOLS[name]
        method, loss = known.get("method", "dynamic"), known.get("loss", "margin")
        uses = (("model", known.get("model", "capsnet-small")), ("loss", loss), ("optimiser", "sgd"))
        uses += (("method", method),) if method else ()
        uses += tuple(("attack", one) for one in options.get("attacks", ()))
        uses += tuple(("corruption", one) for one in options.get("corruptions", ()))
        cases = {"all options": GoldenCase(partial(measured, name, options), 1e-3, uses, 3)}
        if name == "robustness":
            cases["calibration"] = GoldenCase(calibrated)
        yield GoldenPart("protocol", name, protocols.version(name), file_of(protocol), {}, cases)


@cache
def attacked_network() -> torch.nn.Module:
    """In double precision, and so good that attacks have something to do."""
    network = fixed_network("cnn-small", (1, SIDE, SIDE), 3, None)
    fit(network, digits(3, 30).for_training(), replace(QUICK, epochs=6, batch_size=15), seed=0, device=CPU)
    return network.eval()


def attacked(name: str) -> list[Tensor]:
    """What an attack leaves of a few digits, and how far it got."""
    test = digits(3, 30).test
    with under_attack(attacked_network(), CPU) as victim:
        if name in (*WITH_GRADIENTS, *FROM_DECISIONS):
            found = shortest(victim, name, test.pixels, test.labels, steps=4, queries=30, seed=0)
            return [found.images.double() - test.pixels, found.distances, torch.tensor([found.queries])]
        losses = {one: attack_loss(one, "margin") for one in Settings().losses}
        plan = Plan(steps=4, restarts=2, losses=losses, seed=0, apgd_steps=20, further_starts=3, queries=20, classes=3)
        balls = [Ball(victim, test.pixels, test.labels, eps) for eps in (0.1, 0.3)]
        for ball in balls:
            ball.run(name, plan)
        return [one for ball in balls for one in (ball.images.double() - test.pixels, *ball.reached.values())]


def attack_parts() -> Iterator[GoldenPart]:
    for name in ATTACKS:
        version = Robustness.part_versions["attack"].get(name, 1)
        cases = {"defaults": GoldenCase(partial(attacked, name), 3e-3, CNN, 3)}
        yield GoldenPart("attack", name, version, file_of(Robustness), {}, cases)
