"""The whole comparison in one line: the worst first, and what the gate is blind for."""

from collections.abc import Iterator

from routebench.analysis.wording import listed, plural
from routebench.comparing.change import IMPROVEMENT, REGRESSION, UNDECIDED
from routebench.comparing.comparison import Comparison
from routebench.comparing.wording import told


def verdict(comparison: Comparison) -> str:
    """One line: the worst first."""
    gaps = "".join(f" {gap}." for gap in _gaps(comparison))
    if comparison.exit_code == 1:
        return f"Regression: {_worse(comparison)}.{gaps}"
    unsure = comparison.with_verdict(UNDECIDED)
    if unsure:
        more = f"; and {plural(len(unsure) - 1, 'more row')}" if len(unsure) > 1 else ""
        return f"Undecided: {told(unsure[0])}: {unsure[0].why}{more}.{gaps}"
    if not any(change.judged for change in comparison.changes):
        return f"Nothing could be compared: no row could be judged.{gaps}"
    better = comparison.with_verdict(IMPROVEMENT)
    gained = f", {plural(len(better), 'improvement')}" if better else ""
    names = listed(list(dict.fromkeys(one.group.name for one in comparison.blind))) if comparison.blind else ""
    if undecided := [one for one in comparison.blind if one.undecided]:
        return f"Undecided: no regression was seen{gained}, but blind for {names}: {undecided[0].wanting()}.{gaps}"
    unseen = f", but blind for {names}" if names else ""
    return f"No regression{' in what was compared' if gaps else ''}{gained}{unseen}.{gaps}"


def _worse(comparison: Comparison) -> str:
    broken, lost, worse = comparison.pairs.broken, comparison.losses, comparison.with_verdict(REGRESSION)
    found = [told(worse[0])] if worse else []
    found += [f"{plural(len(broken), 'cell')} ok in BASE and without result in HEAD"] if broken else []
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        found.append(f"no number in HEAD for {lost[0].in_words()}{others}")
    return "; ".join(found) + (f"; and {plural(len(worse) - 1, 'more row')}" if len(worse) > 1 else "")


def _gaps(comparison: Comparison) -> Iterator[str]:
    """What was not compared, and why."""
    pairs = comparison.pairs
    if pairs.uncompared:
        why = "; ".join(dict.fromkeys(pair.obstacle for pair in pairs.uncompared))
        yield f"{len(pairs.uncompared)} of {plural(pairs.expected, 'cell')} not compared: {why}"
    if pairs.missing:
        yield f"HEAD has not run {len(pairs.missing)} of {plural(pairs.expected, 'cell')} that BASE has"
    if comparison.unjudged:
        yield f"Nothing judged for {listed([group.name for group in comparison.unjudged])}"
