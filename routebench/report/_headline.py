"""Turns decisions into sentences: the title of a page, and the lines that a terminal prints."""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from pandas import DataFrame

from routebench.analysis import Analysis, Estimate, Method, Runs, Verdict, wording
from routebench.analysis._estimate import UNEVEN
from routebench.analysis._method import STAR
from routebench.analysis._result import place_of, reads
from routebench.analysis._verdicts import GAINS, LOSSES, NOT_DECIDED
from routebench.analysis.named import is_over_first, named_table, on_these_images_alone, over_first
from routebench.registry import analyses
from routebench.report._asking import ask
from routebench.report._caveats import NAMED, caveats_of, finished
from routebench.report._decisions import Decisions, Gain, Leader
from routebench.statistics import BY_SAMPLE, CONSTANT, ONE_VALUE, OVER_SAMPLES

UNIFORM = "uniform routing"
ONE_SEED = "Over the test images of one seed"
VERDICTS = ("verdict", "both_verdict")


@dataclass(frozen=True)
class Headline:
    """The first sentences of a report about a suite.

    Args:
        title: one sentence that answers the suite's question.
        said: further sentences.
        caveats: limits of the answer.
    """

    title: str
    said: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.title, *self.said, *self.caveats))


def headline_of(runs: Runs, known: Mapping[str, Analysis] | None = None) -> Headline | None:
    """The headline of a suite: without accuracies, the first analysis's reading; None if that only asks, or is missing.

    Args:
        runs: the runs of the suite.
        known: results of its analyses by name, if they ran already.
    """
    if not runs.strength.judges:
        return Headline(f"{_ran(runs)}{finished(runs)} A smoke run says nothing about methods.")
    if runs.protocol not in ("accuracy", ""):
        return _from_reading(runs, known)
    found = Decisions.of(runs)
    if found.leader is None:
        return Headline("Nothing was measured yet.", caveats=(finished(runs),))
    if found.measured == 1 and not found.leader.method.same:
        return Headline(
            f"Only {found.leader.method} has finished: nothing can be compared yet.",
            (_reached(found.leader),),
            caveats_of(runs, found.comparison),
        )
    named = named_table(runs)
    if not named.empty and not found.yours and not found.absent:
        told = _of_named(named, over_first(runs), found.leader, _tuned_by_t(runs))
        return Headline(*told, caveats_of(runs, found.comparison))
    return Headline(_title(found), (*_about(found), *_leads(found, found.leader)), caveats_of(runs, found.comparison))


def first_analysis(protocol: str) -> Callable[[Runs], Analysis | None] | None:
    """The first of a protocol's own analyses in the order of its report."""
    own = (analyses[name] for name in analyses if getattr(analyses[name], "protocol", "") == protocol != "")
    return min((analysis for analysis in own if reads(analysis, protocol)), key=place_of, default=None)


def _ran(runs: Runs) -> str:
    """Names the user's methods that finished, and those without any result; empty without any."""
    own = [method for method in dict.fromkeys(runs.methods.values()) if method.yours]
    ran = dict.fromkeys(str(method.family) for method in own if method.finished)
    lost = dict.fromkeys(name for method in own if (name := str(method.family)) not in ran)
    told = f"{wording.listed([*ran], NAMED)} ran. " if ran else ""
    return f"{told}No result: {wording.listed([*lost], NAMED)}. " if lost else told


def _with_seeds(gain: Estimate) -> str:
    """The number of seeds of a difference, in words."""
    return (
        " with the one seed of both"
        if gain.kind in (*BY_SAMPLE, ONE_VALUE) or gain.n == 1
        else f" with each of the {gain.n} seeds of both"
    )


