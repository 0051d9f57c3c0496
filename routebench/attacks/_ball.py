"""All attacks within one L-infinity ball, and the worst case over them, image by image."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from routebench.attacks._adaptive import TARGETS, AutoPGD, cross_entropies, ratio_towards
from routebench.attacks._fab import FastAdaptiveBoundary
from routebench.attacks._gradient import GRADIENT, UniformNoise
from routebench.attacks._losses import AttackLoss
from routebench.attacks._square import Square
from routebench.attacks._stored import Outcome, attack_within
from routebench.attacks._victim import Victim

BEST = "best"
NO_LOSS = ""
ITERATIVE = ("bim", "pgd", "momentum")
RESTARTED = ("apgd-ce", "apgd-t")
ADAPTIVE = (*RESTARTED, "fab-t")
"""Attacks that see gradients, and take only images that white-box attacks before them left unbroken."""
SCORES = "square"
"""Sees scores alone, and takes likewise only what white-box attacks left."""
NEAREST = 5
"""Number of survivors that get the further starts of `Plan`."""
WHITE = (*GRADIENT, *ADAPTIVE)
"""Attacks within a ball that see the network itself."""


@dataclass(frozen=True)
class Plan:
    """Strength of the attacks.

    Args:
        steps: steps of iterative attacks, APGD apart.
        restarts: random starts of PGD and APGD; from the second on, only images that withstood are attacked.
        losses: name to loss.
        seed: the seed of the run.
        apgd_steps: steps of APGD and FAB, for each class that they aim at.
        further_starts: further starts of APGD, for each of the `NEAREST` images that came nearest to breaking when it
            aimed at classes, all towards the class at which they did.
        queries: number of queries of the Square attack.
        classes: number of classes of the data set.
    """

    steps: int
    restarts: int
    losses: dict[str, AttackLoss]
    seed: int
    apgd_steps: int = 100
    further_starts: int = 16
    queries: int = 5000
    classes: int = 10


class Ball:
    """Outcome of attacks of one budget on the images that the network has right without an attack.

    Args:
        victim: the network.
        pixels: uint8, (image, channel, height, width), all classified rightly.
        labels: (image).
        eps: budget in units of pixels from 0 to 1.
        smaller: the ball of the next smaller budget, of the same images.
    """

    def __init__(self, victim: Victim, pixels: Tensor, labels: Tensor, eps: float, smaller: "Ball | None" = None):
        self.victim, self.pixels, self.labels, self.eps, self.smaller = victim, pixels, labels, eps, smaller
        self.broken: dict[tuple[str, str], Tensor] = {}
        """(attack, loss) to whether it broke each image."""
        self.images = pixels.clone()
        """The first image that some attack broke, or the unattacked one."""
        self.reached: dict[tuple[str, str], Tensor] = {}
        """(attack, loss) to the largest margin that it reached on each image; minus infinity where it was not run."""
        self.outside = torch.zeros(len(labels), dtype=torch.bool)
        self.overstated: list[Tensor] = []

    def add(self, attack: str, loss: str, outcome: Outcome, places: Tensor | None = None) -> Tensor:
        """Takes in what an attack did to the images at some places, or to all.

        Args:
            attack: name of the attack.
            loss: name of its loss, or `NO_LOSS`.
            outcome: what came back, one entry per place.
            places: places of the attacked images, in the order of the outcome; None for all.

        Returns:
            whether it broke each of all images.
        """
        places = torch.arange(len(self.labels)) if places is None else places
        wrong = outcome.predicted != self.labels[places]
        new = places[wrong & ~self.broken_by()[places]]
        self.images[new] = outcome.images[wrong & ~self.broken_by()[places]]
        known = self.broken.get((attack, loss), torch.zeros(len(self.labels), dtype=torch.bool)).clone()
        known[places[wrong]] = True
        self.broken[attack, loss] = known
        reached = self.reached.setdefault((attack, loss), torch.full((len(self.labels),), -torch.inf))
        reached[places] = reached[places].maximum(outcome.margins)
        self.outside[places[outcome.outside]] = True
        self.overstated.append(outcome.overstated)
        return known

    def broken_by(self, attacks: Iterable[str] | None = None, loss: str | None = None) -> Tensor:
        """Tells whether any of these attacks, or any at all, broke each image.

        Args:
            attacks: names of attacks; None for any.
            loss: name of the only loss that counts; None for any.

        Returns:
            one truth value per image, (image).
        """
        found = torch.zeros(len(self.labels), dtype=torch.bool)
        wanted = None if attacks is None else set(attacks)
        for (attack, attacked), broken in self.broken.items():
            if (wanted is None or attack in wanted) and loss in (None, attacked):
                found |= broken
        return found

    def broken_within(self, attacks: Iterable[str]) -> Tensor:
        """Tells whether any of these attacks broke each image with this budget or a smaller one.

        Args:
            attacks: names of attacks.

        Returns:
            one truth value per image, (image).
        """
        wanted = list(attacks)
        found = self.broken_by(wanted)
        return found if self.smaller is None else found | self.smaller.broken_within(wanted)

    def run(self, name: str, plan: Plan) -> None:
        """Runs an attack by name with every loss, on all images or, see `ADAPTIVE` and `SCORES`, on what is left.

        Args:
            name: name of the attack: `noise`, `SCORES`, or one of `WHITE`.
            plan: how strong it is.
        """
        if name == "noise":
            self.add(name, NO_LOSS, self._attack(UniformNoise(), self.pixels, self.labels, (plan.seed, name)))
            return
        if name in (*ADAPTIVE, SCORES):
            for loss, attack in _on_what_is_left(name, plan):
                for restart in range(plan.restarts if name in RESTARTED else 1):
                    self.strike(name, loss, attack, self.left_by_white(), (plan.seed, restart))
            if name == "apgd-t" and plan.further_starts:
                self._strike_nearest(name, plan)
            return
        for loss in plan.losses:
            attack = GRADIENT[name](plan.losses[loss], plan.steps)
            for restart in range(plan.restarts if name == "pgd" else 1):
                places = self.survivors(name, loss)
                self.strike(name, loss, attack, places, (plan.seed, restart))

    def _strike_nearest(self, name: str, plan: Plan) -> None:
        """Starts anew on what came nearest to breaking, each image towards the class at which it did."""
        attacks = list(_on_what_is_left(name, plan))
        left = self.left_by_white()
        margins, towards = torch.stack([self.reached[name, loss][left] for loss, _ in attacks]).max(dim=0)
        nearest = margins.argsort(descending=True, stable=True)[:NEAREST]
        for aim in towards[nearest].unique().tolist():  # type: ignore[no-untyped-call]
            places = left[nearest[towards[nearest] == aim]]
            loss, attack = attacks[aim]
            seed = (plan.seed, plan.restarts, name, loss)
            outcome = self._attack(attack, self.pixels[places], self.labels[places], seed, plan.further_starts)
            self.add(name, loss, outcome, places)

    def left_by_white(self) -> Tensor:
        """Places of the images that no white-box attack so far broke with this budget or a smaller one."""
        return (~self.broken_within(WHITE)).nonzero()[:, 0]

    def survivors(self, attack: str | None = None, loss: str | None = None) -> Tensor:
        """Places of the images that an attack, or all so far, left unbroken.

        Args:
            attack: name of an attack; None for all.
            loss: name of the only loss that counts; None for any.
        """
        return (~self.broken_by(None if attack is None else [attack], loss)).nonzero()[:, 0]

    def strike(self, name: str, loss: str, attack: Callable[..., Any], places: Tensor, seed: tuple[int, ...]) -> None:
        """Runs one attack on the images at some places, and takes in what it did.

        Args:
            name: name of the attack, as results have it.
            loss: name of its loss, or `NO_LOSS`.
            attack: an attack with foolbox's call.
            places: places of the images to attack.
            seed: tells this use from others; the names and the budget are added.
        """
        outcome = self._attack(attack, self.pixels[places], self.labels[places], (*seed, name, loss))
        self.add(name, loss, outcome, places)

    def take_over(self, smaller: "Ball") -> None:
        """Takes over what a smaller budget broke: an image found there lies within this ball too.

        Args:
            smaller: the ball of a smaller budget, of the same images.
        """
        new = smaller.broken_by() & ~self.broken_by()
        self.images[new] = smaller.images[new]
        self.broken["smaller", NO_LOSS] = smaller.broken_by()

    def _attack(
        self, attack: Callable[..., Any], pixels: Tensor, labels: Tensor, seed: tuple[object, ...], starts: int = 1
    ) -> Outcome:
        return attack_within(self.victim, attack, pixels, labels, self.eps, seed=(*seed, self.eps), starts=starts)


def _on_what_is_left(name: str, plan: Plan) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Arguments that an attack is run with, one after the other: the loss, and the attack."""
    if name == "apgd-ce":
        yield "cross-entropy", AutoPGD(cross_entropies, plan.apgd_steps)
    elif name == "apgd-t":
        for rank in range(min(TARGETS, plan.classes - 1)):
            yield f"ratio-{rank + 1}", AutoPGD(ratio_towards(rank), plan.apgd_steps)
    elif name == "fab-t":
        for rank in range(min(TARGETS, plan.classes - 1)):
            yield f"class-{rank + 1}", FastAdaptiveBoundary(rank, plan.apgd_steps)
    else:
        yield NO_LOSS, Square(plan.queries)


