"""The origins of the numbers of a report: recipe, data, seeds, machine and the command that repeats them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from routebench.analysis import Method, wording
from routebench.analysis._runs import Runs
from routebench.analysis.cost import measured_elsewhere
from routebench.catalogue import RECIPE_PARTS, idle_settings, raised_within, registered_data, shipped_version
from routebench.engine.results import Identity, PlannedTuning, Record, exact_bytes, tuning_of
from routebench.registry import protocols
from routebench.report._repeating import command_of, finished
from routebench.report._tuned import Tuned, tuned_of, without_tuning

SELECTION = {
    "last": "the weights of the last epoch; nothing was selected",
    "held-out": "the epoch that was best on the held-out part of the training data",
}
NAMES = {
    "optimiser": "optimizer",
    "tf32": "TF32",
    "gpu": "GPU",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "dirty": "uncommitted changes",
    "dirty_hash": "hash of uncommitted changes",
    "threads": "CPU threads",
    "deterministic": "deterministic algorithms",
    "backend": "back end asked for",
    "backends": "back ends that routed",
}
METHOD, MODEL = "method.", "model."
"""Beginnings of the names of tuned settings that are no training settings."""
OWN = "own hyperparameters"
CODE = "code"
"""The name of the hash of the files of a run's own parts."""
NONE = "–"
HIDDEN = {"package_hash", "command", "seconds", "finished", "started", "data_fingerprint", "hostname", "argv"}


@dataclass(frozen=True)
class Fact:
    """A fact about all runs: one value, or the distinct values if they differ (`mixed`)."""

    name: str
    value: str
    mixed: bool = False