def gain_in_words(subject: object, gain: Estimate, lost: int = 0, base: str = UNIFORM) -> str:
    """`EM, T = 1 is 1.6 points above uniform routing [+1.3, +1.9], significant after correction (p < 0.001)`.

    Without significance: `EM, T = 2 does not differ significantly from uniform routing: 0 points [−8, +8] ...`.

    Args:
        subject: as the sentence names the method.
        gain: over the baseline.
        lost: how many of the method's seeds ended without a result.
        base: the baseline's name.
    """
    if gain.low == gain.high == 0 and gain.verdict is not Verdict.UNTESTABLE:
        return f"{subject} is as accurate as {base}{_with_seeds(gain)}"
    interval = f" {wording.between(gain.low, gain.high)}" if gain.has_limits and gain.low < gain.high else ""
    p_value = "" if math.isnan(gain.p_holm) else f"p {wording.probability(gain.p_holm)} after correction"
    if gain.verdict in (Verdict.BETTER, Verdict.WORSE):
        size, way = wording.rounded(abs(gain.mean), gain.half_width), "above" if gain.mean >= 0 else "below"
        alone = f" {ONE_SEED.lower()}" if gain.kind in BY_SAMPLE else ""
        return f"{subject} is {size} points {way} {base}{interval}, significant{alone} ({p_value})"
    size = wording.rounded(gain.mean, gain.half_width, sign=True)
    if gain.verdict is Verdict.UNTESTABLE and lost:
        left = f"{size} points against {base}{interval}{_with_seeds(gain)}"
        return (
            f"{subject} lost {wording.plural(lost, 'seed')}, which may be its bad ones, so that no test is made: {left}"
        )
    if gain.verdict is Verdict.UNTESTABLE:
        return f"{subject} cannot be tested against {base}: {size} points{interval}"
    return f"{subject} does not differ significantly from {base}: {size} points{interval} ({p_value})"


def _gained(gain: Gain) -> str:
    return gain_in_words(gain.method, gain.estimate, len(gain.method.lost))


def _from_reading(runs: Runs, known: Mapping[str, Analysis] | None) -> Headline | None:
    analysis = first_analysis(runs.protocol)
    if analysis is None or known is None:
        found = None if analysis is None else ask(analysis, "headline", runs)
    else:
        found = next((known[name] for name in known if analyses[name] is analysis), None)
    told = wording.sentences(found.reading) if isinstance(found, Analysis) else []
    title, *said = [sentence for sentence in told if not sentence.endswith("?")] or [""]
    return Headline(title, tuple(said)) if title else None


def _title(found: Decisions) -> str:
    """Answers whether routing helps; the user's methods come first."""
    leader, yours, absent = found.leader, found.yours, found.absent
    assert leader is not None
    if absent:
        titles = [*dict.fromkeys(f"{STAR}{method.title}" for method in absent)]
        return f"{wording.listed(titles, NAMED)} {'has' if len(titles) == 1 else 'have'} no result."
    if yours and found.baseline:
        return f"{_gained(yours[0]) if len(yours) == 1 else _of_several(yours)}."
    rows = found.comparison.every["method"]
    routed = [method for method in rows if not method.is_control]
    if routed and not found.plans_baseline:
        return _without_uniform(found)
    if reason := _unmeasured(found, routed):
        return f"Whether routing helps was not measured: {reason}."
    if leader.routed is None:
        give = f"{wording.listed(routed, NAMED)} give{'s' if len(routed) == 1 else ''}"
        return f"Routing is not shown to help: {give} what a baseline gives, on every seed."
    return _whether(found)


def _unmeasured(found: Decisions, routed: Sequence[Method]) -> str:
    """The reason why no method can be compared with uniform routing; empty where one can."""
    if not routed:
        return "only baselines have finished"
    if not found.baseline:
        return f"{UNIFORM} has no finished run"
    alone = found.leader is not None and found.leader.routed is not None and not found.gains
    return f"no method ran on the network of {UNIFORM}" if alone else ""


def _of_several(yours: Sequence[Gain]) -> str:
    """`★ A gains 1.2 points over uniform routing; for ★ B and ★ C no difference from it is shown`."""
    told = []
    for verdict, way in ((Verdict.BETTER, "above"), (Verdict.WORSE, "below")):
        if own := [gain for gain in yours if gain.verdict is verdict]:
            sizes = [Gain(gain.method, gain.estimate if way == "above" else -gain.estimate) for gain in own]
            names, verb = wording.listed([gain.method for gain in own], NAMED), "is" if len(own) == 1 else "are"
            told.append(f"{names} {verb} {_sizes(sizes)} points {way} {UNIFORM}, significant after correction")
    for verdict, said in ((Verdict.OPEN, "is shown"), (Verdict.UNTESTABLE, "could be tested")):
        if rest := [gain.method for gain in yours if gain.verdict is verdict]:
            told.append(f"no difference from {UNIFORM} {said} for {wording.listed(rest, NAMED)}")
    text = "; ".join(told)
    return text[:1].upper() + text[1:]