def targeted_success(
    victim: Victim,
    name: str,
    loss: AttackLoss,
    pixels: Tensor,
    labels: Tensor,
    *,
    eps: float,
    targets: Iterable[int],
    steps: int,
    seed: int,
) -> float:
    """The share of images that come out as a wrong class that was chosen, mean over the classes chosen.

    Source: Hinton, Sabour and Frosst, ICLR 2018, section 6. Images of the chosen class itself are left out.

    Args:
        victim: the network.
        name: an attack of `GRADIENT`.
        loss: the loss that is descended towards the chosen class.
        pixels: uint8, (image, channel, height, width), on the CPU.
        labels: true classes, (image).
        eps: budget in units of pixels from 0 to 1, rounded down to whole grey levels.
        targets: the classes chosen, one after the other.
        steps: number of steps of an iterative attack.
        seed: the seed of the run.

    Returns:
        between 0 and 1; NaN where there is no image to attack.
    """  # fmt: skip
    shares = []
    for target in targets:
        others = labels != target
        aims = torch.full_like(labels[others], target)
        outcome = attack_within(
            victim, GRADIENT[name](loss, steps), pixels[others], labels[others], eps,
            seed=(seed, name, "targeted", target, eps), targets=aims,
        )  # fmt: skip
        if len(aims):
            shares.append(float((outcome.predicted == target).double().mean()))
    return sum(shares) / len(shares) if shares else float("nan")
