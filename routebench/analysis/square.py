"""The four conditions of Kiefer et al., appendix A: three iterations of routing or none, with a decoder or without."""

from collections.abc import Mapping
from dataclasses import dataclass

from routebench.analysis._runs import Runs
from routebench.analysis.comparison import Contender, contenders_of

DECODER = "-reconstruction"
ROUTED, UNROUTED, STEPS = "dynamic", "none", 3
Cells = Mapping[tuple[bool, bool], Contender]  # (routed, with decoder)


@dataclass(frozen=True)
class Square:
    """The four conditions of one suite, preset and data set; some of them may have no result."""

    plain: Runs
    decoded: Runs
    cells: Cells

    def runs(self, *, decoder: bool) -> Runs:
        """The part of the network with the decoder, or of that without."""
        return self.decoded if decoder else self.plain


def square_of(parts: tuple[Runs, ...]) -> Square | None:
    """The square of a results folder: one of a `full` preset if there is one, and of equal ones the newest."""
    squares = [found for plain in parts for decoded in parts if (found := _square(plain, decoded))]
    return min(squares, key=lambda found: found.plain.preset != "full") if squares else None


def _square(plain: Runs, decoded: Runs) -> Square | None:
    """None unless the two are one suite with a network and the same network with a decoder, and something ran."""
    same = (plain.suite, plain.preset, plain.data) == (decoded.suite, decoded.preset, decoded.data)
    if not same or plain.protocol != "accuracy" or decoded.model != f"{plain.model}{DECODER}":
        return None
    cells = {}
    for decoder, runs in ((False, plain), (True, decoded)):
        for entry in contenders_of(runs):
            if entry.accuracies and (entry.label, entry.iterations) in ((ROUTED, STEPS), (UNROUTED, None)):
                cells[entry.label == ROUTED, decoder] = entry
    return Square(plain, decoded, cells) if cells else None
