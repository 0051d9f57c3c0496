r"""Does every command take folders and arguments whose names are no UTF-8, steer a terminal, or have several lines?

By hand: `python -m tests.stress.names`. Names hold the byte 0xff, an escape sequence and a new line.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from routebench.engine.results import unpack
from tests.stress.scenario import PARTS, QUICK

PACK = Path(__file__).parents[1] / "packs" / "accuracy-quick"
NAME = os.fsdecode(b"n\xff\x1b[31mx\ny")
UNSEEN = "\x1b", "\udcff"


def pictures(folder):
    """Twelve images for training and six for testing, of two classes."""
    for split, count in (("train", 12), ("test", 6)):
        for label in ("a", "b"):
            (folder / split / label).mkdir(parents=True)
            for number in range(count):
                noise = np.random.default_rng([number, count, ord(label)]).integers(0, 255, (28, 28), dtype=np.uint8)
                Image.fromarray(noise).save(folder / split / label / f"{number}.png")


def readers(base):
    """Command lines that read results, by name; each leaves what the next ones read."""
    folder, there = base / NAME, base / f"{NAME}-there"
    unpack(PACK, folder)
    record = min((folder / "records").iterdir())
    return {
        "status": ("status", folder),
        "verify": ("status", folder, "--verify"),
        **{f"export {one}": ("export", folder, "--format", one) for one in ("csv", "markdown", "latex")},
        **{f"export to {one}": ("export", folder, "-o", base / f"{NAME}{one}") for one in (".csv", ".parquet", ".tex")},
        **{f"compare {one}": ("compare", folder, folder, "--format", one) for one in ("text", "markdown", "json")},
        "compare to": ("compare", folder, folder, "-o", base / f"{NAME}.txt"),
        "publish": ("publish", folder, "-o", there / "pack"),
        "a pack": ("status", there / "pack"),
        "unpack": ("publish", there / "pack", "--unpack", "-o", there / "again"),
        "reproduce a file": ("reproduce", record),
        "reproduce": ("reproduce", record.stem, "--results", folder),
        "forget": ("forget", "cnn", "--results", folder),
        "new-method": ("new-method", "mine", "--folder", there),
        "an absent folder": ("status", there / "absent"),
        "an unknown suite": ("suite", NAME),
        "an unknown method": ("suite", "accuracy", "--method", NAME),
        "an unknown preset": ("suite", "accuracy", "--preset", NAME),
        "unknown data": ("suite", "accuracy", "--data", f"folder:{NAME}"),
        "an absent plug-in": ("suite", "accuracy", "--plugin", f"{NAME}.py"),
        "an unknown metric": ("export", folder, "--format", "csv", "--metric", NAME),
        "an unknown command": (NAME,),
        "an unknown option": (f"--{NAME}",),
        "cite": ("cite", NAME),
        "a key": ("reproduce", NAME),
    }


def writers(base):
    """Command lines that measure, by name."""
    folder, plain = base / f"{NAME}-suite", base / "plain"
    for each in (folder, plain):
        each.mkdir()
        shutil.copy(PARTS, each / "parts.py")
        (each / "q.toml").write_text(QUICK.format(seeds=1, seconds=0.01, journal=plain / "journal"))
    shutil.copy(plain / "q.toml", plain / f"{NAME}.toml")
    shutil.copy(PARTS, plain / f"{NAME}.py")
    pictures(base / f"{NAME}-pictures")
    parts = ("--plugin", plain / "parts.py")
    runs = {
        "results": (plain / "q.toml", *parts, "--results", base / f"{NAME}-results"),
        "a suite": (plain / f"{NAME}.toml", *parts),
        "a folder of suites": (folder / "q.toml", *parts),
        "a plug-in": (plain / "q.toml", "--plugin", plain / f"{NAME}.py"),
        "a folder of plug-ins": (plain / "q.toml", "--plugin", folder / "parts.py"),
        "data": (plain / "q.toml", *parts, "--data", f"folder:{base / f'{NAME}-pictures'}"),
    }
    found = {}
    for number, (name, words) in enumerate(runs.items()):
        there = () if "--results" in words else ("--results", base / f"r{number}")
        found[name] = ("suite", *words, "--jobs", "1", "--device", "cpu", *there)
    return found


def is_held(ended):
    """Whether a command ended as it should, and showed only what can be shown; a suite measured everything."""
    return 0 <= ended.code < 70 and not any(each in ended.out + ended.error for each in UNSEEN)


def main():
    """The command."""
    from tests.stress.forked import call

    held = tried = 0
    with tempfile.TemporaryDirectory() as name:
        os.environ["ROUTEBENCH_CACHE"] = str(Path(name) / "cache")
        both = {**readers(Path(name)), **writers(Path(name))}
        both |= {
            "report": ("report", Path(name) / NAME),
            "report to": ("report", Path(name) / NAME, "-o", Path(name) / f"{NAME}.html"),
        }
        for case, words in both.items():
            ended = call(*words, cwd=name, seconds=200, gigabytes=16)
            is_fine = is_held(ended) and (words[0] != "suite" or case.startswith(("an ", "unknown")) or not ended.code)
            tried, held = tried + 1, held + is_fine
            if not is_fine:
                sys.stdout.write(f"NOT HELD {case}: exit {ended.code} {ended.error[-150:]!r}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{held} of {tried} held\n")


if __name__ == "__main__":
    main()
