"""Fixed points z = f(z), of every image of a batch by itself: Anderson acceleration, and damped iteration.

An image is left alone as soon as it has come to rest, and nothing that it does depends on the rest of the batch: it
comes to rest in the same place whatever company it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

States = Float[Tensor, "image element"]
Update = Callable[[States, Int[Tensor, " image"]], States]
"""f: the states of some images, and which images they are, to their next states."""
Gap = Callable[[States, States], Float[Tensor, " image"]]
"""z and f(z) to the residual of every image; one that is not finite counts as the worst."""

REGULARISATION = 1e-6
"""Number added to the correlations of the residuals, whose diagonal is 1."""


@dataclass(frozen=True)
class Solution:
    """State of a solver.

    Args:
        states: the best known of every image: what an update (a damped one, in damped iteration) made of the state
            with the smallest residual. If no update was finite, the states that the solver started from.
        residual: that smallest residual of every image; infinite if none was found.
        updates: f's that every image took.
    """

    states: States
    residual: Float[Tensor, " image"]
    updates: Int[Tensor, " image"]


class Solver(ABC):
    """Chooses where to look next. It is told only of the images that have not come to rest, in one order."""

    def start(self, states: States) -> None:  # noqa: B027  # most solvers remember nothing
        """Forgets everything; these are the first states."""

    @abstractmethod
    def settle(self, states: States, found: States) -> States:
        """The states to hand out for the states z, of which f(z) was found.

        Args:
            states, found: z and f(z), (image, element).
        """

    @abstractmethod
    def next(self, states: States, found: States, residual: Float[Tensor, " image"]) -> States:
        """The states to try after these.

        Args:
            states, found: z and f(z), (image, element).
            residual: the residual of every image, (image,).
        """

    def keep(self, chosen: Bool[Tensor, " image"]) -> None:  # noqa: B027  # as above
        """The other images have come to rest and will not be seen again."""


@torch.no_grad()
def solve(update: Update, start: States, gap: Gap, *, solver: Solver, tolerance: float, limit: int) -> Solution:
    """Updates every image until its residual is below the tolerance, at most `limit` times.

    Args:
        update: f. It is called with the images that still move.
        start: the first z.
        gap: the residual of z and f(z).
        solver: chooses the states in between.
        tolerance: residual below which an image counts as at rest.
        limit: most updates for an image, those included whose result was thrown away.
    """
    best, states = start.clone(), start
    lowest = start.new_full((len(start),), torch.inf)
    updates = torch.zeros(len(start), dtype=torch.long, device=start.device)
    moving = torch.arange(len(start), device=start.device)
    solver.start(start)
    for _ in range(limit):
        found = update(states, moving)
        residual = gap(states, found).nan_to_num(nan=torch.inf)
        updates[moving] += 1
        better = residual < lowest[moving]
        best[moving] = torch.where(better[:, None], solver.settle(states, found), best[moving])
        lowest[moving] = torch.where(better, residual, lowest[moving])
        states = solver.next(states, found, residual)
        going = residual >= tolerance
        if not bool(going.all()):
            states, moving = states[going], moving[going]
            solver.keep(going)
        if len(moving) == 0:
            break
    return Solution(best, lowest, updates)


class Damped(Solver):
    """z <- z + d (f(z) - z): d = 1 is plain iteration; less comes to rest where plain iteration swings.

    Args:
        damping: d, above 0 and at most 1.
    """

    def __init__(self, damping: float = 0.5):
        self.damping = damping

    def settle(self, states: States, found: States) -> States:
        """The damped step."""
        return found if self.damping == 1 else torch.lerp(states, found, self.damping)

    def next(self, states: States, found: States, residual: Float[Tensor, " image"]) -> States:
        """The damped step."""
        return self.settle(states, found)


class Anderson(Solver):
    """Anderson acceleration (type II), of every image by itself, with a way back.

    From the last states z_i and their g_i = f(z_i) - z_i it tries `sum_i a_i f(z_i)`, where a minimises
    `|sum_i a_i g_i|^2` subject to `sum_i a_i = 1`. Parts of the state count in proportion to their own size, so that
    small quantities, such as variances, weigh as much as large ones.

    An extrapolated state can lie where f has no meaning, as a negative variance does, or near a fixed point that plain
    iteration would leave. No knowledge of f is needed to find out. What was extrapolated is kept only if f of it is
    finite and its residual is below `descent` times the last one; if not, the image forgets its history and goes on by
    plain steps from the last f(z) that was kept: one of them after the first failure, two after the second, then four
    and so on, so that an image that gains nothing ends in plain iteration. Parts of one sign in all remembered
    f(z_i), as variances and activations are, must keep it; else the step is plain at once. What `solve` hands out is a
    value of f in any case.

    Source: Anderson, Journal of the ACM 1965; Walker and Ni, SIAM Journal on Numerical Analysis 2011, for the type and
    the constrained form. The code of Bai, Kolter and Koltun, NeurIPS 2019, solves its equilibria by Broyden's method;
    Kolter, Duvenaud and Johnson, Deep implicit layers, a NeurIPS tutorial of 2020, by Anderson's. The way back is ours.

    Args:
        parts: numbers of elements of the parts that a state is made of.
        window: how many states are remembered.
        descent: at most 1.
    """

    def __init__(self, parts: Sequence[int], window: int = 5, descent: float = 0.8):
        self.parts, self.window, self.descent = list(parts), window, descent

    def start(self, states: States) -> None:
        """Forgets everything; these are the first states."""
        self._entries: list[_Entry] = []  # the newest last
        self._plain = states  # the step back
        self._bound = states.new_full((len(states),), torch.inf)  # what the next residual must not exceed
        self._wait = torch.zeros(len(states), dtype=torch.long, device=states.device)  # plain steps still to take
        self._penalty = torch.ones_like(self._wait)  # plain steps to take after the next failure

    def settle(self, states: States, found: States) -> States:
        """The plain step."""
        return found

    def next(self, states: States, found: States, residual: Float[Tensor, " image"]) -> States:
        """The extrapolated states where that is possible, else f(z), or the last f(z) that was kept."""
        kept = residual <= self._bound
        self._plain = torch.where(kept[:, None], found, self._plain)
        self._wait = torch.where(kept, (self._wait - 1).clamp(min=0), self._penalty)
        self._penalty = torch.where(kept, self._penalty, 2 * self._penalty)
        self._entries = [replace(entry, known=entry.known & kept) for entry in self._entries]
        self._entries = [*self._entries, _Entry.of(states, found, kept, self.parts)][-self.window :]
        if len(self._entries) == 1:
            return self._plain
        tried = self._extrapolated()
        known = torch.stack([entry.known for entry in self._entries])
        ready = kept & (self._wait == 0) & (known.sum(dim=0) > 1) & tried.isfinite().all(dim=1) & self._same_sign(tried)
        self._bound = torch.where(ready, self.descent * residual, torch.inf)  # a plain step is taken as it comes
        return torch.where(ready[:, None], tried, self._plain)

    def keep(self, chosen: Bool[Tensor, " image"]) -> None:
        """Drops the other images' rows."""
        self._entries = [entry.at(chosen) for entry in self._entries]
        self._plain, self._bound = self._plain[chosen], self._bound[chosen]
        self._wait, self._penalty = self._wait[chosen], self._penalty[chosen]

    def _extrapolated(self) -> States:
        weights = mixing_weights(
            torch.stack([entry.direction for entry in self._entries], dim=1),
            torch.stack([entry.size for entry in self._entries], dim=1),
            torch.stack([entry.known for entry in self._entries], dim=1),
        ).to(self._plain.dtype)
        shares = zip(weights.unbind(dim=1), self._entries, strict=True)
        return torch.stack([weight[:, None] * entry.value for weight, entry in shares]).sum(dim=0)

    def _same_sign(self, tried: States) -> Bool[Tensor, " image"]:
        """Tells whether every part that had one sign in all remembered values still has it."""
        had = torch.stack([entry.signs | ~entry.known[:, None, None] for entry in self._entries]).all(dim=0)
        return (~had | _signs(tried, self.parts)).flatten(1).all(dim=1)


