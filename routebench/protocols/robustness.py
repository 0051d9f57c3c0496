"""Accuracy under attack, with what is needed to judge whether the attacks can be believed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from routebench.arguments import Count, Natural, NonNegative, Positive
from routebench.data import Dataset, load
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol, expect_one_label
from routebench.protocols.spared import spared
from routebench.recipe import Recipe
from routebench.recipes import settings_of
from routebench.registry import protocols


@protocols.register("robustness")
class Robustness(Protocol):
    """Attacks test images in many ways, stores what came out as 8-bit images, and lets the network judge those.

    Distances are in units of pixels from 0 to 1, and images stay in that range; L-infinity budgets are rounded down to
    grey levels of 1/255. An image that the network has wrong without an attack counts as broken and is not attacked.
    The worst case at an eps is over all attacks of that eps or a smaller one, image by image. It is an upper bound on
    the true robustness: a better attack could only lower it.

    Beside the numbers stand checks for gradient masking; see `routebench.masking`.

    Options:
        images: test images to attack, as many of each class as can be.
        eps: budgets of the L-infinity attacks, rising.
        main_eps: the one that images are kept for, and at which the costly checks are made.
        steps: number of steps of BIM, PGD and momentum.
        restarts: random starts of PGD and APGD.
        apgd_steps: steps of APGD and FAB, for each of up to nine classes that they aim at, and for APGD's cross
            entropy.
        further_starts: further starts of APGD, for each of the five images that came nearest to breaking when it aimed
            at classes, all towards the class at which they did; 0 for none.
        square_queries: how often the Square attack may ask the network per image.
        attacks: names, in the order in which they are run; the noise is the floor under them. APGD, FAB and Square take
            only images that the white-box attacks before them left unbroken with this eps or a smaller one.
        losses: that gradient attacks climb, each.
        targeted: gradient attacks that are also run towards classes, by cross entropy.
        targets: how many classes that is, evenly apart; 0 for all.
        transfer_from: model of the baseline without capsules that black-box images are made with; empty for none. It
            has another seed, and is trained as the run's but by cross entropy.
        transfer_rate: its learning rate, so that one network serves methods that are trained with several; 0 for the
            recipe's.
        transfer_recipe: its recipe, by name, for as many epochs as the run's; empty for the run's.
        minimal_images: test images for the attacks that look for the smallest change, of those above.
        minimal_steps: number of their steps.
        queries: about how often decision-based attacks may ask the network per image.
        l2_eps: distances that the accuracy under these attacks is stated for.
        corruptions: names, see `routebench.data.CORRUPTIONS`; accuracy and calibration are measured under each.
        severities: their severities, from 1 to 5.
        corrupted_images: test images for these, as many of each class as can be.

    Source: Hinton, Sabour and Frosst, ICLR 2018, section 6, which names neither the loss attacked, nor step counts, nor
    the unit of eps, nor clipping; the further attacks and the checks are those that Carlini et al. 2019 ask for. APGD
    and FAB (Croce and Hein, both ICML 2020) and Square (Andriushchenko et al., ECCV 2020) are those of AutoAttack.
    """

    options: ClassVar[dict[str, Any]] = {
        "images": Count,
        "eps": list[Positive],
        "main_eps": Positive,
        "steps": Count,
        "restarts": Count,
        "apgd_steps": Count,
        "further_starts": Natural,
        "square_queries": Count,
        "attacks": list[str],
        "losses": list[str],
        "targeted": list[str],
        "targets": Natural,
        "transfer_from": str,
        "minimal_images": Count,
        "minimal_steps": Count,
        "queries": Count,
        "l2_eps": list[Positive],
        "transfer_rate": NonNegative,
        "transfer_recipe": str,
        "corruptions": list[str],
        "severities": list[Count],
        "corrupted_images": Count,
    }
    part_versions: ClassVar[Mapping[str, Mapping[str, int]]] = {"attack": {}, "corruption": {"pixelate": 2}}
    preload: ClassVar[tuple[str, ...]] = ("routebench.protocols.attacking.numbers",)

    def expect(self, data: Dataset) -> None:
        """Expects one class per image, which the attacks turn into another.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: images may show several classes.
        """
        expect_one_label("robustness", data)

    def fits(self, request: FitRequest, options: Mapping[str, Any]) -> Iterator[FitRequest]:
        """The network that is attacked, and the one that images are made against for it."""
        yield request
        if other := str(options.get("transfer_from", "")):
            rate, recipe = float(options.get("transfer_rate", 0.0)), str(options.get("transfer_recipe", ""))
            yield source_request(request, other, rate, recipe)

    def versions(self, options: Mapping[str, Any]) -> Mapping[str, int]:
        """Versions of the attacks and corruptions that are asked for."""
        from routebench.protocols.attacking.settings import Settings

        settings = Settings.of(options)
        asked = {"attack": settings.attacks, "corruption": settings.corruptions}
        return {
            f"{kind} {name}": version
            for kind, versions in self.part_versions.items()
            for name, version in versions.items()
            if name in asked[kind]
        }

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by attack, loss and eps, the checks, and the arrays that they were judged by."""
        from routebench.attacks import under_attack  # only here: foolbox takes a second to import
        from routebench.protocols.attacking.assault import TRANSFER, Assault
        from routebench.protocols.attacking.corrupting import corruption_metrics
        from routebench.protocols.attacking.numbers import numbers
        from routebench.protocols.attacking.settings import Settings, balanced

        settings = Settings.of(options)
        data = load(request.data)
        self.expect(data)
        fit = context.fit(request)
        places = balanced(data.test.labels, settings.images)
        chosen = data.test.at(places)
        of = settings.transfer_from, settings.transfer_rate, settings.transfer_recipe
        from_other = settings.transfer_from and source_request(request, *of)
        source, missing = None, list[Metric]()
        if from_other:
            with spared(missing, "accuracy under transfer"):
                source = context.fit(from_other)
        with under_attack(fit.network, context.device) as victim:
            assault = Assault(
                victim, chosen, classes=len(data.classes), request=request, settings=settings, progress=context.progress
            )
            assault.failed |= {(TRANSFER, eps) for eps in settings.eps if missing}
            assault.run(None if source is None else source.network)
        spread = float(data.train.pixels.double().div(255).std())
        metrics = [*missing, *numbers(assault), Metric.of("pixel_std", "train", spread)]
        with spared(metrics, "accuracy under corruptions"):
            metrics += corruption_metrics(fit.network, data.test, settings, context.device)
        return Measurement(metrics, {"places": places, "labels": chosen.labels, **assault.arrays()})


def source_request(request: FitRequest, model: str, rate: float, named: str = "") -> FitRequest:
    """The network that black-box images are made with: a network without capsules, of another seed.

    Args:
        request: the attacked network's fit.
        model: name of the source network.
        rate: its learning rate; 0 for that of the recipe.
        named: name of its recipe, which runs as many epochs; empty for the attacked network's.

    Raises:
        UserError: there is no such recipe.
    """
    own = request.recipe
    if named:
        own = replace(Recipe(**settings_of(named)), epochs=own.epochs, train_on=own.train_on)
    recipe = replace(own, loss="cross-entropy", learning_rate=rate or own.learning_rate, reconstruction=0.0)
    return FitRequest(model=model, data=request.data, recipe=recipe, seed=request.seed - 1 if request.seed else 1)