def _without_uniform(found: Decisions) -> str:
    """Compares the best routing method with another baseline, where uniform routing is not part of the preset."""
    if found.over_control is None:
        return f"{UNIFORM.capitalize()} is not part of this preset: nothing here says whether routing helps."
    gain, control = found.over_control
    return f"{gain_in_words(gain.method, gain.estimate, len(gain.method.lost), str(control))}."


def _whether(found: Decisions) -> str:
    """Answers whether routing helps, if uniform routing and routing methods were measured."""
    better, worse = found.with_verdict(Verdict.BETTER), found.with_verdict(Verdict.WORSE)
    if better:
        names = wording.listed([gain.method for gain in better], NAMED)
        told = f"{names} gain{'' if len(better) > 1 else 's'} {_sizes(better)} points over {UNIFORM}"
        if better[0].method.iterations == 1:  # coupling is what the method starts with
            return f"{told}; more iterations are not shown to help {better[0].method.title}."
        return f"Routing helps here: {told}."
    configurations = wording.plural(len(found.gains), "routing configuration")
    if len(found.gains) == 1 and found.gains[0].verdict is not Verdict.UNTESTABLE:
        how = "loses to" if worse else "does not differ significantly from"
        return f"Routing is not shown to help: {found.gains[0].method} {how} {UNIFORM}."
    if worse:
        lose = "1 loses" if len(worse) == 1 else f"{len(worse)} lose"
        return f"Routing is not shown to help: of {configurations}, {lose} to {UNIFORM} and none gains."
    tested = [gain for gain in found.gains if gain.verdict is not Verdict.UNTESTABLE]
    if not tested:
        return f"Whether routing helps could not be tested: {_why_untested(found)}."
    if len(tested) < len(found.gains):
        of = f"of {configurations}, {len(tested)} could be tested, and none"
    else:
        of = f"none of {configurations}"
    return f"Routing is not shown to help: {of} differs significantly from {UNIFORM}."


def _why_untested(found: Decisions) -> str:
    """The reason why no gain over uniform routing was tested."""
    base = next(method for method in found.comparison.contenders if str(method) == found.comparison.baseline)
    kinds = {gain.estimate.kind for gain in found.gains}
    if base.lost or any(gain.method.lost for gain in found.gains):
        return "seeds were lost"
    if UNEVEN in kinds:
        return "seeds fell out of the others"
    if CONSTANT in kinds:
        return "all seeds differ by the same amount, and there are no answers per image"
    if base.missing or any(gain.method.missing for gain in found.gains) or not kinds:
        return f"too few seeds have results of both a method and {UNIFORM}"
    return "one seed, and no answers per image"


def _tuned_by_t(runs: Runs) -> set[Method]:
    """Methods, without T, that have other training settings or hyperparameters with another T."""
    settings: dict[Method, set[str]] = {}
    for cell, method in runs.methods.items():
        settings.setdefault(method.family, set()).add(f"{runs.training(cell)} {runs.hyperparameters(cell)}")
    return {method for method, found in settings.items() if len(found) > 1}


def _of_named(
    table: DataFrame, iterated: Mapping[Method, Estimate], leader: Leader, tuned: Set[Method]
) -> tuple[str, tuple[str, ...]]:
    """Title and further sentences of a suite that named its comparisons beforehand; what it did not name is marked.

    Where the suite compares methods with their own first iteration alone, the title speaks of that alone.
    """
    over = table[[against.is_base for against in table["against"]]]
    pairs = [*zip(table["method"], table["against"], strict=True)]
    beside = table[[one.family == two.family for one, two in pairs]]
    longer = table[[is_over_first(one, two) for one, two in pairs]]
    told = [_over_uniform(_with(over, *GAINS), _with(over, *LOSSES))] if len(over) else []
    rest = [Gain(method, gain) for method, gain in iterated.items() if method not in {*longer["method"]}]
    explored = [gain for gain in rest if gain.verdict is Verdict.BETTER]
    gaining, losing = _with(longer, *GAINS), _with(longer, *LOSSES)
    if gaining or losing:
        told.append(_by_iterating(gaining, losing))
    elif explored and len(over):
        told.append(f"Not specified beforehand, but significant: more iterations are better with {_titles(explored)}")
    elif len(longer):
        told.append("No method is shown to gain by iterating")
    said = [_decided(table)]
    told = told or [said.pop().removesuffix(".")]
    controls = [against for against in dict.fromkeys(table["against"]) if against.is_control]
    said += [_against(_side(against), table[table["against"] == against]) for against in controls]
    if len(beside):
        said.append(_against("one iteration of the same method", beside))
    said.append("All other comparisons are exploratory.")
    worse = [gain for gain in rest if gain.verdict is Verdict.WORSE]
    for word, gains in (("Better", explored), ("Worse", worse)) if len(over) else ():
        if gains:
            found = "; ".join(map(_sized, gains))
            pairs_in_all = "this pair alone" if len(iterated) == 1 else f"all {len(iterated)} such pairs"
            said.append(f"{word} than with one iteration, corrected for {pairs_in_all}: {found}.")
    if len(over) and tuned & {gain.method.family for gain in (*explored, *worse)}:
        said.append("In these pairs each T has settings of its own.")
    return f"{'. '.join(told)}.", (*said, _reached(leader))


