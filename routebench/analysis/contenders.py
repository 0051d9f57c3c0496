"""The methods of one suite with what they reached by seed, and the difference of any two of them.

A difference of accuracies has one interval and one p, which are made here. `families` corrects the p.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import special

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._estimate import (
    MISSING,
    UNEVEN,
    UNTESTED,
    Estimate,
    SeedValues,
    Sides,
    at_stake,
    believed,
    collapses_by_label,
    difference,
    unflattered,
)
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs

ALIKE = "over test samples (all seeds differ alike)"


@dataclass(frozen=True)
class Contender:
    """A method in a comparison: its accuracies (%) and its runs, by seed; how many seeds were planned."""

    method: Method
    accuracies: SeedValues = field(default_factory=SeedValues)
    cells: dict[int, str] = field(default_factory=dict)
    planned: int = 0

    @property
    def values(self) -> list[float]:
        """Its accuracies, in the order of the seeds."""
        return [self.accuracies[seed] for seed in sorted(self.accuracies)]


_FOUND: WeakKeyDictionary[Runs, tuple[Contender, ...]] = WeakKeyDictionary()


def contenders_of(runs: Runs) -> list[Contender]:
    """Every planned method, in alphabetical order, with its results by seed.

    Args:
        runs: the runs of a suite.
    """
    if runs not in _FOUND:
        _FOUND[runs] = tuple(_contenders(runs))
    return [*_FOUND[runs]]


def _contenders(runs: Runs) -> list[Contender]:
    measured = runs.accuracies()
    accuracy = dict(zip(measured["cell"], measured["value"], strict=True))
    known: dict[Method, Contender] = {}
    counted = {method: method for method in measured["method"]}  # less the seeds whose accuracy is no number
    for cell, seed, status in runs.planned[["cell", "seed", "status"]].itertuples(index=False, name=None):
        method = counted.get(runs.methods[cell], runs.methods[cell])
        if method not in known:
            known[method] = Contender(method, SeedValues(first=runs.first, within=(0.0, 100.0)))
        if cell in accuracy and status == "ok":
            one = known[method]
            one.accuracies[int(seed)], one.cells[int(seed)] = float(accuracy[cell]), str(cell)
    planned = Counter(runs.methods[cell] for cell in runs.planned["cell"])
    return [replace(known[method], planned=planned[method]) for method in sorted(known)]


_DISTINCT: WeakKeyDictionary[Runs, tuple[Contender, ...]] = WeakKeyDictionary()


def distinct(runs: Runs) -> list[Contender]:
    """The contenders that are different functions; `method.same` holds the others.

    Two are the same function if every seed of both gave bitwise equal losses and accuracies, as one iteration of
    dynamic routing and uniform routing do. A baseline represents a method, else the first by name does.

    Args:
        runs: the runs of a suite, whose losses are compared.

    Returns:
        one for each function, sorted by method.
    """
    if runs not in _DISTINCT:
        _DISTINCT[runs] = tuple(_distinct(runs))
    return [*_DISTINCT[runs]]


def _distinct(runs: Runs) -> list[Contender]:
    losses: dict[str, list[float]] = {}
    for metric in ("train_loss", "loss"):
        values = runs.values(metric, as_trained=True)
        for cell, value in zip(values["cell"], values["value"], strict=True):
            losses.setdefault(cell, []).append(float(value))

    def computed(one: Contender) -> object:
        known = {seed: tuple(sorted(losses.get(cell, ()))) for seed, cell in sorted(one.cells.items())}
        told = one.planned == len(known) and all(known.values())
        return (one.method.model, tuple(known.items()), tuple(one.values)) if told else one.method

    groups: dict[object, list[Contender]] = {}
    for one in sorted(contenders_of(runs), key=lambda one: (not one.method.is_control, one.method)):
        groups.setdefault(computed(one), []).append(one)
    found = [replace(first, method=replace(first.method, same=tuple(other.method for other in others)))
             for first, *others in groups.values()]  # fmt: skip
    return sorted(found, key=lambda one: one.method)


def images_of(runs: Runs, contenders: Iterable[Contender]) -> int | None:
    """Number of test images, from the kept outcomes; None without any.

    Args:
        runs: the runs of a suite.
        contenders: those whose outcomes are looked for.
    """
    kept = (runs.correct(cell) for one in contenders for cell in one.cells.values())
    return next((int(correct.size) for correct in kept if correct is not None), None)


def objects_of(runs: Runs, contenders: Iterable[Contender]) -> int | None:
    """Number of different objects on test images; None where unknown, or without outcomes.

    Args:
        runs: the runs of a suite.
        contenders: those whose outcomes are looked for.
    """
    images = images_of(runs, contenders)
    views = images and runs.views(images)
    return images // views if images and views else None


def difference_between(runs: Runs, ours: Contender, theirs: Contender) -> Estimate:
    """`ours - theirs` in points: paired by seed, or by test image if each has one seed, and the same.

    Where one of them has more, one shared seed gives no test: it may be all that did not diverge. If all seeds differ
    by the same amount, other than none, their spread is unknown: the test is over test images, if answers were kept.
    There is no test in favour of a method that lost seeds (`unflattered`), nor of one whose falling seeds could undo it
    (`believed`).

    Args:
        runs: the runs of a suite.
        ours: the contender whose accuracies come first.
        theirs: the contender whose accuracies are subtracted.
    """
    seeds = sorted(set(ours.accuracies) & set(theirs.accuracies))
    found = difference(ours.accuracies, theirs.accuracies)
    is_single = len(seeds) == len(ours.accuracies) == len(theirs.accuracies) == 1
    if (is_single or is_tied(found)) and (answers := answers_of(runs, ours, theirs)) is not None:
        found = answers.difference if is_single else answers.over_images
    found = unflattered(found, ours.method, theirs.method)
    if len(seeds) < 2:
        return found
    middle = float(np.median(statistics.shared_differences(ours.accuracies, theirs.accuracies)))
    return believed(found, middle, *_sides(runs, ours, theirs))


def p_beyond_between(runs: Runs, ours: Contender, theirs: Contender, margin: float) -> float:
    """The p-value of a difference of `margin` points or more, either way, by the same test as `difference_between`.

    NaN where there is no test, or where seeds that fall out could make the difference that large.

    Args:
        runs: the runs of a suite.
        ours: the contender whose accuracies come first.
        theirs: the contender whose accuracies are subtracted.
        margin: the smallest difference that matters, in points, above zero.
    """
    one, other = ours.accuracies, theirs.accuracies
    found = difference(one, other)
    if found.n < 2 or ours.method.lost or theirs.method.lost:
        return math.nan
    if is_tied(found):
        answers = answers_of(runs, ours, theirs)
        return math.nan if answers is None else answers.p_beyond_over_images(margin)
    middle = float(np.median(statistics.shared_differences(one, other)))
    lost, won = (at_stake(*_sides(runs, ours, theirs), ahead=ahead) for ahead in (True, False))
    if lost + won > 0 and max(abs(middle - lost), abs(middle + won)) >= margin:
        return math.nan
    if one.first is None:
        return statistics.equivalence_p(one, other, margin)
    return statistics.two_stage_equivalence_p(one, other, one.first, margin)


def is_tied(found: Estimate) -> bool:
    """Tells whether all seeds differ by the same amount, other than none."""
    return found.kind == statistics.CONSTANT and math.isnan(found.p)


_OUT: WeakKeyDictionary[Runs, dict[tuple[str, str], Sides]] = WeakKeyDictionary()


def falling(runs: Runs) -> Mapping[tuple[str, str], Sides]:
    """Seeds that fall out of the others by label and network, over all T."""
    if runs not in _OUT:
        _OUT[runs] = collapses_by_label({one.method: one.accuracies for one in contenders_of(runs)})
    return _OUT[runs]


def _sides(runs: Runs, ours: Contender, theirs: Contender) -> tuple[Sides, Sides]:
    nothing = statistics.Collapses(), statistics.Collapses()
    known = falling(runs)
    one, other = (known.get((each.method.label, each.method.model), nothing) for each in (ours, theirs))
    return one, other


def with_other_images(runs: Runs, ours: Contender, theirs: Contender) -> Estimate:
    """`ours - theirs` in points, as if seeds and test images were both drawn anew; unknown if no answers were kept.

    Seeds that give no test on these test images give none on others.

    Args:
        runs: the runs of a suite.
        ours: the contender whose accuracies come first.
        theirs: the contender whose accuracies are subtracted.
    """
    answers = answers_of(runs, ours, theirs)
    if answers is None:
        return Estimate()
    return tested_as(answers.difference, difference_between(runs, ours, theirs))


def tested_as(found: Estimate, plain: Estimate) -> Estimate:
    """A difference over test images too, without limits and test where the seeds of the same pair give none.

    Args:
        found: the difference over seeds and test images.
        plain: the same over seeds.
    """
    return found.untested(plain.kind) if plain.kind in UNTESTED else found


def p_beyond_other_images(runs: Runs, ours: Contender, theirs: Contender, margin: float) -> float:
    """The same as `p_beyond_between`, over seeds and test images; NaN where there is no test on these test images.

    Args:
        runs: the runs of a suite.
        ours: the contender whose accuracies come first.
        theirs: the contender whose accuracies are subtracted.
        margin: the smallest difference that matters, in points, above zero.
    """
    answers = answers_of(runs, ours, theirs)
    if answers is None or math.isnan(p_beyond_between(runs, ours, theirs, margin)):
        return math.nan
    return answers.p_beyond(margin)


@dataclass(frozen=True)
class PairedAnswers:
    """The answers of two methods: whether each had each test image right.

    Args:
        ours, theirs: (seed, image), with the seeds that both have.
        views: so many images in a row show the same object.
        first: so many seeds are the first of two stages; None for one stage.
    """

    ours: NDArray[np.bool_]
    theirs: NDArray[np.bool_]
    views: int = 1
    first: int | None = None

    @property
    def difference(self) -> Estimate:
        """`ours - theirs` in points, as if seeds and objects were both drawn anew.

        With one seed, and where all seeds differ by the same amount, as if objects alone were: nothing is known of the
        spread of seeds.
        """
        if self._is_tied:
            return self.over_images
        found = statistics.crossed_difference(self.ours, self.theirs, views=self.views, first=self.first)
        return Estimate.of(found, 100)

    @property
    def over_images(self) -> Estimate:
        """`ours - theirs` in points, as if objects were drawn anew, with the same networks; its n is the seeds."""
        ours, theirs = (statistics.by_view(one, self.views) for one in (self.ours, self.theirs))
        found = Estimate.of(statistics.paired_samples_of_seeds(ours, theirs), 100)
        return replace(found, kind=ALIKE, n=len(self.ours))

    def p_beyond_over_images(self, margin: float) -> float:
        """The p-value of a difference of `margin` points or more, in either direction, of these networks.

        Args:
            margin: the smallest difference that matters, in points, above zero.
        """
        found = self.over_images
        error = found.half_width / float(special.ndtri((1 + statistics.CONFIDENCE) / 2))
        return float(special.ndtr((abs(found.mean) - margin) / error))

    @property
    def _is_tied(self) -> bool:
        """Tells whether all seeds, two or more, differ by the same amount, other than none."""
        apart = self.ours.sum(axis=1, dtype=np.int64) - self.theirs.sum(axis=1, dtype=np.int64)
        return len(apart) > 1 and bool((apart == apart[0]).all() and apart[0] != 0)

    def p_beyond(self, margin: float) -> float:
        """The p-value of a difference of `margin` points or more, in either direction.

        Args:
            margin: the smallest difference that matters, in points, above zero.
        """
        if self._is_tied:
            return self.p_beyond_over_images(margin)
        return statistics.crossed_equivalence_p(
            self.ours, self.theirs, margin / 100, views=self.views, first=self.first
        )


def answers_of(runs: Runs, ours: Contender, theirs: Contender) -> PairedAnswers | None:
    """The answers of both with the seeds that both have.

    None unless outcomes were kept for each of these seeds, on as many images, of which it is known which show the same
    object.

    Args:
        runs: the runs of a suite, which keep the outcomes.
        ours: the contender whose answers come first.
        theirs: the contender that it is paired with.
    """
    seeds = sorted(set(ours.accuracies) & set(theirs.accuracies))
    right = []
    for seed in seeds:
        one, other = runs.correct(ours.cells[seed]), runs.correct(theirs.cells[seed])
        if one is None or other is None:
            return None
        right.append((one, other))
    sizes = {array.size for pair in right for array in pair}
    if len(sizes) != 1 or (views := runs.views(*sizes)) is None:
        return None
    first = None if runs.first is None else sum(seed < runs.first for seed in seeds)
    return PairedAnswers(np.stack([one for one, _ in right]), np.stack([other for _, other in right]), views, first)


def assumed(differences: Iterable[Estimate]) -> list[str]:
    """A note on what t takes for granted; none where no difference is over seeds.

    Args:
        differences: the differences that are shown.
    """
    kinds = (statistics.OVER_SEEDS, statistics.OVER_SEEDS_TWO_STAGES)
    counts = [one.n for one in differences if one.kind in kinds]
    if not counts:
        return []
    unseen = 100 * statistics.Collapses(0, min(counts)).most
    seeds = wording.plural(min(counts), "seed")
    return [
        (
            f"Student's t takes differences between seeds for about normal. {seeds} without a collapse cannot exclude "
            f"that up to {unseen:.0f} % of a method's seeds collapse; seeds with another T are looked at, too."
        )
    ]


def untested(runs: Runs, differences: Iterable[Estimate]) -> list[str]:
    """Notes on pairs that t cannot judge: whose seeds all differ alike, are missing, or fall out of the others.

    Args:
        runs: the runs of a suite, whose falling seeds are named.
        differences: the differences that are shown.
    """
    found = [*differences]
    notes = []
    if count := sum(map(is_tied, found)):
        notes.append(
            f"In {wording.plural(count, 'comparison')} all seeds differ by exactly the same amount. No test is "
            "possible there; another seed makes one."
        )
    if count := sum(one.kind == ALIKE for one in found):
        notes.append(
            f"In {wording.plural(count, 'comparison')} all seeds differ by exactly the same amount. There the interval "
            "and p are over test images."
        )
    if count := sum(one.kind == MISSING for one in found):
        notes.append(
            f"{wording.plural(count, 'comparison')} cannot be tested: the side that is ahead lost seeds, which may be "
            "its bad ones."
        )
    uneven = sum(one.kind == UNEVEN for one in found)
    fallen = [
        f"{Method.of(label).title} ({out.count} of {wording.plural(out.seeds, 'seed')}, up to {out.depth:.1f} points "
        f"{way} the others)"
        for (label, _), sides in (falling(runs).items() if uneven else ())
        for out, way in zip(sides, ("below", "above"), strict=True)
        if out.count
    ]
    if uneven:
        told = f" Seeds fall out with {wording.listed(fallen, 4)}." if fallen else ""
        notes.append(
            f"{wording.plural(uneven, 'comparison')} cannot be tested, as seeds fell out of the others: "
            f"as many as may do so would undo the difference.{told}"
        )
    return notes
