"""One network under all attacks: what is run, in which order."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from routebench.attacks import (
    ADAPTIVE,
    FROM_DECISIONS,
    GRADIENT,
    ITERATIVE,
    SCORES,
    WHITE,
    WITH_GRADIENTS,
    Ball,
    Outcome,
    Plan,
    Shortest,
    Victim,
    attack_loss,
    attack_within,
    constant_coupling,
    difference,
    distinct,
    fgsm,
    gradient_profile,
    largest_difference,
    momentum,
    pgd,
    shortest,
    targeted_success,
    under_attack,
)
from routebench.data import Images
from routebench.masking import CHECKS
from routebench.protocols.attacking.settings import Settings, balanced
from routebench.protocols.base import FitRequest, Metric
from routebench.protocols.spared import ABSENT, spared

TRANSFER = "transfer"
AROUND, LONGER = "pgd-around", "pgd-longer"
REACH = 0.5
"""An eps at which every image can be turned to one grey."""
ASKED = 50
"""Images that a network is asked about again, to see whether it is random."""


class Assault:
    """All that is done to one network.

    Args:
        victim: the network.
        images: the images to attack.
        classes: number of classes of the data set.
        request: the run's fit, whose seed and training loss count.
        settings: the options.
        progress: is told how much is done, 0 to 1.
    """

    def __init__(
        self,
        victim: Victim,
        images: Images,
        *,
        classes: int,
        request: FitRequest,
        settings: Settings,
        progress: Callable[[float], None],
    ):
        self.victim, self.images, self.classes = victim, images, classes
        self.settings, self.progress = settings, progress
        self.iterative = request.iterations is not None
        self.same = distinct(list(settings.losses), request.recipe.loss)
        losses = {name: attack_loss(name, request.recipe.loss) for name in dict.fromkeys(self.same.values())}
        self.plan = Plan(
            settings.steps, settings.restarts, losses, request.seed,
            apgd_steps=settings.apgd_steps, further_starts=settings.further_starts, queries=settings.square_queries,
            classes=classes,
        )  # fmt: skip
        self.right = victim.predict(images.pixels) == images.labels
        if not bool(self.right.any()):
            raise ValueError("the network has none of the images right, so that there is nothing to attack")
        self.own = images.at(self.right.nonzero()[:, 0])
        self.balls: list[Ball] = []
        for eps in settings.eps:
            smaller = self.balls[-1] if self.balls else None
            self.balls.append(Ball(victim, self.own.pixels, self.own.labels, eps, smaller))
        self.found: list[Metric] = []
        self.checks: dict[str, float] = {}
        self.shortest: dict[str, Shortest] = {}
        self.failed: set[tuple[str, float]] = set()
        """Attacks, with their eps, that raised: what they would have broken is not known."""
        self.lost_shortest: set[str] = set()
        """Attacks that look for the smallest change and raised."""
        self.minimal = balanced(self.own.labels, settings.minimal_images)

    def run(self, source: nn.Module | None) -> None:
        """Everything, in order; `source` is the network that black-box images are made with."""
        self._probe(source)
        wanted = [name for name in self.settings.attacks if name in (*GRADIENT, *ADAPTIVE, SCORES, "noise")]
        for number, ball in enumerate(self.balls):
            for name in wanted:
                with self._within(name, ball):
                    ball.run(name, self.plan)
            self.progress(0.6 * (number + 1) / len(self.balls))
        if source is not None:
            for ball in self.balls:
                with self._within(TRANSFER, ball):
                    self._transfer(source, ball)
        self._press()
        for smaller, ball in zip(self.balls, self.balls[1:], strict=False):
            ball.take_over(smaller)
        with spared(self.found, "whether an attack without limits breaks every image"):
            self._reach()
        self._aim()
        self.progress(0.8)
        self._shorten()

    @contextmanager
    def _within(self, name: str, ball: Ball) -> Iterator[None]:
        """Lets an attack fail alone."""
        before = len(self.found)
        with spared(self.found, f"accuracy under {name}, eps {ball.eps:g}"):
            yield
        if any(metric.metric == ABSENT for metric in self.found[before:]):
            self.failed.add((name, ball.eps))

    @property
    def done(self) -> list[str]:
        """The attacks that were asked for and did not fail at any eps."""
        return [name for name in self.settings.attacks if not any(name == failed for failed, _ in self.failed)]

    def is_worst_known(self, ball: Ball) -> bool:
        """Tells whether no attack failed at this eps or a smaller one.

        Args:
            ball: the outcome of all attacks at one eps.
        """
        return not any(eps <= ball.eps for _, eps in self.failed)

    def arrays(self) -> dict[str, Tensor]:
        """Raw outputs: which images are right and robust, and the images that the worst case at `main_eps` rests on.

        Where an attack failed, neither is known, and the first is left alone.
        """
        main = self._main()
        images = self.images.pixels.clone()
        images[self.right] = main.images
        robust = torch.zeros(len(self.balls), len(self.right), dtype=torch.uint8)
        for place, ball in enumerate(self.balls):
            robust[place, self.right] = (~ball.broken_by()).to(torch.uint8)
        kept = {"clean": self.right.to(torch.uint8)}
        kept |= {} if self.failed else {"robust": robust, "adversarial": images}
        return kept | {f"distances_{name}": found.distances for name, found in self.shortest.items()}

    def _main(self) -> Ball:
        return self.balls[self.settings.eps.index(self.settings.main_eps)]

    def share(self, broken: Tensor) -> float:
        """The share of all images chosen, in %.

        Args:
            broken: one truth value for each image that the network has right without an attack.
        """
        return 100 * float(broken.double().sum()) / len(self.right)

    def _probe(self, source: nn.Module | None) -> None:
        """Gradients on unattacked images, and whether the network is random."""
        self.checks["stochastic"] = largest_difference(self.victim, self.own.pixels[:ASKED])
        with spared(self.found, "gradients on images without attack"):
            self._probe_gradients(source)

    def _probe_gradients(self, source: nn.Module | None) -> None:
        profiles = {}
        for name, loss in {**self.plan.losses, "difference": difference}.items():
            profiles[name] = gradient_profile(self.victim, loss, self.own.pixels, self.own.labels)
        for name in self.settings.losses:
            profile = profiles[self.same[name]]
            self.found += [Metric.of(key, "test", value, where={"loss": name}) for key, value in profile.items()]
        attacked = [profiles[name] for name in self.plan.losses]
        self.checks["zero-gradients"] = min(profile["zero_gradient_images"] for profile in attacked)
        self.checks["broken-gradients"] = max(profile["broken_gradient_images"] for profile in attacked)
        if source is not None:
            with under_attack(source, self.victim.device) as other:
                theirs = gradient_profile(other, difference, self.own.pixels, self.own.labels)["gradient_magnitude"]
            ours = profiles["difference"]["gradient_magnitude"]
            self.checks["small-gradients"] = ours / theirs if theirs > 0 else math.inf

    def _transfer(self, source: nn.Module, ball: Ball) -> None:
        """Images made for another network: FGSM and momentum, by the difference of logits."""
        withstood = torch.ones(len(self.own), dtype=torch.bool)
        for name, attack in (("fgsm", fgsm(difference)), ("momentum", momentum(difference, self.plan.steps))):
            with under_attack(source, self.victim.device) as other:
                seed = (self.plan.seed, TRANSFER, name, ball.eps)
                made = attack_within(other, attack, self.own.pixels, self.own.labels, ball.eps, seed=seed)
            withstood &= made.predicted == self.own.labels
            answer, margins = self.victim.judge(made.images, ball.labels)
            unclaimed = torch.zeros_like(withstood)
            ball.add(TRANSFER, name, Outcome(made.images, answer, margins, made.outside, unclaimed))
        value = 100 * float(withstood.double().mean())
        where = {"attack": TRANSFER, "norm": "linf", "eps": f"{ball.eps:g}"}
        self.found.append(Metric.of("source_accuracy", "test", value, where=where))

    def _press(self) -> None:
        """Attacks what is unbroken at the main eps: four times as many steps, and gradients around the routing loop."""
        if not set(ITERATIVE) & set(self.settings.attacks):
            return
        with self._within(LONGER, self._main()):
            self.checks["more-steps"] = self._pressed(LONGER, 4 * self.plan.steps)
        if self.iterative:
            with self._within(AROUND, self._main()), constant_coupling(self.victim.network):
                self.checks["around-routing"] = self._pressed(AROUND, self.plan.steps)

    def _pressed(self, name: str, steps: int) -> float:
        """The accuracy that PGD takes from what white-box attacks left."""
        ball = self._main()
        places = (~ball.broken_within(self.white())).nonzero()[:, 0]
        ball.strike(name, "difference", pgd(difference, steps), places, (self.plan.seed,))
        return self.share(ball.broken[name, "difference"])

    def white(self) -> list[str]:
        """Those of `WHITE` that were asked for and did not fail."""
        return [name for name in self.done if name in WHITE]

    def _reach(self) -> None:
        """Measures what withstands even where every image can be turned to one grey."""
        if not self.white():
            return
        last = self.balls[-1]
        if last.eps < REACH:
            left = last.survivors()
            last = Ball(self.victim, self.own.pixels[left], self.own.labels[left], REACH)
            if len(left):
                last.run("pgd", self.plan)
        chance = 100 / self.classes
        self.checks["reach"] = max(0.0, self.share(~last.broken_by()) - chance)

    def _aim(self) -> None:
        """Attacks towards classes."""
        count = self.settings.targets or self.classes
        targets = sorted({round(place) for place in torch.linspace(0, self.classes - 1, count).tolist()})
        for name in self.settings.targeted:
            for ball in self.balls:
                where: dict[str, int | str] = {
                    "attack": name,
                    "norm": "linf",
                    "eps": f"{ball.eps:g}",
                    "targets": len(targets),
                }
                with spared(self.found, f"success of {name} towards classes, eps {ball.eps:g}"):
                    value = targeted_success(
                        self.victim, name, attack_loss("cross-entropy", ""), self.own.pixels, self.own.labels,
                        eps=ball.eps, targets=targets, steps=self.plan.steps, seed=self.plan.seed,
                    )  # fmt: skip
                    self.found.append(Metric.of("targeted_success", "test", 100 * value, where=where))

    def _shorten(self) -> None:
        """Attacks that look for the smallest change; decisions of a random network lead nowhere."""
        random = CHECKS["stochastic"].fires(self.checks["stochastic"])
        for name in self.settings.attacks:
            if name in WITH_GRADIENTS or (name in FROM_DECISIONS and not random):
                with spared(self.found, f"the smallest change by {name}"):
                    self.shortest[name] = shortest(
                        self.victim, name, self.own.pixels[self.minimal], self.own.labels[self.minimal],
                        steps=self.settings.minimal_steps, queries=self.settings.queries, seed=self.plan.seed,
                    )  # fmt: skip
                if name not in self.shortest:
                    self.lost_shortest.add(name)
