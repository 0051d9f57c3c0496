"""Class capsules after inference by predictive coding in place of routing, beside those of the forward pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from routebench import measures
from routebench.arguments import Count, NonNegative, Positive
from routebench.data import Dataset, Images, load
from routebench.errors import UserError
from routebench.models.network import CapsuleNetwork
from routebench.ops import length
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol, expect_one_label
from routebench.protocols.spared import spared
from routebench.protocols.vote_distances import first_of_classes
from routebench.registry import protocols
from routebench.routing.none import NoRouting

from ..predictive_coding.forward import Forward, forward_pass
from ..predictive_coding.inference import FREE, TARGETS, Rule, Settled, infer, targets_for

FORWARD = "forward"
PENALTIES = ("plain", "l1", "l2")
ACTIVE = 0.1
"""Length above which a class capsule counts as active."""
FORWARD_BATCH, BATCH = 250, 1000
EXAMPLES = 10
"""Classes of which the first test image's class capsules are kept."""


@dataclass(frozen=True)
class Condition:
    """One way to infer class capsules.

    Args:
        penalty: a penalty of `PENALTIES`.
        targets: a name of `routebench.papers.kiefer.predictive_coding.inference.TARGETS`.
        rule: how inference goes; says what is free.
    """

    penalty: str
    targets: str
    rule: Rule

    @property
    def where(self) -> dict[str, int | str]:
        """Its coordinates in the results."""
        return {"inference": self.penalty, "targets": self.targets, "free": self.rule.free}

    @property
    def name(self) -> str:
        """Name of its arrays."""
        return f"{self.penalty}_{self.targets}_{self.rule.free}"


