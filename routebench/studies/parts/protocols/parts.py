"""Test whether coupling finds the object that a part belongs to, on scenes whose part-whole tree is known."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from routebench.arguments import Count, Natural
from routebench.data import Dataset, load
from routebench.data_names import unfolded
from routebench.errors import UserError
from routebench.measures import Answers, adjusted_rand_index, best_threshold
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of
from routebench.protocols.spared import spared
from routebench.protocols.traced import trace
from routebench.registry import protocols
from routebench.training import evaluate, highest

from ..constellations import CLUTTER, Constellation, Scenes, decoded, draw, encoded, infer

NAME = "constellations"
TEST_SEED, MAP_SEED = 3, 4
"""Seeds of scenes that no data set has."""
MAPPED = 2000
"""Scenes such as those of the training part, on which maps of poses are fitted."""
Coupling = Float[Tensor, "scene child parent"]
Parents = Int[Tensor, "scene child"]


@dataclass(frozen=True)
class SceneGroup:
    """Scenes that are measured together.

    Args:
        known: what they look like.
        objects: number of objects in each.
        count: number of scenes.
    """

    known: Constellation
    objects: int
    count: int

    @property
    def where(self) -> dict[str, int | str]:
        """Coordinates of what is measured on them."""
        return {"objects": self.objects, "clutter": self.known.clutter}

    def drawn(self) -> Scenes:
        """Draws the scenes, which are the same whenever they are asked for."""
        return draw(self.known, self.count, TEST_SEED, exactly=self.objects)


@protocols.register("parts", version=1)
class Assignment(Protocol):
    """Trains on which kinds of objects scenes show, then asks where the parts of other scenes go.

    `ari` is the adjusted Rand index of the parent that has most of each part's coupling against the object that the
    part belongs to, mean over scenes of two objects or more; 0 is chance, and what uniform coupling has. Clutter takes
    part in routing; only `ari_clutter` counts it, as one group more. `true_share` is the share of a part's coupling at
    its object. `clutter_mass` is the coupling of clutter with all parents, where that of a part is 1. `pose_r2` is R²
    of true object poses given those of object capsules, after a linear map for each kind, fitted on other scenes.

    A kind of object is answered if its score is above a threshold, the best on held-out scenes, as in `overlap`.

    Metrics whose names begin with `ceiling` are those of variational inference in the model that the scenes are drawn
    from: `routebench.studies.parts.constellations`. They are the same for every method.

    Options:
        objects: numbers of objects in the scenes that are measured, which may be more than training has.
        clutter: numbers of parts in each scene that belong to nothing.
        scenes: for each pair of these.
        follow: iterations up to which coupling is followed from the same weights, in scenes like those of training.

    Source: the question is that of Kosiorek et al., NeurIPS 2019, and of Nazabal, Tsagkas and Williams, Neural
    Computation 2023, on other constellations.
    """

    chooses = "a threshold"
    options: ClassVar[dict[str, Any]] = {
        "objects": list[Count], "clutter": list[Natural], "scenes": Count, "follow": Natural,
    }  # fmt: skip

    def expect(self, data: Dataset) -> None:
        """Expects scenes whose part-whole tree is known: constellations.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: it is another data set.
        """
        constellation_of(data.name)

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by number of objects and of clutter, and by T where coupling is followed; the array `correct`."""
        data = load(request.data)
        known = constellation_of(data.name)
        fit = context.fit(request)
        held_out = evaluate(fit.network, data.held_out, request.recipe, context.device)
        threshold = best_threshold(held_out.scores, data.held_out.labels)
        test = evaluate(fit.network, data.test, request.recipe, context.device)
        found = Answers(test.scores > threshold, data.test.labels)
        metrics = [
            Metric.of("accuracy", "test", found.exact_match() or 0.0, test_iterations=request.iterations),
            Metric.of("chosen_threshold", "held-out", threshold, test_iterations=request.iterations),
            *cost_of(fit),
        ]
        maps = _maps(fit.network, known, context.device)
        trained = _Trained(fit.network, request.iterations, context.device, maps, threshold)
        parts = _parts(known, options)
        for number, part in enumerate(parts):
            followed = int(options.get("follow", 10)) if number == 0 else 0
            told = f"parts of {part.objects} objects and {part.known.clutter} of clutter"
            with nullcontext() if number == 0 else spared(metrics, told):
                metrics += trained.measured(part, followed)
            metrics += ceiling(part)
            context.progress((number + 1) / len(parts))
        return Measurement(metrics, {"correct": found.correct.to(torch.uint8)})


