"""A comparison as text for a terminal, as Markdown for a pull request, and as JSON for a program."""

import html
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from routebench import terminal
from routebench.analysis import Verdict
from routebench.analysis.wording import NOTHING
from routebench.comparing import _words as words
from routebench.comparing._comparison import FolderComparison, Sensitivity
from routebench.comparing._verdicts import ALL, METHOD, SETTING, Change

LONGEST_COMMENT = 65_000
"""Characters: GitHub takes 65,536 in one comment, of which some are for a mark by which the comment is found again."""
CUT = "\n\n*Cut here: the rest is too long for a comment; `--format json` has all of it.*\n"
COLUMNS = ("Metric", "Of", "BASE", "HEAD", "Change", "p (Holm)", "Noise floor", "Detectable", "Verdict")
ORDER = (
    *(Verdict.REGRESSION, Verdict.UNDECIDED, Verdict.IMPROVEMENT, Verdict.NOISE, Verdict.UNSHOWN),
    *(Verdict.UNCOMPARED, Verdict.UNJUDGED, Verdict.SAME),
)
"""Order of the rows in a comment; the last rows may be cut."""
SMALLEST = ("Metric", "Suite", "One setting", "One method", "All methods", "Test")


def as_text(comparison: FolderComparison, width: int | None = None) -> str:
    """The verdict, a table of what changed, a table of what could have been detected, and where it comes from.

    Args:
        comparison: the comparison of two folders.
        width: letters that fit in a line; None where they may have any number.
    """
    lines = [words.verdict(comparison)]
    if rows := comparison.with_verdict(*ORDER[:3]):
        changes = [(str(row.verdict), *_cells_of(row)[:6]) for row in rows]
        lines += ["", *terminal.in_columns(changes, width, titles=("Verdict", *COLUMNS[:6]), names=2)]
    for title, cells in (("Broken in HEAD:", _broken(comparison)), ("Not run by HEAD:", _missing(comparison))):
        lines += ["", *_paragraph(title, cells)] if cells else []
    lines += ["", f"Rows: {_counts(comparison)}."]
    if seen := comparison.sensitivities:
        table = terminal.in_columns(map(_smallest, seen), width, titles=SMALLEST)
        lines += ["", "The smallest change that is detected 8 times in 10:", *table]
    blind = _blindness(comparison)
    lines += ["", *blind] if blind else []
    notes = [*_damaged(comparison), *comparison.notes, *_unjudged(comparison)]
    lines += ["", *notes] if notes else []
    return terminal.folded("\n".join([*lines, "", *words.provenance(comparison), ""]), width)


def as_markdown(comparison: FolderComparison, longest: int = LONGEST_COMMENT) -> str:
    """Text of a comment: the verdict first, what changed in a table, and the rest folded.

    Args:
        comparison: two compared folders.
        longest: number of characters, at most.
    """
    marked = "❌" if comparison.exit_code else "✅"
    parts = [f"**{marked} {_safe(words.verdict(comparison))}**", *map(_safe, _blindness(comparison))]
    if rows := comparison.with_verdict(*ORDER[:3]):
        parts.append(_table(COLUMNS, (_cells_of(row) for row in rows)))
    for title, cells in (("Broken in HEAD:", _broken(comparison)), ("Not run by HEAD:", _missing(comparison))):
        parts += [f"{title}\n\n" + "\n".join(f"- {_safe(line)}" for line in cells)] if cells else []
    if seen := comparison.sensitivities:
        parts.append(
            f"Judged ({_counts(comparison)}):\n\n" + "\n".join(f"- {_safe(words.sensitivity(one))}" for one in seen)
        )
    if notes := [*_damaged(comparison), *comparison.notes, *_unjudged(comparison)]:
        parts.append("\n".join(f"- {_safe(note)}" for note in notes))
    parts.append("\n".join(f"- {_safe(line)}" for line in words.provenance(comparison)))
    shown = [change for word in ORDER for change in comparison.with_verdict(word)]
    opened, closed = "<details><summary>All rows</summary>\n\n", "\n\n</details>\n"
    table = _table(COLUMNS, (_cells_of(row) for row in shown))
    body = "\n\n".join(parts)
    if len(body) > longest - len(CUT):
        return _cut(body, longest)
    room = longest - len(body) - len(opened) - len(closed) - 2
    if room <= len(CUT):
        return body
    return f"{body}\n\n{opened}{table if len(table) <= room else _cut(table, room)}{closed}"


