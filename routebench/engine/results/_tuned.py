"""The choice of settings that a plan's runs rest on, as facts of the plan."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SAME_DATA = "the same data set"
OLD = re.compile(
    r"Settings of \S+(?: of \S+)? configurations were tuned with one budget: each has the best of "
    r"(?P<trials>\d+)(?: of (?P<planned>\d+) planned)? trials"
    r"(?:, the best (?P<finalists>\d+) of which ran again with (?:another seed|(?P<repeats>\d+) other seeds),)? on "
    rf"held-out parts of the training images of (?P<data>{SAME_DATA}|\S+)\. (?P<kept>.+?)"
    r"(?:; images of \S+ are not compared with the test images here)? \(trials .+?\)\."
)
"""The sentences of plans that were written before plans had the field `tuned`. Their records name the digest of the
trials, the point and the score alone, and the trials are often in no folder: the rest is in these words only."""


@dataclass(frozen=True)
class PlannedTuning:
    """The facts in a plan's field `tuned`.

    Args:
        data: the data set of the trials; empty for that of the runs.
        trials: the number of trials of each configuration that count.
        planned: the number that was to be made.
        finalists, repeats: the number of trials that were repeated, and of further seeds for each; 1 and 0 for none.
        kept: what kept test images from trials, a sentence without its end.
        told: the sentences of the plan's caveat that tell all this.
    """

    data: str
    trials: int
    planned: int
    finalists: int
    repeats: int
    kept: str
    told: str

    @property
    def best(self) -> str:
        """`16 trials`, what each configuration has the best of."""
        short = f" of {self.planned} planned" if self.trials < self.planned else ""
        if not self.repeats:
            return f"{self.trials}{short} trials"
        seeds = "another seed" if self.repeats == 1 else f"{self.repeats} other seeds"
        return f"{self.trials}{short} trials, the best {self.finalists} of which ran again with {seeds},"

    def as_dict(self) -> dict[str, Any]:
        """Its form in a plan."""
        return asdict(self)


def tuning_of(plan: Mapping[str, Any]) -> PlannedTuning | None:
    """The choice of settings that a plan tells; None where its runs rest on none."""
    if "tuned" in plan:
        return PlannedTuning(**{name: plan["tuned"][name] for name in PlannedTuning.__dataclass_fields__})
    found = OLD.search(str(plan.get("caveat", "")))
    if found is None:
        return None
    trials, finalists = int(found["trials"]), int(found["finalists"] or 1)
    return PlannedTuning(
        data="" if found["data"] == SAME_DATA else found["data"],
        trials=trials,
        planned=int(found["planned"] or trials),
        finalists=finalists,
        repeats=int(found["repeats"] or 1) if finalists > 1 else 0,
        kept=found["kept"],
        told=found[0],
    )