@protocols.register("predictive-coding", version=1)
class PredictiveCoding(Protocol):
    """Measures how sparse class capsules are after the forward pass and, without routing, after inference.

    A network with routing is measured by its forward pass alone. In one that was trained without (method `none`), class
    capsules are inferred with each of three targets (the right label, as in the paper; the network's own answer; none),
    without a penalty and with L1 or L2 on their lengths, class capsules alone being free or the capsules below too.
    The share of images whose right capsule is longest is called `right_longest`, because with the right label clamped
    the answer is given away; without it, it is accuracy.

    Options:
        targets, free: which of those to run; all by default.
        l1, l2: strengths of the penalties; see `routebench.papers.kiefer.predictive_coding.inference.Rule`.
        steps, step_size: number and size of the steps of inference, 500 and 0.01 as in the paper.

    Source: Kiefer et al., "Capsule Networks as Generative Models", section 3.1, figure 1 B to E and appendix C.
    """

    options: ClassVar[dict[str, Any]] = {
        "targets": list[Literal[TARGETS]], "free": list[Literal[FREE]],  # type: ignore[valid-type]  # read, not checked
        "l1": NonNegative, "l2": NonNegative, "steps": Count, "step_size": Positive,
    }  # fmt: skip

    def expect(self, data: Dataset) -> None:
        """Expects images of one class: a target is one class capsule.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: images may show several classes.
        """
        expect_one_label("predictive-coding", data)

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by condition, and the class capsules of some images and the energies by step as arrays."""
        conditions = conditions_of(options)
        data = load(request.data)
        self.expect(data)
        network, test = context.fit(request).network, data.test
        poses, below = _forward(network, test, context)
        chosen = first_of_classes(test, EXAMPLES)
        metrics = list(_sparsity(poses, test.labels, {"inference": FORWARD, "targets": "none", "free": "none"}))
        arrays = {"labels": test.labels[chosen], f"poses_{FORWARD}": poses[chosen].float()}
        for number, condition in enumerate(conditions):
            if below is None:
                break
            with spared(metrics, f"inference, {condition.name}"):
                settled = _inferred(below, test.labels, condition)
                metrics += _sparsity(settled.poses, test.labels, condition.where)
                metrics += _energies(settled, condition)
                arrays[f"poses_{condition.name}"] = settled.poses[chosen].float()
                arrays[f"energies_{condition.name}"] = settled.energies.mean(dim=1)
            context.progress(0.1 + 0.9 * (number + 1) / len(conditions))
        return Measurement(metrics, arrays)


def conditions_of(options: Mapping[str, Any]) -> list[Condition]:
    """Every combination that a suite asks for, but that in which nothing can happen: no target and no penalty.

    Args:
        options: the suite's settings for the protocol.

    Raises:
        UserError: an option has a value that is not allowed.
    """
    found: list[Condition] = []
    for free in options.get("free", list(FREE)):
        for targets in options.get("targets", list(TARGETS)):
            if targets not in TARGETS:
                raise UserError(f"protocol predictive-coding: targets are {', '.join(TARGETS)}, got {targets!r}")
            found += [
                Condition(penalty, targets, _rule(free, penalty, options))
                for penalty in PENALTIES
                if (targets, penalty) != ("none", "plain")
            ]
    return found


def _rule(free: str, penalty: str, options: Mapping[str, Any]) -> Rule:
    strengths = {"l1": float(options.get("l1", 0.1)), "l2": float(options.get("l2", 1.0))}
    given = {penalty: strengths[penalty]} if penalty in strengths else {}
    try:
        return Rule(
            **given, free=free, steps=int(options.get("steps", 500)), step_size=float(options.get("step_size", 0.01))
        )
    except ValueError as error:
        raise UserError(f"protocol predictive-coding: {error}") from error


@torch.no_grad()
def _forward(network: nn.Module, test: Images, context: Context) -> tuple[Tensor, Forward | None]:
    """Class capsules of all test images, and what inference needs of them; None for a network with routing."""
    if not isinstance(network, CapsuleNetwork):
        raise UserError(f"protocol predictive-coding: expected a capsule network, got {type(network).__name__}")
    unrouted = isinstance(network.layers[-1].routing, NoRouting)
    poses, sums, gram = [], [], None
    for start in range(0, len(test), FORWARD_BATCH):
        pixels = test.pixels[start : start + FORWARD_BATCH].to(context.device).to(torch.float32).div(255)
        if unrouted:
            found = forward_pass(network, pixels)
            poses.append(found.poses)
            sums.append(found.sums)
            gram = found.gram
        else:
            poses.append(network(pixels).layers[-1].flat().poses.double())
        context.progress(0.1 * start / len(test))
    return torch.cat(poses).cpu(), None if gram is None else Forward(torch.cat(sums), gram)


def _inferred(below: Forward, labels: Tensor, condition: Condition) -> Settled:
    """All images, some at a time; the answer is on the processor."""
    parts = []
    labels = labels.to(below.sums.device)
    for sums, own in zip(torch.split(below.sums, BATCH), torch.split(labels, BATCH), strict=True):
        forward = Forward(sums, below.gram)
        parts.append(infer(forward, targets_for(condition.targets, forward.poses, own), condition.rule))
    joined = {
        name: torch.cat([getattr(part, name) for part in parts]).cpu() for name in vars(parts[0]) if name != "energies"
    }
    return Settled(**joined, energies=torch.cat([part.energies for part in parts], dim=1).cpu())


def _sparsity(poses: Tensor, labels: Tensor, where: dict[str, int | str]) -> Iterator[Metric]:
    """Sparsity of the lengths of class capsules, means over test images."""
    lengths = length(poses)
    right = torch.nn.functional.one_hot(labels, lengths.shape[1]).bool()
    found = {
        "hoyer": measures.hoyer(lengths),
        "top_share": measures.top_share(lengths),
        "norm_entropy": measures.norm_entropy(lengths),
        f"active_above_{ACTIVE:g}": measures.active(lengths, ACTIVE),
        "silent": (lengths == 0).double().sum(dim=1),
        "right_length": lengths[right],
        "other_length": lengths[~right],
    }
    for name, values in found.items():
        yield Metric.of(name, "test", float(values.mean()), where=where)
    longest = 100 * float((lengths.argmax(dim=1) == labels).double().mean())
    clamped = "inference was given the right label" if where["targets"] == "label" else ""
    yield Metric.of("right_longest", "test", longest, where=where, undirected=clamped)


def _energies(settled: Settled, condition: Condition) -> list[Metric]:
    energies = settled.energies
    found = {
        "energy_before": energies[0].mean(),
        "energy_after": energies[-1].mean(),
        "largest_rise": energies.diff(dim=0).amax().clamp(min=0),
        "residual": settled.residual.mean(),
        "halved_share": (settled.step_size < condition.rule.step_size).double().mean(),
    }
    return [Metric.of(name, "test", float(value), where=condition.where) for name, value in found.items()]