def constellation_of(name: str) -> Constellation:
    """Properties of the scenes of a data set.

    Args:
        name: name of the data set, or of a fold of it.

    Raises:
        UserError: it has none.
    """
    kind, _, text = unfolded(name).partition(":")
    if kind != NAME:
        raise UserError(
            f"protocol parts: expected scenes whose part-whole tree is known, got {name}; choose {NAME}, or "
            f"{NAME}:clutter=2 or the like, with --data"
        )
    return Constellation.of(text) if text else Constellation()


def coupling_metrics(coupling: Coupling, parents: Parents, *, of_clutter: bool = False) -> Iterator[tuple[str, float]]:
    """Metrics of coupling against parents.

    Args:
        coupling: coupling coefficients with every parent, and last with clutter where `of_clutter`.
        parents: the truth, as `Scenes.parents` has it.
        of_clutter: whether clutter is a parent.
    """
    coupling, labels, is_part = coupling.double().cpu(), coupling.cpu().argmax(dim=2), parents >= 0
    if all(len(set(scene[scene >= 0].tolist())) > 1 for scene in parents):
        yield "ari", _index(labels, parents, is_part)
    total = coupling.sum(dim=2)
    shares = torch.where(total[..., None] > 0, coupling / total[..., None], 1 / coupling.shape[2])
    yield "true_share", float(shares.gather(2, parents.clamp(min=0)[..., None])[..., 0][is_part].mean())
    is_clutter = parents == CLUTTER
    if is_clutter.any():
        mass = coupling[..., :-1].sum(dim=2) if of_clutter else total
        yield "ari_clutter", _index(labels, parents, is_part | is_clutter)
        yield "clutter_mass", float(mass[is_clutter].mean() / mass[is_part].mean())


def _index(labels: Parents, parents: Parents, counted: Bool[Tensor, "scene child"]) -> float:
    return float(adjusted_rand_index(labels, parents, counted).mean())


@lru_cache(maxsize=32)
def ceiling(part: SceneGroup) -> tuple[Metric, ...]:
    """Metrics of inference in the true model on the same scenes, poses rounded as networks see them.

    Args:
        part: the scenes.
    """
    scenes = part.drawn()
    poses, present = decoded(encoded(scenes).double().div(255))
    found = infer(poses, present > 0, part.known.noise)
    values = dict(coupling_metrics(found.coupling.flatten(1, 2), scenes.parents.flatten(1), of_clutter=True))
    values["pose_r2"] = explained(found.objects[scenes.shown], scenes.objects[scenes.shown])
    metrics = [Metric.of(f"ceiling_{name}", "test", value, where=part.where) for name, value in values.items()]
    exact = 100 * float((found.shown == scenes.shown).all(dim=1).double().mean())
    return (*metrics, Metric.of("ceiling_exact_match", "test", exact, where=part.where))


def explained(found: Float[Tensor, "n 2 3"], true: Float[Tensor, "n 2 3"]) -> float:
    """R² of poses, all pose elements together, each about its own mean.

    Args:
        found: poses as they were inferred, (object, 2, 3).
        true: the true poses, (object, 2, 3).
    """
    return float(1 - (found - true).square().sum() / (true - true.mean(dim=0)).square().sum())