@dataclass(frozen=True)
class Differing:
    """Training settings that differ between methods: gains are then not due to routing alone.

    Args:
        names: the names of settings.
        rows: methods with the same values, and these, in the order of `names`.
        subject: how a sentence about them begins.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    subject: str

    @property
    def caveat(self) -> tuple[str, ...]:
        """A sentence that names them, if there are any."""
        return (f"{self.subject}: {wording.listed([*self.names], 9)}.",) if self.names else ()


@dataclass(frozen=True)
class Origins:
    """The origins of the runs of one part.

    Args:
        made: data, seeds, selection, budget, in words.
        recipe: the training settings, as a suite file would have them; without epochs where nothing was trained.
        provenance: commit, versions, machine.
        command: repeats the numbers.
        besides: what the command names beyond these numbers; empty if nothing.
        warnings: mixtures that should not be, such as of commits.
        told: what the suite's author warns of, what was not tuned, and what could not be measured or is left out, a
            sentence each.
        tuned: how settings were chosen; None where none were.
        settings: that differ between methods.
    """

    made: tuple[Fact, ...]
    recipe: tuple[Fact, ...]
    provenance: tuple[Fact, ...]
    command: str
    besides: str
    warnings: tuple[str, ...]
    told: tuple[str, ...]
    tuned: Tuned | None
    settings: Differing

    @property
    def caveats(self) -> tuple[str, ...]:
        """Everything that weakens a comparison of methods, a sentence each."""
        return (*self.told, *(self.tuned.sentences if self.tuned else ()), *self.settings.caveat)


def origins_of(runs: Runs, plan: Mapping[str, Any], records: list[Record], test_samples: int | None) -> Origins:
    """Collects the origins from the records of a part, failed runs included.

    Args:
        runs: the runs of the part.
        plan: the newest plan of the part.
        records: its records.
        test_samples: number of test images; None where it is unknown.
    """
    identities = [record.identity for record in records]
    kinds = {exact_bytes({**record.provenance, **dict.fromkeys(HIDDEN)}): record.provenance for record in records}
    several = _of_several_codes(records)
    facts = _facts(_flat(_with_commit(kind)) for kind in kinds.values())
    provenance = tuple(replace(fact, mixed=bool(several)) if fact.name == CODE else fact for fact in facts)
    recipe = _facts(record.identity.training for record in _configurations(records))
    if not _trains(runs):
        recipe = tuple(fact for fact in recipe if fact.name != "epochs")
    command, besides = command_of(runs, plan, records)
    return Origins(
        made=_made(runs, str(plan.get("taken", "")), identities, records, test_samples),
        recipe=recipe,
        provenance=provenance,
        command=command,
        besides=besides,
        warnings=(*_warnings(identities, provenance, several), *_doubts(records)),
        told=(
            *_told(without_tuning(plan), runs, records),
            *_superseded(plan),
            *_added(plan),
            *_margins(plan),
            *_changed_pairs(plan),
            *runs.not_measured,
            *measured_elsewhere(runs),
        ),
        tuned=tuned_of(runs.data, _tunings(plan), _configurations(records), plan.get("budgets", {})),
        settings=_differing(records),
    )


def _tunings(plan: Mapping[str, Any]) -> Sequence[PlannedTuning]:
    """The choices of settings of all plans of a part; of the plan alone where no folder was read."""
    return plan["tunings"] if "tunings" in plan else [*filter(None, [tuning_of(plan)])]


def lines_of(runs: Runs, plan: Mapping[str, Any], origins: Origins) -> list[str]:
    """Lines for the comment above a table: suite, data, code, machine, command.

    Args:
        runs: the runs of the part.
        plan: the newest plan of the part.
        origins: as `origins_of` gives them.
    """
    facts = [*origins.made, *origins.recipe, *origins.provenance]
    lines = [
        f"suite: {runs.suite}, version {plan.get('suite_version', 'unknown')}, preset {runs.preset}",
        f"question: {plan.get('question', '')}",
        *(f"{fact.name}: {fact.value}" for fact in facts),
        *(f"warning: {warning}" for warning in origins.warnings),
        f"made by: {origins.command}",
    ]
    return [" ".join(line.split()) for line in lines]


def _made(
    runs: Runs, taken: str, identities: list[Identity], records: list[Record], test_samples: int | None
) -> tuple[Fact, ...]:
    fingerprints = sorted({identity.data_fingerprint for identity in identities})
    trainings = [identity.training for identity in identities]
    selections = sorted({str(training["selection"]) for training in trainings if "selection" in training})
    seeds = sorted({int(seed) for seed in runs.planned["seed"]})
    seconds = sum(float(record.provenance.get("seconds") or 0) for record in records)
    ended = sorted(filter(None, map(finished, records)))
    facts = [
        Fact("data set", f"{runs.data}, fingerprint {', '.join(fingerprints) or 'unknown'}", len(fingerprints) > 1)
    ]
    if taken:
        facts.append(Fact("images taken", taken))
    if _trains(runs):
        if test_samples:
            facts.append(Fact("test images", f"{test_samples:,}, never trained on and never used to select"))
        weights = "; ".join(SELECTION.get(rule, rule) for rule in selections) or "unknown"
        facts.append(Fact("weights tested", weights))
    facts += [
        Fact("seeds", f"{', '.join(map(str, seeds))}: each fixes initial weights, batch order and augmentation"),
        Fact("network", f"{runs.model}; baselines may have their own, see the table"),
        Fact("compute", f"{seconds / 60:.1f} minutes in all" if seconds else "unknown"),
    ]
    if ended:
        facts.append(Fact("measured", f"{ended[0]} to {ended[-1]}"))
    return tuple(facts)


def _trains(runs: Runs) -> bool:
    """Tells whether weights were trained. Asks the protocol only if no record has epochs, because it imports torch."""
    if "epoch" in runs.results and runs.results["epoch"].notna().any():
        return True
    return runs.protocol not in protocols or bool(getattr(protocols[runs.protocol], "trains", True))


def _with_commit(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """Provenance, with a note if the code was in no repository, where uncommitted changes are unknown."""
    if provenance.get("commit") or "commit" not in provenance:
        return provenance
    version = provenance.get("versions", {}).get("routebench")
    package = f"installed package {version}" if version else "no repository"
    source = f", source {provenance['package_hash']}" if provenance.get("package_hash") else ""
    return {**provenance, "commit": f"unknown ({package}{source})", "dirty": None}


def _flat(provenance: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in provenance.items():
        flat.update(value if isinstance(value, Mapping) else {key: value})
    return flat


def _facts(dictionaries: Iterable[Mapping[str, Any]]) -> tuple[Fact, ...]:
    """One fact per key, with its distinct values, in the order of first appearance."""
    values: dict[str, dict[str, None]] = {}
    for dictionary in dictionaries:
        for key, value in dictionary.items():
            if key not in HIDDEN and value not in (None, "", [], ()):
                values.setdefault(str(key), {})[_text(value)] = None
    return tuple(Fact(_title(key), "; ".join(seen), len(seen) > 1) for key, seen in values.items())


def _title(key: str) -> str:
    """The name of a fact or setting, in words."""
    return NAMES.get(key, key.replace("_", " "))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _told(told: str, runs: Runs, records: list[Record]) -> Iterator[str]:
    """The caveats that the plan tells, a sentence each; then what was not tuned."""
    yield from wording.sentences(told)
    methods = {_method_of(record): record.identity.tuning is None for record in _configurations(records)}
    if not all(methods.values()) and any(methods.values()):
        untuned = _titles([method for method, is_untuned in methods.items() if is_untuned], methods)
        yield f"Not tuned, but trained with the suite's defaults: {wording.listed(untuned, 8)}."
    if added := dict.fromkeys(runs.methods[cell] for cell in runs.values("added_loss")["cell"].unique()):
        adding = wording.listed(_titles(added, methods), 8)
        yield f"Methods with a loss of their own, added to that of the suite: {adding}."
    older = dict.fromkeys(part for record in records for part in _older(record.identity))
    if older:
        yield f"Measured with an older version of {wording.listed([*older], 8)}; a run of today measures it anew."
    unknown = sum(_is_of_own_code(record.identity) for record in records)
    if unknown:
        count = wording.plural(unknown, "run")
        yield f"The code of {count} of {len(records)} is not known to be that of today's versions."


def _superseded(plan: Mapping[str, Any]) -> Iterator[str]:
    """Tells of results in the folder that count no longer, as newer plans have given their place to others."""
    if counts := plan.get("superseded", {}):
        told = f"{wording.plural(sum(counts.values()), 'result')} of other code, options or training"
        yield f"Not counted, as newer plans have taken their place: {told}, of {wording.listed([*counts], 8)}."


def _added(plan: Mapping[str, Any]) -> Iterator[str]:
    """Tells that seeds were added after a first look, for which no interval makes up."""
    if count := plan.get("added", 0):
        yield (
            f"Seeds were added to {wording.plural(count, 'configuration')} when their first runs had ended. Intervals "
            "treat all seeds as planned at once: they are too narrow if results decided that seeds are added."
        )


def _margins(plan: Mapping[str, Any]) -> Iterator[str]:
    """Tells that the margin of pre-specified comparisons was another before results were there."""
    if before := plan.get("margins", ()):
        told = " and ".join(f"{margin:g}" for margin in before)
        yield (
            f"The margin of pre-specified comparisons is {plan['primary']['margin']:g} points; earlier plans had {told}"
            ", and runs had ended when it was changed. What it decides was not specified beforehand."
        )


def _changed_pairs(plan: Mapping[str, Any]) -> Iterator[str]:
    """Tells of comparisons that were named, or are named no longer, since results were there."""
    told = {
        "late": "No plan had pre-specified {} when runs of both had ended: what is decided there was not "
        "specified beforehand",
        "dropped": "An earlier plan pre-specified {}, and the newest does not, though runs of both had ended: p is "
        "corrected over fewer comparisons than were specified beforehand",
    }
    for key, words in told.items():
        if pairs := plan.get(key, ()):
            yield f"{words.format(wording.listed(pairs, 8))}."


def _parts_of(known: Identity) -> Iterator[tuple[str, str, int | None]]:
    """Kind and name of each part, and its version now; None if it does not ship."""
    named = {"model": known.model, "protocol": known.protocol, **({"method": known.method} if known.routed else {})}
    named |= {kind: str(known.training[kind]) for kind in RECIPE_PARTS if kind in known.training}
    for kind, name in named.items():
        yield kind, name, shipped_version(kind, name)
    for option, versions in raised_within("model", known.model).items():
        if (value := str(known.model_params.get(option))) in versions:
            yield option, value, versions[value]
    for kind, versions in raised_within("protocol", known.protocol).items():
        for name in versions.keys() & set(known.options.get(f"{kind}s") or ()):
            yield f"{kind} {name}", "", versions[name]


def _older(known: Identity) -> Iterator[str]:
    """The parts of a run that have a newer version now, in words."""
    data = registered_data(known.data)
    for kind, name, now in (*_parts_of(known), ("data", data, shipped_version("data", data))):
        then = (known.versions or {}).get(kind, 1)
        if known.source is None and now is not None and then < now:
            yield f"{f'{kind} {name}'.strip()} ({then}, now {now})"


def _is_of_own_code(known: Identity) -> bool:
    """Tells whether all parts ship, and yet a hash of code stands in place of their versions."""
    return known.source is not None and all(now is not None for _, _, now in _parts_of(known))


def _differing(records: list[Record]) -> Differing:
    used: dict[Method, dict[str, dict[str, None]]] = {}
    chosen: set[str] = set()
    for record in _configurations(records):
        training, tuned, own = record.identity.training, _tuned(record), used.setdefault(_method_of(record), {})
        idle = idle_settings(str(training.get("schedule")))
        told = {key: _rounded(_text(value)) for key, value in training.items() if key not in idle}
        options = {} if record.identity.is_trial else record.identity.options  # which all runs of one plan share
        for key, value in {**dict(zip(options, map(_text, options.values()), strict=True)), **told, **tuned}.items():
            own.setdefault(key, {})[value] = None
        chosen |= tuned.keys()
    keys = list(dict.fromkeys(key for own in used.values() for key in own))
    missing = {key: (NONE,) if key in chosen else () for key in keys}  # what a schedule does without is no difference
    names = [key for key in keys if len({value for own in used.values() for value in own.get(key, missing[key])}) > 1]
    groups: dict[tuple[str, ...], list[Method]] = {}
    for method, own in used.items():
        groups.setdefault(tuple("; ".join(own.get(name, (NONE,))) for name in names), []).append(method)
    rows = tuple((", ".join(_titles(methods, used)), values) for values, methods in groups.items())
    routed = any(record.identity.routed for record in records)
    subject = "Methods differ in more than routing" if routed else "Models differ in more than their kind"
    return Differing(tuple(map(_title, names)), rows if names else (), subject)


def _configurations(records: Iterable[Record]) -> Iterable[Record]:
    """One record of each method with each settings: there may be many, and those of a folder share these tables."""
    known: dict[object, Record] = {}
    for record in records:
        own = record.identity
        settings = (own.training, own.tuning, own.options)
        known.setdefault((record.label, own.iterations, *map(id, settings)), record)
    return known.values()


def _tuned(record: Record) -> dict[str, str]:
    """Choices of trials besides training: arguments of the network, and the method's hyperparameters as one text."""
    point = (record.identity.tuning or {}).get("point", {})
    told = {key: _rounded(_text(value)) for key, value in point.items()}
    own = [f"{key.removeprefix(METHOD).replace('_', ' ')} {told[key]}" for key in told if key.startswith(METHOD)]
    network = {key.removeprefix(MODEL): value for key, value in told.items() if key.startswith(MODEL)}
    return {**network, OWN: ", ".join(own)} if own else network