def _decided(table: DataFrame) -> str:
    """The number of pre-specified comparisons decided on these test images, and if these were drawn anew too."""
    counts = [sum(one not in NOT_DECIDED for one in table[key]) for key in VERDICTS]
    are = "is" if counts[0] == 1 else "are"
    told = f"The suite named {wording.plural(len(table), 'comparison')} beforehand; {counts[0]} of them {are} decided"
    if not any(one.known for one in table["both"]):
        return f"{told}."
    return f"{told} on these test images, {counts[1]} if these were drawn anew too."


def _sized(gain: Gain) -> str:
    """`EM, T = 2, by 0.68 points [0.55, 0.81]`: the size alone, as the sentence says which way."""
    found = gain.estimate
    low, high = sorted((abs(found.low), abs(found.high)))
    size = wording.rounded(abs(found.mean), found.half_width)
    return f"{gain.method}, by {size} points {wording.between(low, high, sign=False)}"


def _over_uniform(better: Sequence[Gain], worse: Sequence[Gain]) -> str:
    """The methods that are better than uniform routing, and those that are worse, and by how much."""
    better = sorted(better, key=Gain.place)
    lost = sorted((Gain(gain.method, -gain.estimate) for gain in worse), key=Gain.place)
    if len(better) == 1:
        told = f"{better[0].method} is better than {UNIFORM}, by {_sizes(better)} points"
    elif better:
        names = wording.listed([gain.method for gain in better], NAMED)
        told = f"{len(better)} methods are better than {UNIFORM}, by {_sizes(better)} points: {names}"
    else:
        told = f"No method is shown to be better than {UNIFORM}"
    names = wording.listed([gain.method for gain in lost], NAMED) if lost else ""
    return f"{told}. Worse, by {_sizes(lost)} points: {names}" if lost else told


def _sizes(gains: Sequence[Gain]) -> str:
    """`0.24 to 0.64`: the smallest and the largest, which need not be the last and the first of their order."""
    found = sorted((gain.estimate for gain in gains), key=float)
    return " to ".join(dict.fromkeys(wording.rounded(one.mean, one.half_width) for one in (found[0], found[-1])))


def _by_iterating(gaining: Sequence[Gain], losing: Sequence[Gain]) -> str:
    """`By iterating, EM gains; slot attention loses`."""
    return "By iterating, " + "; ".join(
        _that(gains, verb) for gains, verb in ((gaining, "gain"), (losing, "lose")) if gains
    )


def _that(gains: Sequence[Gain], verb: str) -> str:
    """`EM gains`, `EM and slot attention gain`: each method once, whatever its T."""
    return f"{_titles(gains)} {verb}{'s' if len({gain.method.title for gain in gains}) == 1 else ''}"


def _titles(gains: Sequence[Gain]) -> str:
    """Each method once, whatever its T."""
    return wording.listed([*dict.fromkeys(f"{gain.method.title}{gain.method.counted}" for gain in gains)], NAMED)


def _side(against: Method) -> str:
    """The name of a baseline in a sentence that compares others with it."""
    if not against.is_base:
        return f"the {against}"
    return f"{UNIFORM} ({against.settings})" if against.settings else UNIFORM


