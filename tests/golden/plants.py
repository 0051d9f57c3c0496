"""Plants small changes one at a time in a copy of the tree, and says which of them the golden numbers name.

`python -m tests.golden.plants` takes some minutes; with words it plants those whose part has one in its
name. For each it looks at the part that should be named, as the tests do.
"""

import multiprocessing
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTS = Path(__file__).with_name("plants.tsv")
"""File below `routebench`, the text there, what is put in its place, and the part that is to be named."""


def told(copy: Path, kind: str, name: str) -> str:
    """What the golden numbers say of a part in a copy of the tree."""
    sys.path.insert(0, str(copy))
    for module in [one for one in sys.modules if one.partition(".")[0] in ("routebench", "tests")]:
        del sys.modules[module]
    os.chdir(copy)
    from tests.golden.book import GoldenBook
    from tests.golden.parts import all_parts

    assert GoldenBook.__module__ in sys.modules
    book = GoldenBook.read(all_parts())
    try:
        return book.fault(book.parts[kind, name])
    except Exception as error:  # noqa: BLE001  # a change can break what it changes
        return f"{kind} {name}: {type(error).__name__}: {error}"


def main(words: list[str]) -> int:
    """Plants, one after the other. A process for each, with the libraries loaded already."""
    import foolbox  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch

    torch.set_num_threads(1)
    missed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool,
    ):
        copy = Path(folder)
        for place in ("routebench", "tests", "suites", "analyses"):
            shutil.copytree(ROOT / place, copy / place, ignore=shutil.ignore_patterns("__pycache__"))
        for file, old, new, title in (row.split("\t") for row in PLANTS.read_text().splitlines()[1:]):
            if words and not any(word in title for word in words):
                continue
            path, (kind, _, name) = copy / "routebench" / file, title.partition(" ")
            text = path.read_text()
            assert text.count(old) == 1, f"{file}: expected {old!r} once, got it {text.count(old)} times"
            path.write_text(text.replace(old, new))
            said = pool.apply(told, (copy, kind, name))
            path.write_text(text)
            missed += not said
            sys.stdout.write(f"{'caught' if said else 'MISSED'}  {file}: {new[:50]!r}  {said or title}\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
