"""What pages say of how settings were chosen: counted in the records, and on a summary once for parts that share it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from routebench.analysis import few_of, images_in_words, wording
from routebench.engine.results import Record

SAME = "the same data set"
TAKEN = re.compile(r"take:\d+:")
"""The beginning of the name of a data set of which not all images are taken."""
TOLD = re.compile(
    r"Settings of \S+(?: of \S+)? configurations were tuned with one budget: each has the best of (?P<best>.+?) on "
    rf"held-out parts of the training images of (?P<data>{SAME}|\S+)\. (?P<kept>.+?)"
    r"(?:; images of \S+ are not compared with the test images here)? \(trials .+?\)\."
)
"""The sentences of a plan, which knows neither other plans of a part nor other parts of a folder."""


@dataclass(frozen=True)
class Tuned:
    """How the settings of a part were chosen.

    Args:
        data: the data set of its runs.
        tried: that of the trials.
        budgets: what each configuration had, as plans tell it: `16 trials`.
        kept: what kept test images from trials, as plans tell it.
        trials: number of configurations by the digest of the trials that each was chosen from.
        untuned: number of configurations without any.
    """

    data: str
    tried: str
    budgets: tuple[str, ...]
    kept: str
    trials: Mapping[str, int]
    untuned: int

    @property
    def sentences(self) -> tuple[str, str]:
        """Two sentences for the part's own page."""
        count = sum(self.trials.values())
        of_all = f" of {count + self.untuned:,}" if self.untuned else ""
        images = "the training images" if self.tried == self.data else images_in_words(self.tried, [self.data])
        if self.is_foreign:
            images, other = f"the training images of {self.tried}", f". {self._uncompared([self.data])}"
        else:
            images, other = f"{images} of {SAME}", ""
        names = [one if len(self.trials) == 1 else f"{one} for {number}" for one, number in self.trials.items()]
        who = f"{count:,}{of_all} configuration{'' if count == 1 and not of_all else 's'}"
        best = f"each has the best of {' or '.join(self.budgets)} on held-out parts of {images}"
        return (
            f"Settings of {who} were tuned{self._budget}: {best}.",
            f"{self.kept}{other} (trials {', '.join(names)}).",
        )

    def among(self, every: Iterable["Tuned"]) -> tuple[str, ...]:
        """The sentences for a summary, the same for all parts whose trials saw one data set.

        Of what kept test images from trials, plans say more today: that is told of all.

        Args:
            every: those of all parts of the summary.
        """
        every = [*every]
        alike = [one for one in every if (one.budgets, one._set) == (self.budgets, self._set)]
        foreign = [*dict.fromkeys(one.data for one in alike if one.is_foreign)]
        fewer = [one for one in alike if not one.is_foreign and one.tried != one.data]
        told = [
            f"Settings for {images_in_words(one.data, [one.tried])} were chosen with "
            f"{images_in_words(one.tried, [one.data])}."
            for one in fewer
        ]
        best = f"each tuned configuration has the best of {' or '.join(self.budgets)}"
        where = f"on held-out parts of the training images of {self._set if foreign else SAME}"
        return (
            f"Settings were tuned{self._budget}: {best} {where}.",
            *dict.fromkeys(told),
            f"{max((one.kept for one in every), key=len)}.",
            *([f"{self._uncompared(foreign)}."] if foreign else []),
        )

    @property
    def is_foreign(self) -> bool:
        """Tells whether trials saw images of another set than runs are tested on."""
        return few_of(self.data)[1] != self._set

    @property
    def _set(self) -> str:
        return few_of(self.tried)[1]

    @property
    def _budget(self) -> str:
        return " with one budget" if len(self.budgets) == 1 else ""

    def _uncompared(self, foreign: Sequence[str]) -> str:
        return f"Images of {self._set} are not compared with the test images of {wording.listed(foreign)}"


def tuned_of(data: str, caveats: Iterable[str], records: Iterable[Record]) -> Tuned | None:
    """What plans and records of a part say of trials; None where no run rests on any.

    Args:
        data: the data set of the part.
        caveats: those of all its plans, the newest first.
        records: one of each configuration at least.
    """
    found = [one for caveat in caveats if (one := TOLD.search(caveat))]
    kinds = {(one.label, one.identity.model, one.identity.iterations): one.identity.tuning for one in records}
    counts = Counter(str(tuning["trials"]) for tuning in kinds.values() if tuning and "trials" in tuning)
    if not found or not counts:
        return None
    data = data[begin.end() :] if (begin := TAKEN.match(data)) else data
    tried = data if found[0]["data"] == SAME else found[0]["data"]
    budgets = tuple(dict.fromkeys(one["best"] for one in found))
    return Tuned(data, tried, budgets, found[0]["kept"], dict(counts.most_common()), len(kinds) - counts.total())


def without_tuning(caveat: str) -> str:
    """The caveat of a plan without what it says of trials."""
    return " ".join(TOLD.sub("", caveat).split())