@dataclass(frozen=True)
class _Entry:
    """Memory of one state z: f(z), and g = f(z) - z, each part of it relative to that of f(z)."""

    value: States
    direction: States  # g / |g|
    size: Float[Tensor, " image"]  # |g|
    signs: Bool[Tensor, "image part 2"]  # of f(z)
    known: Bool[Tensor, " image"]  # whether it counts

    @classmethod
    def of(cls, states: States, found: States, kept: Bool[Tensor, " image"], parts: list[int]) -> "_Entry":
        tiny = torch.finfo(found.dtype).tiny
        pieces = zip((found - states).split(parts, dim=1), found.split(parts, dim=1), strict=True)  # type: ignore[no-untyped-call]
        gap = torch.cat([piece / whole.norm(dim=1, keepdim=True).clamp(min=tiny) for piece, whole in pieces], dim=1)
        size = gap.norm(dim=1).clamp(min=tiny)
        known = kept & size.isfinite() & found.isfinite().all(dim=1)
        return cls(
            torch.where(known[:, None], found, 0),
            torch.where(known[:, None], gap / size[:, None], 0),
            torch.where(known, size, 1),
            _signs(found, parts),
            known,
        )

    def at(self, chosen: Bool[Tensor, " image"]) -> "_Entry":
        return _Entry(
            self.value[chosen], self.direction[chosen], self.size[chosen], self.signs[chosen], self.known[chosen]
        )


def _signs(states: States, parts: list[int]) -> Bool[Tensor, "image part 2"]:
    """Tells whether a part is nowhere negative, and whether it is nowhere positive."""
    found = [
        torch.stack([(part >= 0).all(dim=1), (part <= 0).all(dim=1)], dim=1)
        for part in states.split(parts, dim=1)  # type: ignore[no-untyped-call]
    ]
    return torch.stack(found, dim=1)


def mixing_weights(
    direction: Float[Tensor, "image entry element"],
    size: Float[Tensor, "image entry"],
    known: Bool[Tensor, "image entry"],
) -> Float[Tensor, "image entry"]:
    """a that minimises |sum_i a_i g_i|^2 with sum_i a_i = 1, over the known states; the others get 0.

    With g_i = |g_i| e_i and the correlations C_ij = <e_i, e_j>, `a_i` is in proportion to
    `sum_j (C + r)^-1_ij / (|g_i| |g_j|)`: so regularised, the residuals of late states, which are small, count as much
    as those of early ones. Solved in double precision.

    Args:
        direction: e; finite for states that are not known, too.
        size: |g|.
        known: whether a state counts.
    """
    with torch.autocast(direction.device.type, enabled=False):
        correlation = (direction @ direction.transpose(1, 2)).double()
    identity = torch.eye(size.shape[1], dtype=torch.float64, device=size.device)
    pair = known[:, :, None] & known[:, None, :]
    correlation = torch.where(pair, correlation, 0) * (1 - identity) + (1 + REGULARISATION) * identity
    size = size.double()
    smallest = torch.where(known, size, torch.inf).amin(dim=1, keepdim=True)
    inverse = torch.where(known, smallest / size, 0)  # 1 / |g|, up to a factor
    weights = inverse * torch.linalg.solve(correlation, inverse)
    return torch.where(known, weights / weights.sum(dim=1, keepdim=True), 0)