def as_json(comparison: FolderComparison) -> str:
    """Everything, for a program; a number that is not known is null."""
    return terminal.as_json(as_plain(comparison)) + "\n"


def as_plain(comparison: FolderComparison) -> dict[str, Any]:
    """The content of `as_json`."""
    return {
        "verdict": words.verdict(comparison),
        "exit_code": comparison.exit_code,
        "alpha": comparison.alpha,
        "blind": _blindness(comparison),
        "broken": [{"cell": pair.base.name, "reason": pair.head.reason} for pair in comparison.pairs.broken],
        "lost": [{"cell": loss.pair.base.name, "metric": loss.metric, "found": loss.found} for loss in comparison.lost],
        "missing": [pair.base.name for pair in comparison.pairs.missing],
        "not_compared": [{"cell": pair.base.name, "why": pair.obstacle} for pair in comparison.pairs.uncompared],
        "damaged": comparison.damaged,
        "notes": list(comparison.notes),
        "provenance": words.provenance(comparison),
        "changes": [_as_plain(change) for change in comparison.changes],
    }


def _as_plain(change: Change) -> dict[str, Any]:
    group = change.group
    scale: Callable[[float], float] = words.ratio_less_one if group.relative else float
    numbers = {
        "base": change.base,
        "head": change.head,
        "change": scale(change.evidence.change),
        "p_holm": change.p_value,
        "noise_floor": scale(change.evidence.floor),
        "threshold": scale(change.threshold),
        "could_see": scale(change.could_see),
        "must_see": scale(change.must_see),
    }
    return {
        **vars(group),
        "relative": group.relative,
        "level": change.level,
        "name": change.name,
        "method": change.method,
        "iterations": change.series[0].iterations if len(change.series) == 1 else None,
        **numbers,
        "evidence": change.evidence.kind,
        "verdict": change.verdict,
        "why": change.why,
    }


def _cells_of(change: Change) -> tuple[str, ...]:
    group = change.group
    return (
        group.name,
        change.name,
        words.value(change.base, group.unit),
        words.value(change.head, group.unit),
        words.size(change.evidence.change, group),
        words.p(change),
        words.extent(change.threshold, group),
        words.extent(change.could_see, group),
        f"{change.verdict}: {change.why}" if change.why else change.verdict,
    )


def _smallest(seen: Sensitivity) -> tuple[str, ...]:
    sizes = words.detectable(seen)
    levels = (sizes.get(level, NOTHING) for level in (SETTING, METHOD, ALL))
    return (seen.group.name, words.suite(seen.group), *levels, words.tests(seen))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([_safe(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _blindness(comparison: FolderComparison) -> list[str]:
    return [words.blindness(one) for one in comparison.blind]


def _broken(comparison: FolderComparison) -> list[str]:
    cells = [f"{pair.base.name}: {pair.head.status}: {pair.head.reason}" for pair in comparison.pairs.broken]
    return cells + [loss.in_words() for loss in comparison.lost]


def _missing(comparison: FolderComparison) -> list[str]:
    return [f"{pair.base.name}: {pair.head.status}" for pair in comparison.pairs.missing]


def _damaged(comparison: FolderComparison) -> list[str]:
    return [f"Damaged in {line}." for line in comparison.damaged]


def _paragraph(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)]


def _counts(comparison: FolderComparison) -> str:
    counts = {name: len(comparison.with_verdict(name)) for name in Verdict}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _unjudged(comparison: FolderComparison) -> list[str]:
    """One sentence for each reason why rows have no verdict."""
    metrics: dict[tuple[str, str], dict[str, None]] = {}
    for change in comparison.with_verdict(Verdict.UNJUDGED, Verdict.UNCOMPARED):
        metrics.setdefault((change.verdict, change.why), {})[change.group.name] = None
    return [f"{word.capitalize()}: {', '.join(names)} ({why})." for (word, why), names in metrics.items() if why]


def _safe(text: str) -> str:
    """Text that Markdown and GitHub take as it is: no HTML, no column, no mention."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("@", "&#64;")


def _cut(text: str, longest: int) -> str:
    """Whole lines from the start, and that the rest was cut."""
    kept = text[: max(0, longest - len(CUT))]
    return kept[: kept.rfind("\n")] + CUT
