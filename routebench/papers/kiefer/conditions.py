"""The four conditions of Kiefer et al., appendix A: three iterations of routing or none, with a decoder or without."""

from collections.abc import Mapping
from dataclasses import dataclass

from routebench.analysis import Runs, SeedValues
from routebench.analysis.judging import Condition, values_of

ROUTED: Condition = ("dynamic", 3)
UNROUTED: Condition = ("none", None)
"""The two conditions that the paper compares."""
DECODER = "-reconstruction"
NAMES = {True: ROUTED, False: UNROUTED}
"""Label and iterations, by whether it routes."""


@dataclass(frozen=True)
class FourConditions:
    """Conditions of one suite, preset and data set.

    Args:
        plain: the part of the network without decoder.
        decoded: that of the same network with one.
        accuracies: (routed, with decoder) to test accuracy (%) by seed, of the conditions that have a result.
    """

    plain: Runs
    decoded: Runs
    accuracies: Mapping[tuple[bool, bool], SeedValues]

    def runs(self, *, decoder: bool) -> Runs:
        """The part of the network with the decoder, or of that without."""
        return self.decoded if decoder else self.plain

    @property
    def told(self) -> str:
        """Note on where they were measured."""
        plain = self.plain
        return f"{plain.suite}, {plain.preset} preset, {plain.data}: {plain.model} and {self.decoded.model}."


def four_conditions(parts: tuple[Runs, ...]) -> FourConditions | None:
    """Those of a results folder: of the strongest preset, and of equal ones the newest; None without any."""
    every = [found for plain in parts for decoded in parts if (found := _conditions(plain, decoded))]
    return max(every, key=lambda found: found.plain.strength, default=None)


def _conditions(plain: Runs, decoded: Runs) -> FourConditions | None:
    """None unless the two are one suite with a network and the same network with a decoder, and something ran."""
    same = (plain.suite, plain.preset, plain.data) == (decoded.suite, decoded.preset, decoded.data)
    if not same or plain.protocol != "accuracy" or decoded.model != f"{plain.model}{DECODER}":
        return None
    every = {
        (routed, runs is decoded): values_of(runs, condition, "accuracy", split="test", as_trained=True)
        for runs in (plain, decoded)
        for routed, condition in NAMES.items()
    }
    accuracies = {condition: values for condition, values in every.items() if values}
    return FourConditions(plain, decoded, accuracies) if accuracies else None
