"""Runs on several data sets: which sets are the same, which differ in the number of training images alone."""

from collections.abc import Callable, Hashable, Iterable

from routebench.analysis._runs import Runs
from routebench.data_names import few_of, items_of


def data_sets_of(parts: Iterable[Runs]) -> dict[Runs, str]:
    """The name of each part's data set.

    Some images of a set are no further data set, nor are few that train, nor other features of the same images, nor a
    copy by another name: the test images are the same, or some of the same.
    """
    known = {runs: items_of(runs.data)[0] for runs in parts}
    of_images: dict[str, set[str]] = {}
    for runs, name in known.items():
        of_images.setdefault(runs.fingerprint or name, set()).add(name)
    return {
        runs: min(set().union(*(names for names in of_images.values() if name in names)))
        for runs, name in known.items()
    }


def across_data(parts: Iterable[Runs]) -> list[tuple[Runs, ...]]:
    """Groups of runs that differ only in the data set, with at least two data sets, sorted by name.

    One part stands for each set: that on all its images, if there is one.
    """
    groups: dict[tuple[str, ...], dict[str, Runs]] = {}
    by_worth = sorted(parts, key=lambda one: (few_of(one.data)[0] is not None, one.data != items_of(one.data)[0]))
    for runs, name in data_sets_of(by_worth).items():
        groups.setdefault((runs.suite, runs.preset, runs.model, runs.protocol), {}).setdefault(name, runs)
    return [tuple(group[data] for data in sorted(group)) for group in groups.values() if len(group) > 1]


def images_in_words(data: str, beside: Iterable[str]) -> str:
    """`5,000 training images`, `all training images`, where data sets differ in the number of these alone.

    Args:
        data: the name of a data set.
        beside: the names of all that are to be told apart.

    Returns:
        the name itself, where others are another set.
    """
    every = {*beside, data}
    if len(every) < 2 or len({few_of(one)[1] for one in every}) > 1:
        return data
    count = few_of(data)[0]
    return f"{'all' if count is None else f'{count:,}'} training images"


def highest_tiers(parts: Iterable[Runs], group: Callable[[Runs], Hashable]) -> dict[Hashable, int]:
    """The highest tier of the presets in each group of parts.

    Args:
        parts: runs of any suites.
        group: what a part belongs to.

    Returns:
        group to tier. The presets of a user have the tier of `full`.
    """
    best: dict[Hashable, int] = {}
    for runs in parts:
        best[group(runs)] = max(best.get(group(runs), runs.strength.tier), runs.strength.tier)
    return best
