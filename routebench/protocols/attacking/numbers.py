"""Metrics of a finished assault: accuracies by attack, distances, and attacks set against each other."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from routebench.attacks import (
    ADAPTIVE,
    BEST,
    FROM_DECISIONS,
    GRADIENT,
    ITERATIVE,
    NO_LOSS,
    SCORES,
    WITH_GRADIENTS,
    Ball,
)
from routebench.masking import CHECKS, suspicions
from routebench.protocols.attacking.assault import AROUND, LONGER, TRANSFER, Assault
from routebench.protocols.base import Metric

WORST = "worst"
BLACK = ("noise", TRANSFER)
STRENGTH = ("pgd", "momentum", "bim", "fgsm")
"""The strongest first."""


def numbers(assault: Assault) -> list[Metric]:
    """Every metric of an assault that has been run."""
    checks = {**assault.checks, **_between_attacks(assault), **_held_to_account(assault), **_between_distances(assault)}
    return [*assault.found, *_accuracies(assault), *_distances(assault), *_verdict(checks)]


def _accuracies(assault: Assault) -> Iterator[Metric]:
    """Accuracies by attack, loss and eps; `best` takes for each image the loss worst for it, `worst` all attacks.

    What was run on survivors only has no accuracy of its own, only what it took from those before it. An attack that
    failed has none at that eps, and from there on the worst case is not known.
    """
    yield Metric.of("clean_accuracy", "test", assault.share(torch.ones(len(assault.own))))
    yield Metric.of("attacked_images", "test", len(assault.right))
    yield Metric.of("main_eps", "", assault.settings.main_eps)
    for ball in assault.balls:
        for attack in dict.fromkeys(name for name, _ in ball.broken if name in (*GRADIENT, *BLACK)):
            if (attack, ball.eps) in assault.failed:
                continue
            if attack in GRADIENT:
                for loss in assault.settings.losses:
                    yield from _within(assault, ball, ball.broken_by([attack], assault.same[loss]), attack, loss)
            loss = BEST if attack in GRADIENT else NO_LOSS
            yield from _within(assault, ball, ball.broken_by([attack]), attack, loss)
        yield from _taken(assault, ball)
        if assault.is_worst_known(ball):
            yield from _within(assault, ball, ball.broken_by(), WORST, BEST)


def _taken(assault: Assault, ball: Ball) -> Iterator[Metric]:
    """The accuracy that each attack run on survivors takes from what white-box attacks before it left."""
    for attack in assault.settings.attacks:
        if attack in (*ADAPTIVE, SCORES) and (attack, ball.eps) not in assault.failed:
            where: dict[str, int | str] = {"attack": attack, "norm": "linf", "eps": f"{ball.eps:g}"}
            taken = assault.share(ball.broken_by([attack]))
            yield Metric.of("accuracy_taken", "test", taken, where=where)


def _within(assault: Assault, ball: Ball, broken: Tensor, attack: str, loss: str) -> Iterator[Metric]:
    where: dict[str, int | str] = {"attack": attack, "loss": loss, "norm": "linf", "eps": f"{ball.eps:g}"}
    yield Metric.of("attacked_accuracy", "test", assault.share(~broken), where=where)
    yield Metric.of("attack_success", "test", 100 * float(broken.double().mean()), where=where)


def _distances(assault: Assault) -> Iterator[Metric]:
    """Metrics of attacks that look for the smallest change, over the images that were right and attacked."""
    found = {name: one.distances for name, one in assault.shortest.items()}
    if found and not assault.lost_shortest:
        found[WORST] = torch.stack(list(found.values())).amin(dim=0)
    for attack, distances in found.items():
        where: dict[str, int | str] = {"attack": attack, "norm": "l2"}
        reached = 100 * float(distances.isfinite().double().mean())
        yield Metric.of("attack_success", "test", reached, where=where)
        if math.isfinite(_median(distances)):
            yield Metric.of("median_distance", "test", _median(distances), where=where)
        if attack in assault.shortest:
            yield Metric.of("queries", "test", assault.shortest[attack].queries, where=where)
        for eps in assault.settings.l2_eps:
            share = float((distances > eps).double().mean()) * assault.share(torch.ones(len(assault.own)))
            yield Metric.of("attacked_accuracy", "test", share, where={**where, "eps": f"{eps:g}"})


def _verdict(checks: Mapping[str, float]) -> Iterator[Metric]:
    fired = [name for name, value in checks.items() if CHECKS[name].fires(value)]
    for name, value in checks.items():
        where: dict[str, int | str] = {"check": name}
        yield replace(Metric.of("check", "test", value, where=where), unit=CHECKS[name].unit)
        yield Metric.of("check_fired", "test", float(name in fired), where=where)
    yield Metric.of("suspicions", "test", len(suspicions(fired)))


def _between_attacks(assault: Assault) -> dict[str, float]:
    """Checks that set attacks within a ball against each other."""
    checks, done = {}, assault.done
    several = [name for name in ITERATIVE if name in done]
    if assault.white():
        checks["black-box"] = max(_black_alone(assault))
    if "fgsm" in done and several:
        alone = [ball.broken_by(["fgsm"]) & ~ball.broken_by(several) for ball in assault.balls]
        checks["one-step"] = max(map(assault.share, alone))
    if several and len(assault.balls) > 1:
        pairs = list(zip(assault.balls, assault.balls[1:], strict=False))
        rises = [
            _left(assault, large, name) - _left(assault, small, name) for name in several for small, large in pairs
        ]
        checks["rises"] = max(0.0, *rises)
    strongest = next((name for name in STRENGTH if name in done), None)
    if strongest and "training" in assault.same:
        training = assault.same["training"]
        gaps = [_left(assault, ball, strongest, training) - _left(assault, ball, strongest) for ball in assault.balls]
        checks["training-loss"] = max(gaps)
    return checks


def _black_alone(assault: Assault) -> Iterator[float]:
    """Accuracy that black boxes take, by eps, from images which no white-box attack of that eps or less breaks."""
    for ball in assault.balls:
        white = ball.broken_within([*assault.white(), LONGER, AROUND])
        yield assault.share(ball.broken_by([*BLACK, SCORES]) & ~white)


def _held_to_account(assault: Assault) -> dict[str, float]:
    """Checks of what attacks returned and claimed."""
    claims = [claim for ball in assault.balls for claim in ball.overstated if len(claim)]
    checks = {}
    if claims:
        checks["left-ball"] = max(assault.share(ball.outside) for ball in assault.balls)
        checks["own-word"] = max(100 * int(claim.sum()) / len(assault.own) for claim in claims)
    if assault.shortest:
        checks["failed-attacks"] = float(sum(found.failed for found in assault.shortest.values()))
    return checks


def _between_distances(assault: Assault) -> dict[str, float]:
    """The check that sets decisions against gradients, on the same images; none where neither reaches half of them."""
    best = []
    for kind in (FROM_DECISIONS, WITH_GRADIENTS):
        found = [one.distances for name, one in assault.shortest.items() if name in kind]
        if not found or assault.lost_shortest & {*kind}:
            return {}
        best.append(_median(torch.stack(found).amin(dim=0)))
    return {} if all(map(math.isinf, best)) else {"decision-based": best[0] / best[1]}


def _median(distances: Tensor) -> float:
    return float(distances.quantile(0.5, interpolation="lower"))


def _left(assault: Assault, ball: Ball, attack: str, loss: str | None = None) -> float:
    """Accuracy under one attack, in %."""
    return assault.share(~ball.broken_by([attack], loss))
