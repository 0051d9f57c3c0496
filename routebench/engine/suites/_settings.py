"""Chosen settings on disk: what every configuration is trained with, and how that was chosen."""

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from routebench.arguments import Count, Natural
from routebench.atomic import made_folder, write_text
from routebench.data_names import set_of, whole_name
from routebench.engine.results import CHANGED, SAME_DATA, Entry, Identity, PlannedTuning, checksum, digest
from routebench.engine.suites._readers import text
from routebench.engine.suites._toml import TABLE, Place, each, legal, read_table
from routebench.engine.suites._tuning import OF_METHOD, OF_MODEL, settled, values
from routebench.errors import UserError, nearest
from routebench.plain import fault_of
from routebench.quantities import plural
from routebench.received import from_json, permitted, read_plain
from routebench.recipe import LEGAL

RULE = (
    "Of every configuration the trial of which the fewest runs diverged or failed, and of these the one with the "
    "highest accuracy on held-out folds of the training images, the earlier of two that are equal. A run that diverged "
    "or failed scores chance. Only the first trials count that all configurations have. Where the best trials were "
    "repeated with other seeds, all runs of each decide among them."
)


def _point(value: Any, place: Place) -> Mapping[str, Any]:
    """Settings by name. Those of the recipe are legal; the network and the method check theirs when they are built."""
    content = dict(TABLE(value, place))
    for name, one in content.items():
        if not name.startswith((OF_MODEL, OF_METHOD)):
            if name not in LEGAL:
                raise place.below(name).wrong(f"unknown{nearest(name, LEGAL)}")
            read = legal(LEGAL[name])(one, place.below(name))
            content[name] = read if isinstance(one, str) else one  # a name with hyperparameters has one form
    return content


@dataclass(frozen=True)
class ChosenPoint:
    """The settings that a configuration is trained with.

    Args:
        method: its name in tables, but for T.
        model: its network.
        iterations: T; None where it has none.
        trial: the number of the chosen one, from 0.
        score: its accuracy in per cent, the mean over the folds that it was tried on, and over repeats.
        diverged, failed: the number of its trials that did.
        point: the settings, by name.
        trials: digest of the trials that it was chosen from, where these are not those of the whole file: a
            configuration that was chosen earlier keeps its own, and so its results.
    """

    method: Annotated[str, text("the name of a method")]
    model: Annotated[str, text("the name of a model")]
    iterations: Count | None
    trial: Natural
    score: Annotated[float, Ge(0.0), Le(100.0)]
    diverged: Natural
    failed: Natural
    point: Annotated[Mapping[str, Any], _point]
    trials: Annotated[str, text("a digest")] = ""

    @property
    def entry(self) -> Entry:
        """The facts that name the configuration in the suite."""
        return self.method, self.model, self.iterations

    @property
    def title(self) -> str:
        """`em, T = 2`, or `uniform` where there is no T."""
        return self.method if self.iterations is None else f"{self.method}, T = {self.iterations}"