def _rounded(value: str) -> str:
    """Three digits of a decimal number: the table of settings has all of them."""
    return f"{float(value):.3g}" if re.fullmatch(r"\d*\.\d+(e-?\d+)?", value) else value


def _method_of(record: Record) -> Method:
    return Method.of(record.label, record.identity.iterations)


def _titles(methods: Iterable[Method], known: Iterable[Method]) -> list[str]:
    """Names of methods: without T where all known T of a method are among them."""
    ours = [*methods]
    several = {one.label for one in known if one not in ours}
    return [*dict.fromkeys(str(one) if one.label in several else one.title for one in ours)]


def _doubts(records: Iterable[Record]) -> Iterator[str]:
    """A sentence on each method whose answers to some test images are others in another order of these images."""
    worst: dict[str, Mapping[str, int]] = {}
    for record in records:
        found = record.shuffled or {}
        if found.get("answers", 0) > worst.get(record.label, {}).get("answers", 0):
            worst[record.label] = found
    for label, found in worst.items():
        again = found.get("again", 0)
        same = f"; so do those to {again} if it is asked twice in the same order" if again else ""
        yield (
            f"Doubtful: answers of {label} to {found['answers']} of {found.get('images', 0)} test images change when "
            f"these are shuffled, so that they do not come from the image alone{same}."
        )


