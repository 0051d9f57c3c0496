"""Changes and the whole comparison in words and numbers, the same in text, Markdown and JSON."""

import math
from collections.abc import Iterator

from routebench.analysis import Verdict
from routebench.analysis.wording import NOTHING, listed, plural, probability, signed
from routebench.comparing._comparison import FolderComparison, Sensitivity
from routebench.comparing._evidence import TESTS
from routebench.comparing._series import Group
from routebench.comparing._verdicts import Change
from routebench.quantities import BYTES


def verdict(comparison: FolderComparison) -> str:
    """One line, the worst first."""
    gaps = "".join(f" {gap}." for gap in _gaps(comparison))
    if comparison.exit_code == 1:
        return f"Regression: {_worse(comparison)}.{gaps}"
    unsure = comparison.with_verdict(Verdict.UNDECIDED)
    if unsure:
        more = f"; and {plural(len(unsure) - 1, 'more row')}" if len(unsure) > 1 else ""
        return f"Undecided: {told(unsure[0])}: {unsure[0].why}{more}.{gaps}"
    if not any(change.judged for change in comparison.changes):
        return f"Nothing could be compared: no row could be judged.{gaps}"
    better = comparison.with_verdict(Verdict.IMPROVEMENT)
    gained = f", {plural(len(better), 'improvement')}" if better else ""
    if undecided := [one for one in comparison.blind if one.undecided]:
        names = listed(list(dict.fromkeys(one.group.name for one in undecided)))
        return f"Undecided: no regression found{gained}, but {names} too noisy: {wanting(undecided[0])}.{gaps}"
    unseen = f"; undetected: {listed(list(dict.fromkeys(map(_unseen, comparison.blind))))}" if comparison.blind else ""
    if comparison.unjudged or comparison.damaged:
        why = "but not all was judged" if comparison.unjudged else "in what could be read"
        return f"Undecided: no regression found{gained}{unseen}, {why}.{gaps}"
    return f"No regression{' in what was compared' if gaps else ''}{gained}{unseen}.{gaps}"


def value(number: float, unit: str) -> str:
    """`95.20 %`, `4.59 ms`, `5.14 MiB`."""
    if math.isnan(number):
        return NOTHING
    if unit == "%":
        return f"{number:.2f} %"
    if unit == "bytes":
        return f"{number / BYTES['MiB']:.4g} MiB"
    return f"{number:,.4g}{' ' if unit else ''}{unit}"


def size(change: float, group: Group) -> str:
    """`−1.00 points`, `+20 %`, or signed with four digits, and with its unit if there is one."""
    if math.isnan(change):
        return NOTHING
    if group.relative:
        percent = 100 * ratio_less_one(change)
        return f"{signed(percent, 1 if abs(percent) < 10 else 0)} %"
    if group.unit in ("%", "points"):
        return f"{signed(change)} points"
    if group.unit == "count":
        return signed(change, 0 if change.is_integer() else 1)
    digits = 4 if abs(change) >= 0.1 or change == 0 else 3 - math.floor(math.log10(abs(change)))
    return f"{signed(change, digits)}{' ' if group.unit else ''}{group.unit}"


def ratio_less_one(change: float) -> float:
    """HEAD / BASE - 1 of the logarithm of HEAD / BASE; infinite where no number holds it."""
    return math.expm1(change) if change < 700 else math.inf


def extent(change: float, group: Group) -> str:
    """`1.00 points`, `20 %`: a size without a sign."""
    return NOTHING if math.isnan(change) else size(abs(change), group).lstrip("+")


def told(change: Change) -> str:
    """`accuracy of dynamic T=3: −1.00 points (95.60 % → 94.60 %)`."""
    values = f"{value(change.base, change.group.unit)} → {value(change.head, change.group.unit)}"
    return f"{change.group.name} of {change.name}: {size(change.evidence.change, change.group)} ({values})"


def suite(group: Group) -> str:
    """`accuracy quick, mnist5k`."""
    return f"{group.suite} {group.preset}, {group.data}"


def p(change: Change) -> str:
    """Holm's p-value."""
    return probability(change.p_value)