@dataclass(frozen=True)
class ChosenSettings:
    """The settings of all configurations, chosen by `routebench tune`.

    Args:
        suite, suite_version, preset, data: what was tuned.
        trials: the number of trials of each configuration that count.
        planned: the number that was to be made.
        digest: digest of the keys of all trials that count.
        choices: one choice for each configuration.
        finalists, repeats: the number of trials of each configuration that were repeated, and of further seeds for
            each; 1 and 0 where one run each decided.
        fingerprint: that of the data set of whose training images trials had folds; empty in older files.
    """

    suite: Annotated[str, text("the name of a suite")]
    suite_version: Count
    preset: Annotated[str, text("the name of a preset")]
    data: Annotated[str, text("the name of a data set")]
    trials: Count
    planned: Count
    digest: Annotated[str, text("a digest")]
    choices: Annotated[Sequence[ChosenPoint], each(partial(read_table, ChosenPoint))]
    finalists: Count = 1
    repeats: Natural = 0
    fingerprint: Annotated[str, text("a fingerprint")] = ""

    @property
    def written(self) -> str:
        """Them as JSON, sealed by a checksum."""
        choices = [{key: one for key, one in asdict(choice).items() if (key, one) != ("trials", "")}
                   for choice in self.choices]  # fmt: skip
        content = {key: one for key, one in asdict(self).items() if (key, one) != ("fingerprint", "")}
        return checksum.sealed({"rule": RULE, **content, "choices": choices}) + "\n"

    def write(self, file: Path) -> None:
        """Writes them in a folder of routebench's own."""
        with made_folder(file.parent):
            write_text(file, self.written)

    @classmethod
    def read(cls, file: Path, suite: str) -> "ChosenSettings":
        """Reads the settings from a file for a suite.

        Args:
            file: its path.
            suite: name of the suite.

        Raises:
            UserError: it is missing, holds something else than `write` writes, or has changed since.
        """
        try:
            written = read_plain(permitted(file), named=True)[0].removeprefix(BOM_UTF8)
            content = from_json(written.decode())
        except OSError as error:
            way = f"`python -m routebench tune {suite}` chooses settings and writes such a file"
            raise UserError(f"settings {file}: cannot be read ({error.strerror}); {way}") from error
        except ValueError as error:
            raise UserError(f"settings {file}: expected JSON, as `routebench tune` writes it: {error}") from error
        place = Place(f"settings {file}")
        if isinstance(content, dict) and not checksum.unsealed(written.strip(), content):
            raise place.wrong(f"{CHANGED}; take it from where it was chosen, or remove its line {checksum.KEY!r}")
        if told := fault_of(content):
            raise place.wrong(told)
        found = read_table(cls, content, place, also=["rule"])
        if found.trials > found.planned:
            raise place.below("trials").wrong(f"expected at most the {found.planned} planned, got {found.trials}")
        entries = [choice.entry for choice in found.choices]
        for number, choice in enumerate(found.choices):
            if choice.trial >= found.trials:
                told = f"expected one of {plural(found.trials, 'trial')}, counted from 0, got {choice.trial}"
                raise place.below(f"choices[{number}].trial").wrong(told)
            if entries.count(choice.entry) > 1:
                raise place.wrong(f"expected one choice for {choice.title} on {choice.model}, got two")
        return found

    def told(self, data: str, planned: int = 0, now: str = "") -> PlannedTuning:
        """Tells how they were chosen, for whoever reads results on `data` that rest on them.

        Args:
            data: name of a data set.
            planned: number of configurations that run; 0 for these alone.
            now: fingerprint that the data set which was tuned on has today; empty if nobody knows.
        """
        count = len(self.choices)
        of_all = f" of {planned}" if planned > count else ""
        kept = (
            "Trials are given folds of training images, and their code is refused test images, unless it reads files "
            "itself"
        )
        same = self.data == whole_name(data)
        facts = PlannedTuning(
            "" if same else self.data, self.trials, self.planned, self.finalists, self.repeats, kept, told=""
        )
        foreign = set_of(self.data) != set_of(data)
        other = f"; images of {self.data} are not compared with the test images here" if foreign else ""
        told = (
            f"Settings of {count}{of_all} configurations were tuned with one budget: each has the best of "
            f"{facts.best} on held-out parts of the training images of {facts.data or SAME_DATA}. "
            f"{kept}{other} (trials {', '.join(self._digests)})."
        )
        if now and self.fingerprint and now != self.fingerprint:
            told += (
                f" {self.data} has changed since ({self.fingerprint} then, {now} now): test images may be among those "
                "that settings were chosen by."
            )
        return replace(facts, told=told)

    @property
    def _digests(self) -> list[str]:
        """Digests of the sets of trials; with several, the number of configurations that each chose."""
        counts = Counter(choice.trials or self.digest for choice in self.choices)
        return [*counts] if len(counts) == 1 else [f"{name} for {count}" for name, count in counts.most_common()]

    def as_before(self, earlier: "ChosenSettings") -> "ChosenSettings":
        """The same settings, in which each choice that an earlier file has too names the trials of that file.

        So the results that rest on it keep their keys when configurations are added or tuned again.

        Args:
            earlier: settings of the same suite, preset, data and number of trials; of others, none counts.
        """
        rule = ("suite", "suite_version", "preset", "data", "trials", "finalists", "repeats")
        if any(getattr(self, name) != getattr(earlier, name) for name in rule):
            return self
        return replace(self, choices=tuple(self._as_before(choice, earlier) for choice in self.choices))

    def _as_before(self, choice: ChosenPoint, earlier: "ChosenSettings") -> ChosenPoint:
        then = earlier.choices if not choice.trials else ()
        same = next((one for one in then if replace(one, trials="") == choice), None)
        trials = choice.trials if same is None else same.trials or earlier.digest
        return replace(choice, trials="" if trials == self.digest else trials)

    def of(self, identity: Identity, label: str) -> ChosenPoint | None:
        """The point chosen for a configuration that tables name `label`; None if nothing was chosen.

        Args:
            identity: a run of the configuration.
            label: its label.
        """
        wanted = label, identity.model, identity.iterations
        return next((choice for choice in self.choices if choice.entry == wanted), None)

    def apply(self, identity: Identity, label: str, fixed: Collection[str] = ()) -> Identity | None:
        """The identity with the settings that were chosen for its configuration.

        Args:
            identity: identity of the configuration.
            label: the method's name in tables.
            fixed: names of hyperparameters that suite or user set.

        Returns:
            None if nothing was chosen for it, or something else than what is set.
        """
        chosen = self.of(identity, label)
        if chosen is None or any(chosen.point.get(name, value) != value for name, value in values(identity, fixed)):
            return None
        return replace(settled(identity, chosen.point), tuning=self.tuning_of(identity, label))

    def tuning_of(self, identity: Identity, label: str) -> dict[str, Any] | None:
        """The tuning of a configuration, as its identity tells it; None if nothing was chosen for it.

        Args:
            identity: identity of the configuration.
            label: the method's name in tables.
        """
        if (chosen := self.of(identity, label)) is None:
            return None
        return {"point": dict(chosen.point), "score": chosen.score, "trials": chosen.trials or self.digest}


def digest_of(keys: Sequence[str]) -> str:
    """The digest of trials, whatever their order."""
    return digest({"trials": sorted(keys)})