def _parts(known: Constellation, options: Mapping[str, Any]) -> list[SceneGroup]:
    """Scenes like the largest of training first, then those of the options."""
    pairs = [(known.objects, known.clutter)]
    for clutter in options.get("clutter", [known.clutter]):
        pairs += [(objects, clutter) for objects in options.get("objects", [known.objects])]
    return [
        SceneGroup(replace(known, objects=objects, clutter=clutter), objects, int(options.get("scenes", 250)))
        for objects, clutter in dict.fromkeys(pairs)
    ]


@dataclass(frozen=True)
class _Trained:
    """A network, the T that it was trained with, the maps of its poses, None without capsules, and a threshold."""

    network: nn.Module
    iterations: int | None
    device: torch.device
    maps: Float[Tensor, "kind element 6"] | None
    threshold: float

    def measured(self, part: SceneGroup, followed: int) -> Iterator[Metric]:
        """Answers, coupling and poses at the T trained with; coupling at other T, up to `followed`.

        Args:
            part: the scenes.
            followed: largest T up to which coupling is followed; 0 for the T trained with alone.
        """
        scenes = part.drawn()
        yield from self._answers(part, scenes)
        if self.maps is None:
            return
        others = () if self.iterations is None else range(1, followed + 1)
        for steps in dict.fromkeys((self.iterations, *others)):
            missing: list[Metric] = []
            others_fail_alone = spared(missing, f"coupling with {steps} iterations", steps)
            with nullcontext() if steps == self.iterations else others_fail_alone:
                layer = trace(self.network, _images(scenes, self.device), steps).layers[-1]
            if missing:
                yield from missing
                continue
            values = {}
            if layer.coupling is not None:
                parents = scenes.parents.transpose(1, 2).flatten(1)  # types fastest, as children are
                values = dict(coupling_metrics(layer.coupling, parents))
            if steps == self.iterations:
                poses = _mapped(layer.capsules.poses, self.maps)
                values["pose_r2"] = explained(poses[scenes.shown], scenes.objects[scenes.shown])
            for name, value in values.items():
                yield Metric.of(name, "test", value, test_iterations=steps, where=part.where)

    @torch.no_grad()
    def _answers(self, part: SceneGroup, scenes: Scenes) -> Iterator[Metric]:
        scores = self.network(_images(scenes, self.device)).scores.cpu()
        counted = highest(scores, scenes.shown.sum(dim=1))
        for name, answered in (("exact_match", scores > self.threshold), ("exact_match_given_count", counted)):
            right = Answers(answered, scenes.shown).exact_match() or 0.0
            yield Metric.of(name, "test", right, test_iterations=self.iterations, where=part.where)


def _maps(network: nn.Module, known: Constellation, device: torch.device) -> Float[Tensor, "kind element 6"] | None:
    """The linear map with offset from poses of object capsules to true poses, by kind; None without capsules."""
    scenes = draw(known, MAPPED, MAP_SEED)
    with torch.no_grad():
        layers = network(_images(scenes, device)).layers
    if not layers:
        return None
    poses = _with_offset(layers[-1].flat().poses)
    true = scenes.objects.flatten(2)
    kinds = zip(poses.unbind(dim=1), true.unbind(dim=1), scenes.shown.unbind(dim=1), strict=True)
    return torch.stack([torch.linalg.pinv(own[shown]) @ wanted[shown] for own, wanted, shown in kinds])


def _mapped(poses: Float[Tensor, "scene kind pose"], maps: Float[Tensor, "kind element 6"]) -> Tensor:
    """Poses of objects, as the maps say: (scene, kind, 2, 3)."""
    return torch.einsum("nje,jea->nja", _with_offset(poses), maps).reshape(*poses.shape[:2], 2, 3)


def _with_offset(poses: Float[Tensor, "scene kind pose"]) -> Float[Tensor, "scene kind element"]:
    poses = poses.double().cpu()
    return torch.cat([poses, torch.ones_like(poses[..., :1])], dim=2)


def _images(scenes: Scenes, device: torch.device) -> Float[Tensor, "scene 7 part slot"]:
    return encoded(scenes).to(device).to(torch.float32).div(255)