def _of_several_codes(records: Iterable[Record]) -> list[str]:
    """Methods of which runs of the same parts had different code. Other parts are other files, and no mixture."""
    codes: dict[object, dict[str, str]] = {}
    for record in records:
        own = record.identity
        settings = (own.training, own.model_params, own.method_params, own.options)
        named = frozenset((*one,) for part in settings for one in part.items() if isinstance(one[1], str))
        if code := record.provenance.get("code"):
            codes.setdefault((own.method, own.model, own.protocol, named), {})[str(code)] = _method_of(record).title
    return list(dict.fromkeys(title for own in codes.values() if len(own) > 1 for title in own.values()))


def _warnings(identities: list[Identity], provenance: Iterable[Fact], several: Sequence[str]) -> tuple[str, ...]:
    versions = sorted({str(identity.suite_version) for identity in identities})
    warnings = [f"Versions {wording.listed(versions)} of the suite are mixed here."] if len(versions) > 1 else []
    if several:
        warnings.append(f"Runs of one method differ in code: {wording.listed(several)}.")
    for fact in provenance:
        if fact.mixed and fact.name not in (CODE, NAMES["backends"]):  # each back end was checked against the reference
            warnings.append(f"The runs differ in {fact.name}: {fact.value}.")
        if fact.name == NAMES["dirty"] and "yes" in fact.value:
            warnings.append("The code had uncommitted changes, so the commit alone does not give these numbers.")
    return tuple(warnings)
