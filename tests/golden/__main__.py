"""Writes the golden numbers anew of parts that are new or whose version was raised: `python -m tests.golden`.

With words it looks only at parts whose kind or name has one. With `--uncovered` it lists what has none, and why. Where
a case itself was changed, and not what it measures, delete its lines in `golden.json` first.
"""

import sys

import torch

from tests.golden.book import FILE, GoldenBook, text_of
from tests.golden.parts import all_parts, uncovered


def write(words: list[str]) -> int:
    """Refuses parts whose numbers moved and whose version was not raised, and says what it changed of the others."""
    book, told, refused = GoldenBook.read(all_parts()), [], []
    known: dict[str, dict[str, object]] = {}
    for part in book.parts.values():
        before = book.entry(part)
        if words and not any(word in part.title for word in words):
            known.setdefault(part.kind, {}).update({part.name: before} if before else {})
            continue
        if forbidden := book.forbidden(part):
            refused.append(forbidden)
        entry = before if forbidden else book.renewed(part)
        if entry is not None:
            known.setdefault(part.kind, {})[part.name] = entry
        if entry != before:
            numbers, old = entry["numbers"], (before or {}).get("numbers", {})
            changed = sum(numbers.get(label) != old.get(label) for label in {*numbers, *old})
            told.append(f"{part.title}: version {entry['version']}, {changed} of {len(numbers)} cases written")
    told += book.gone()
    FILE.write_text(text_of(known))
    sys.stdout.write("".join(f"{line}\n" for line in told) or "nothing changed\n")
    sys.stderr.write("".join(f"refused: {line}\n" for line in refused))
    return 1 if refused else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")
    if sys.argv[1:] == ["--uncovered"]:
        sys.stdout.write("".join(f"{what}: {why}\n" for what, why in uncovered()))
        sys.exit()
    sys.exit(write(sys.argv[1:]))