def _against(name: str, rows: DataFrame) -> str:
    """The verdicts against one side: better, worse, equal."""
    kinds = (("better", GAINS), ("worse", LOSSES), ("equal within the margin", (Verdict.EQUAL,)))
    found = [(word, [str(one.method) for one in _with(rows, *verdicts)]) for word, verdicts in kinds]
    told = "; ".join(f"{word}: {wording.listed(names, len(rows))}" for word, names in found if names)
    lost = [str(row["method"]) for row in rows.to_dict("records") if on_these_images_alone(row)]
    anew = f" Not if test images were drawn anew too: {wording.listed(lost, len(rows))}." if lost else ""
    return f"Against {name}, {told or 'nothing is decided'}.{anew}"


def _with(rows: DataFrame, *verdicts: Verdict) -> list[Gain]:
    found = zip(rows["method"], rows["difference"], rows["verdict"], strict=True)
    return [Gain(method, difference) for method, difference, verdict in found if verdict in verdicts]


def _about(found: Decisions) -> tuple[str, ...]:
    """Sentences on what routing, and iterating it, gains; of the leader's gain, `_reached` tells."""
    sentences = []
    best = found.gains[0] if found.gains else None
    gaining = best is not None and best.verdict is Verdict.BETTER
    if best is not None and gaining and not found.yours and best is not found.gain_of_leader:
        sentences.append(f"Largest gain: {_gained(best)}.")
    if worse := found.with_verdict(Verdict.WORSE):
        sentences.append(f"Significantly worse: {wording.listed([gain.method for gain in worse], NAMED)}.")
    if found.iterating is not None:
        sentences.append(_iterating(found.iterating))
    comparison = found.comparison
    if not math.isnan(comparison.detectable):
        seeds = wording.plural(comparison.seeds, "seed")
        smallest = wording.rounded(comparison.detectable, comparison.detectable)
        sentences.append(f"With {seeds}, differences below {smallest} points would usually be missed.")
    elif any(gain.estimate.kind in BY_SAMPLE for gain in found.gains):
        sentences.append("One seed: methods are compared on the same test images. Another seed may order them anew.")
    return tuple(sentences)


def _iterating(gain: Gain) -> str:
    found = gain.estimate
    size = f"{wording.rounded(found.mean, found.half_width, sign=True)} points"
    interval = f" {wording.between(found.low, found.high)}" if found.has_limits and found.low < found.high else ""
    told = {
        Verdict.BETTER: "significant", Verdict.WORSE: "significant", Verdict.UNTESTABLE: "no test is possible",
    }.get(gain.verdict, "not significant")  # fmt: skip
    over = "" if gain.verdict is Verdict.UNTESTABLE else " after correction for all methods and T"
    return f"{gain.method} against one iteration of the same method: {size}{interval}, {told}{over}."


def _leads(found: Decisions, leader: Leader) -> tuple[str, ...]:
    """Names the highest mean, and the methods that do not differ significantly from it."""
    sentences = [_reached(leader, found.gain_of_leader)]
    if leader.is_shown:
        others = _methods([*leader.over]) if len(leader.over) == 1 else "all others"
        alone = f"{ONE_SEED}, it" if leader.mean.kind == OVER_SAMPLES else "It"
        sentences.append(f"{alone} is significantly ahead of {others}{'' if leader.complete else ' that finished'}.")
    if leader.beaten_by:
        sentences.append(f"On the seeds that both finished, it is significantly behind {_methods(leader.beaten_by)}.")
    if leader.peers:
        sentences.append(f"It cannot be told apart from {_methods(leader.peers)}.")
    for method, lead in found.ties.items():
        ahead = f"It is exactly {wording.rounded(lead.mean, math.nan)} points ahead of {method} on every seed"
        sentences.append(f"{ahead}: no test is possible there.")
    if untested := [method for method in leader.untested if method not in found.ties]:
        sentences.append(f"No test compares it with {_methods(untested)}.")
    return tuple(sentences)


def _methods(methods: Sequence[object]) -> str:
    return wording.listed([*methods], NAMED)


def _reached(leader: Leader, gain: Gain | None = None) -> str:
    seeds = f" ({wording.plural(leader.mean.n, 'seed')})" if leader.mean.kind != OVER_SAMPLES else " (one seed)"
    control = "the baseline " if leader.method.is_control else ""
    gained = (
        f" {gain_in_words('It', gain.estimate, len(gain.method.lost))}."
        if gain is not None and not gain.method.yours
        else ""
    )
    level = f", and the same with {wording.listed(leader.level, NAMED)}" if leader.level else ""
    return f"Highest mean accuracy{leader.among}: {control}{leader.method}, {leader.mean:±0.1} %{seeds}{level}.{gained}"
