"""The whole comparison in one line: the worst first, and what the gate is blind for."""

from routebench.analysis.wording import listed, plural
from routebench.comparing.comparison import IMPROVEMENT, REGRESSION, Comparison
from routebench.comparing.sensitivity import sensitivities
from routebench.comparing.wording import told


def verdict(comparison: Comparison) -> str:
    """One line: the worst first."""
    broken, worse = comparison.pairs.broken, comparison.with_verdict(REGRESSION)
    better = comparison.with_verdict(IMPROVEMENT)
    if broken or worse:
        found = [told(worse[0])] if worse else []
        found += [f"{plural(len(broken), 'cell')} ok in BASE and without result in HEAD"] if broken else []
        more = f"; and {plural(len(worse) - 1, 'more row')}" if len(worse) > 1 else ""
        return f"Regression: {'; '.join(found)}{more}."
    if not any(change.judged for change in comparison.changes):
        return "Nothing could be compared: no row could be judged."
    gained = f", {plural(len(better), 'improvement')}" if better else ""
    lacking = len(comparison.pairs.missing)
    missing = f" HEAD has not run {plural(lacking, 'cell')} that BASE has." if lacking else ""
    blind = list(dict.fromkeys(one.group.name for one in sensitivities(comparison) if one.blind))
    unseen = f", but blind for {listed(blind)}" if blind else ""
    return f"No regression{gained}{unseen}.{missing}"
