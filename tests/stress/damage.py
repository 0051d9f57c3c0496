"""Damages one file of one of two equal folders, and asks the gate about them three times.

It holds if the file is named each time, no answer is "No regression", and all answers are the same. By hand:
`python tests/stress/damage.py`, which counts tries and holds; with another checkout in PYTHONPATH it tries that one.
"""

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from routebench.commands import compare
from routebench.engine.results import checksum, unpack

PACK = Path(__file__).parents[2] / "tests" / "packs" / "accuracy-quick"


def cut(content: bytearray, rng: random.Random) -> bytes:
    """Ends early."""
    return content[: rng.randrange(len(content))]


def flip(content: bytearray, rng: random.Random) -> bytes:
    """Changes one bit."""
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return content


def zero(content: bytearray, rng: random.Random) -> bytes:
    """Has a block of zeros, as a disk may give back."""
    start = rng.randrange(len(content))
    return content[:start] + bytes(min(512, len(content) - start)) + content[start + 512 :]


def empty(_content: bytearray, _rng: random.Random) -> bytes:
    """Has no content."""
    return b""


DEEDS = (cut, flip, zero, empty)


def sealed_copy(target: Path) -> None:
    """The published folder, which is of before there were checksums, with them."""
    unpack(PACK, target)
    for file in (*(target / "records").glob("*.json"), *(target / "plans").glob("*.json")):
        content = json.loads(file.read_text())
        if "cell" in content:
            arrays = target / content["arrays"]
            content["files"] = {content["arrays"]: hashlib.sha256(arrays.read_bytes()).hexdigest()}
        file.write_text(checksum.sealed(content))


def attempt(whole: Path, folder: Path, rng: random.Random, part: str) -> str:
    """Damages a file of a part, and asks; empty if it held, else what did not."""
    side = rng.choice(("base", "head"))
    for name in ("base", "head"):
        shutil.copytree(whole, folder / name)
    if part == "plans":  # an older one is left, else there is nothing to compare
        (plan,) = (folder / side / part).glob("*.json")
        names = plan.stem.split(".")
        older = ".".join([*names[:-2], "20000101T000000000000Z", names[-1]])
        text = plan.read_text().replace(plan.stem, older).rpartition(',\n "checksum"')[0] + "\n}"
        plan.with_name(f"{older}.json").write_text(text.replace(' "sequence": 1', ' "sequence": 0'))
        file = plan
    else:
        file = rng.choice(sorted((folder / side / part).iterdir()))
    deed = rng.choice(DEEDS)
    before = file.read_bytes()
    file.write_bytes(deed(bytearray(before), rng))
    if file.read_bytes() == before:
        return ""
    answers = []
    for _ in range(3):
        done = CliRunner().invoke(compare.command, [str(folder / "base"), str(folder / "head"), "--gate"])
        answers.append((done.exit_code, done.stdout.partition(":")[0]))
        what = f"{deed.__name__} {part} of {side}: {answers}"
        if done.exit_code in (0, 70) or done.stdout.startswith("No regression") or done.exception is None:
            return what
        if file.name not in done.stderr + done.stdout + str(done.exception):
            return f"{what}, not named"
    return "" if len({*answers}) == 1 else what


def main() -> None:
    """Tries as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rng, held = random.Random(chosen.seed), 0
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        sealed_copy(whole)
        for number in range(chosen.tries):
            part = ("records", "arrays", "plans")[number % 3]
            told = attempt(whole, Path(name) / str(number), rng, part)
            held += not told
            shutil.rmtree(Path(name) / str(number))
            sys.stdout.write(f"{number}: {part}: {told or 'held'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{held} of {chosen.tries} held\n")
    sys.exit(0 if held == chosen.tries else 1)


if __name__ == "__main__":
    main()