def detectable(seen: Sensitivity) -> dict[str, str]:
    """The smallest change that is found 8 times in 10, in words, by level."""
    return {level: extent(size, seen.group) if size else "any change" for level, size in seen.could_see.items()}


def tests(seen: Sensitivity) -> str:
    """The tests that were made."""
    return "; ".join(TESTS[kind] for kind in seen.kinds)


def sensitivity(seen: Sensitivity) -> str:
    """One line: rows, what could be detected at each level, and the test."""
    could = [f"{size} ({level})" for level, size in detectable(seen).items()]
    words = f"can detect {', '.join(could)}" if could else "what it can detect is unknown"
    alike = "the same on both sides; " if seen.identical else ""
    rows = plural(seen.rows, "row")
    return f"{seen.group.name} ({suite(seen.group)}), {rows}: {alike}{words}. Test: {tests(seen)}."


def blindness(seen: Sensitivity) -> str:
    """A sentence that says below what size changes go undetected, and how many seeds or rounds would do."""
    worst = seen.unseen[0]
    words = "how small a change would be detected is unknown"
    if not math.isnan(worst.could_see):
        words = f"changes of {worst.name} below {extent(worst.could_see, seen.group)} go undetected"
    more = f", and of {plural(len(seen.unseen) - 1, 'more row')}" if len(seen.unseen) > 1 else ""
    return f"Too noisy: {seen.group.name} ({suite(seen.group)}): {words}{more}; {wanting(seen)}."


def _unseen(seen: Sensitivity) -> str:
    """`changes of accuracy below 2.10 points`."""
    size = seen.unseen[0].could_see
    return f"changes of {seen.group.name}{'' if math.isnan(size) else f' below {extent(size, seen.group)}'}"


def wanting(seen: Sensitivity) -> str:
    """The seeds or rounds that it would take: `30 % needs about 12 rounds, and there are 6`."""
    size, worst = extent(seen.unseen[0].must_see, seen.group), seen.unseen[0]
    unit = "round" if worst.evidence.kind == "rounds" else "seed"
    needed = worst.needed
    if not needed:
        return f"{size} needs {'a calmer machine' if unit == 'round' else 'more seeds'}"
    return f"{size} needs about {plural(needed, unit)}, and there are {worst.evidence.pairs}"


def provenance(comparison: FolderComparison) -> list[str]:
    """One line for each folder: commit, machine, device."""
    lines = []
    for name, side in (("BASE", comparison.base), ("HEAD", comparison.head)):
        commits = ", ".join(commit[:12] for commit in side.facts("commit")) or "unknown commit"
        dirty = " with changes not committed" if side.dirty else ""
        machine = "; ".join(side.facts("processor")) or "unknown processor"
        gpu = "".join(f", {card}" for card in side.facts("gpu"))
        device = ", ".join(side.facts("device"))
        lines.append(f"{name}: {commits}{dirty}; {device} on {machine}{gpu}; {plural(len(side.cells), 'run')}")
    return lines


def _worse(comparison: FolderComparison) -> str:
    broken, lost, worse = comparison.pairs.broken, comparison.lost, comparison.with_verdict(Verdict.REGRESSION)
    faults = [told(worse[0])] if worse else []
    faults += [f"{plural(len(broken), 'run')} ok in BASE and without result in HEAD"] if broken else []
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        faults.append(f"no number in HEAD for {lost[0].in_words()}{others}")
    return "; ".join(faults) + (f"; and {plural(len(worse) - 1, 'more row')}" if len(worse) > 1 else "")


def _gaps(comparison: FolderComparison) -> Iterator[str]:
    """Sentences on what was not compared, and why."""
    pairs = comparison.pairs
    if pairs.uncompared:
        why = "; ".join(dict.fromkeys(pair.obstacle for pair in pairs.uncompared))
        yield f"{len(pairs.uncompared)} of {plural(pairs.expected, 'run')} not compared: {why}"
    if pairs.missing:
        yield f"HEAD has not run {len(pairs.missing)} of {plural(pairs.expected, 'run')} that BASE has"
    if damaged := comparison.damaged:
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        yield f"Damaged: {damaged[0].rstrip('.')}{more}"
    if comparison.unjudged:
        yield f"Nothing judged for {listed([one.in_words() for one in comparison.unjudged])}"
