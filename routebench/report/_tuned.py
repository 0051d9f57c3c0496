"""Sentences of pages on how settings were chosen, counted in records, and on a summary once for all its parts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from routebench.analysis import images_in_words, wording
from routebench.data_names import few_of, whole_name
from routebench.engine.results import SAME_DATA, PlannedTuning, Record, tuning_of
from routebench.quantities import few

NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True)
class Tuned:
    """The choice of the settings of a part.

    Args:
        data: the data set of its runs.
        tried: that of the trials; empty where `apart` tells several.
        budgets: what each configuration had, as plans tell it: `16 trials`.
        kept: what kept test images from trials, as plans tell it.
        trials: number of configurations by the digest of the trials that each was chosen from.
        untuned: number of configurations without any.
        apart: methods by what they had, in words, where that differs.
    """

    data: str
    tried: str
    budgets: tuple[str, ...]
    kept: str
    trials: Mapping[str, int]
    untuned: int
    apart: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def sentences(self) -> tuple[str, str]:
        """Two sentences for the part's own page."""
        count = sum(self.trials.values())
        of_all = f" of {count + self.untuned:,}" if self.untuned else ""
        images = "the training images" if self.tried == self.data else images_in_words(self.tried, [self.data])
        if not self.tried:
            images, other = "training images", ""
        elif self.is_foreign:
            images = f"the training images of {self.tried}"
            other = f". Images of {self._set} are not compared with the test images of {self.data}"
        else:
            images, other = f"{images} of {SAME_DATA}", ""
        names = [one if len(self.trials) == 1 else f"{one} for {number}" for one, number in self.trials.items()]
        who = f"{count:,}{of_all} configuration{'' if count == 1 and not of_all else 's'}"
        had = " or ".join(self.by_method or self.budgets)
        best = f"each has the best of {had} on held-out parts of {images}"
        return (
            f"Settings of {who} were tuned{self._budget}: {best}.",
            f"{self.kept}{other} (trials {', '.join(names)}).",
        )

    @property
    def by_method(self) -> list[str]:
        """The methods behind what they had: `48 trials (EM)`; empty where all had the same."""
        return [f"{best} ({few(names)})" for best, names in self.apart.items()]

    @property
    def is_foreign(self) -> bool:
        """Tells whether trials saw images of another set than runs are tested on."""
        return bool(self.tried) and few_of(self.data)[1] != self._set

    @property
    def _set(self) -> str:
        return few_of(self.tried)[1]

    @property
    def _budget(self) -> str:
        return "" if self.apart or len(self.budgets) > 1 else " with one budget"


def of_all(found: Sequence[Tuned], names: Mapping[tuple[str, ...], str]) -> str:
    """The sentences for a summary of several parts, without counts and digests, which the pages of parts have.

    Of what kept test images from trials, plans say more today: that is told of all.

    Args:
        found: those of all parts.
        names: the parts with these budgets, in words; empty for all parts there are.
    """
    best = [" or ".join(budgets).rstrip(",") for budgets in names]
    if len(names) > 1:
        best = [f"{text} ({where})" for text, where in zip(best, names.values(), strict=True)]
    where = next(iter(names.values())) if len(names) == 1 else ""
    several = any(len(budgets) > 1 for budgets in names) or any(one.apart for one in found)
    alike = "" if several else ", methods beside each other with one budget"
    which = f"each tuned configuration has the best of {wording.listed(best, len(best))}"
    told = [f"Settings were tuned{alike}: {which}, on held-out parts of the training images"]
    for one in found:
        if one.apart:
            told.append(f"Not all methods had the same: {' or '.join(one.by_method)}")
        if one.is_foreign:
            told.append(
                f"For {one.data} they are those of {one._set}, whose images are not compared with its test images"
            )
        elif one.tried not in ("", one.data):
            number, chosen = images_in_words(one.data, [one.tried]), images_in_words(one.tried, [one.data])
            told.append(f"Settings for {number} were chosen with {chosen}")
    told.append(max((one.kept for one in found), key=len))
    return f"{f'{where}: ' if where else ''}{'. '.join(dict.fromkeys(told))}."


def tuned_of(
    data: str, tunings: Sequence[PlannedTuning], records: Iterable[Record], apart: Mapping[str, Sequence[str]] = NONE
) -> Tuned | None:
    """The choice as plans and records of a part tell it; None where no run rests on trials.

    Args:
        data: the data set of the part.
        tunings: those of all its plans, the newest first.
        records: one of each configuration at least.
        apart: methods by what they had, in words, where that differs.
    """
    kinds = {one.identity.entry(one.label): one.identity.tuning for one in records}
    counts = Counter(str(tuning["trials"]) for tuning in kinds.values() if tuning and "trials" in tuning)
    if not tunings or not counts:
        return None
    data = whole_name(data)
    budgets = tuple(dict.fromkeys(one.best for one in tunings))
    newest, untuned = tunings[0], len(kinds) - counts.total()
    tried = "" if apart and len({one.data for one in tunings}) > 1 else newest.data or data
    return Tuned(data, tried, budgets, newest.kept, dict(counts.most_common()), untuned, apart)


def without_tuning(plan: Mapping[str, Any]) -> str:
    """The caveat of a plan without what it says of trials."""
    caveat, found = str(plan.get("caveat", "")), tuning_of(plan)
    return caveat if found is None else " ".join(caveat.replace(found.told, "").split())
