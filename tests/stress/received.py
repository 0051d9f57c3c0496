"""Does anything in a stranger's folder hang a command, crash it, or make it touch the reader's own files?

By hand: `python -m tests.stress.received`. In a results folder and a pack, each file and folder in turn
is a link, a pipe, a socket, a device, or takes 500 gigabytes that are not there; every command that reads it is called.
"""

import argparse
import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from routebench.engine.results import unpack

PACK = Path(__file__).parents[1] / "packs" / "accuracy-quick"
OURS = "the reader's own"
SPARSE = 500_000_000_000
READERS = (
    ("status",), ("status", "--verify"), ("report",), ("export", "--format", "csv"), ("export", "--format", "markdown"),
)  # fmt: skip
PARTS = ("plans", "records", "arrays", "fits", "locks", "index", "damaged")
KINDS = ("link", "dangling", "loop", "pipe", "socket", "folder", "/dev/zero", "/dev/urandom", "/dev/tty", "sparse")


class Place:
    """A folder to work in: what came from a stranger, and what the reader owns."""

    def __init__(self, folder):
        self.folder, self.results, self.ours = folder, folder / "results", folder / "ours"
        if not folder.exists():
            folder.mkdir(parents=True)
        self.fresh()

    def fresh(self):
        """Both as they were."""
        for each in (self.results, self.ours):
            shutil.rmtree(each, ignore_errors=True)
        unpack(PACK, self.results)
        self.ours.mkdir()
        for name in ("thesis.json", "thesis.safetensors", ".thesis.tmp", "thesis.html", "thesis.csv"):
            (self.ours / name).write_text(OURS)
        (self.ours / "list.json").write_text("[1]")

    @property
    def is_untouched(self):
        """Whether the reader's own files are as they were, and nothing was added."""
        found = {file.name: file.read_text() for file in self.ours.iterdir()}
        return len(found) == 6 and {*found.values()} == {OURS, "[1]"}

    def own(self, ending):
        """A file of the reader's."""
        same = [file for file in self.ours.iterdir() if file.suffix == ending]
        return same[0] if same else self.ours / "thesis.html"


def put(place, target, kind):
    """Puts something else in the place of a file or a folder."""
    target.parent.mkdir(exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    if kind == "link":
        target.symlink_to(place.ours if target.name in {*PARTS, "report-figures"} else place.own(target.suffix))
    elif kind == "dangling":
        target.symlink_to(place.ours / "absent")
    elif kind == "loop":
        target.symlink_to(target.name)
    elif kind == "pipe":
        os.mkfifo(target)
    elif kind == "socket":
        here = os.getcwd()  # noqa: PTH109  # the path of a socket is short
        os.chdir(target.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(target.name)
        os.chdir(here)
    elif kind == "folder":
        target.mkdir()
        (target / "inside").write_text("x")
    elif kind == "sparse":
        with target.open("wb") as opened:
            opened.truncate(SPARSE)
    else:
        target.symlink_to(kind)


def cases(place):
    """Every file and folder in turn as every kind of thing: a name, and what makes it."""
    results = place.results
    first = {part: min((results / part).iterdir()) for part in ("plans", "records", "arrays")}
    files = [*first.values(), results / "schema.json", results / "report.html"]
    files.append(results / "index" / f"plan.{first['plans'].stem}.safetensors")
    for target in files:
        for kind in KINDS:
            yield f"{target.relative_to(results).parts[0]} file is {kind}", target, kind
    for part in (*PARTS, "report-figures"):
        for kind in ("link", "dangling", "loop", "pipe", "/dev/zero"):
            yield f"{part}/ is {kind}", results / part, kind
    yield "a figure is link", results / "report-figures" / "accuracy-quick-mnist5k-capsnet-small-failures.csv", "link"
    for name in ("records.parquet", "arrays.parquet"):
        for kind in KINDS:
            yield f"pack: {name} is {kind}", results / name, kind


def table(**columns):
    """A table for a pack."""
    return pa.table(columns)


def packs(folder):
    """Files of packs that no packer writes: a name, and the function that writes one."""
    names = pa.array(["records/00738255cb79fb98.json", "plans/a.json"])
    two = pa.array([b"{}", b"{}"], pa.large_binary())

    def bomb(dictionary):
        one = b"0" * (256 << 20)
        files = pa.array([f"records/{number:016x}.json" for number in range(32)])
        with parquet.ParquetWriter(
            folder / "records.parquet", table(file=files[:1], content=pa.array([one], pa.large_binary())).schema,
            compression="zstd", use_dictionary=dictionary,
        ) as writer:  # fmt: skip
            for number in range(32):
                writer.write_table(table(file=files[number : number + 1], content=pa.array([one], pa.large_binary())))

    def written(content):
        parquet.write_table(content, folder / "records.parquet")

    return {
        "8 GB of zeros": lambda: bomb(False),
        "8 GB of one configuration": lambda: bomb(True),
        "no columns": lambda: written(table()),
        "other columns": lambda: written(table(a=names, b=two)),
        "one column": lambda: written(table(file=names)),
        "a third column": lambda: written(table(file=names, content=two, more=two)),
        "columns of one name": lambda: written(pa.Table.from_arrays([names, two, two], ["file", "content", "content"])),
        "swapped columns": lambda: written(table(content=names, file=two)),
        "numbers for names": lambda: written(table(file=pa.array([1, 2]), content=two)),
        "numbers for content": lambda: written(table(file=names, content=pa.array([1, 2]))),
        "lists for content": lambda: written(table(file=names, content=pa.array([[1], [2]]))),
        "text for content": lambda: written(table(file=names, content=pa.array(["{}", "{}"]))),
        "null names": lambda: written(table(file=pa.array([None, "plans/a.json"]), content=two)),
        "null content": lambda: written(table(file=names, content=pa.array([None, b"{}"], pa.large_binary()))),
        "all null": lambda: written(table(file=pa.nulls(2), content=pa.nulls(2))),
        "a name twice": lambda: written(table(file=pa.array(["plans/a.json"] * 2), content=two)),
        "a long name": lambda: written(table(file=pa.array([f"plans/{'x' * 300}.json", "plans/a.json"]), content=two)),
        "a path": lambda: written(table(file=pa.array(["plans/../../a.json", "plans/b.json"]), content=two)),
        "no rows": lambda: written(table(file=names[:0], content=two[:0])),
        "no parquet": lambda: (folder / "records.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1"),
        "nothing": lambda: (folder / "records.parquet").write_bytes(b""),
    }


DAMAGES = (
    "a record is gone", "all records are gone", "a bit of a record", "a bit of an array", "a record is cut",
    "an array is cut", "an array is a link", "a file too many", "schema.json",
)  # fmt: skip


def damages(copy):
    """What may happen to a copy in the cache: a name, and what does it."""
    record, array = min((copy / "records").iterdir()), min((copy / "arrays").iterdir())

    def flipped(file):
        content, known = bytearray(file.read_bytes()), file.stat()
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))

    return {
        "a record is gone": record.unlink,
        "all records are gone": lambda: shutil.rmtree(copy / "records"),
        "a bit of a record": lambda: flipped(record),
        "a bit of an array": lambda: flipped(array),
        "a record is cut": lambda: os.truncate(record, 20),
        "an array is cut": lambda: os.truncate(array, 20),
        "an array is a link": lambda: (array.unlink(), array.symlink_to("/dev/zero")),
        "a file too many": lambda: shutil.copy(record, record.with_name("0123456789abcdef.json")),
        "schema.json": lambda: (copy / "schema.json").write_text('{"schema": 99}'),
    }


def main():
    """The command."""
    from tests.stress.forked import call

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases with this in their name")
    only = parser.parse_args().only
    counts = {}

    def told(kind, name, is_held, ended):
        tried, held = counts.get(kind, (0, 0))
        counts[kind] = tried + 1, held + is_held
        if not is_held:
            end = "hangs" if ended.code < 0 else f"exit {ended.code}"
            sys.stdout.write(f"NOT HELD {name}: {end} {ended.error[-150:]!r}\n")
            sys.stdout.flush()

    with tempfile.TemporaryDirectory() as name:
        os.environ["ROUTEBENCH_CACHE"] = str(Path(name) / "cache")
        place = Place(Path(name) / "work")
        for case, target, kind in [*cases(place)]:
            readers = READERS if not case.startswith(("report", "a figure")) else (("report",),)
            for reader in readers if only in case else ():
                place.fresh()
                if case.startswith("pack"):
                    shutil.copytree(PACK, place.results, dirs_exist_ok=True)
                put(place, target, kind)
                ended = call(reader[0], place.results, *reader[1:], seconds=60 if reader[0] == "report" else 15)
                told("files and folders", f"{case}, {' '.join(reader)}", ended.is_told and place.is_untouched, ended)
        for case in packs(place.folder / "pack") if not only or only == "packs" else ():
            shutil.rmtree(place.folder / "pack", ignore_errors=True)
            shutil.copytree(PACK, place.folder / "pack")
            packs(place.folder / "pack")[case]()
            before = sum(file.stat().st_size for file in Path(name).rglob("*") if file.is_file())
            ended = call("status", place.folder / "pack", seconds=60, gigabytes=6)
            grown = sum(file.stat().st_size for file in Path(name).rglob("*") if file.is_file()) - before
            told("packs", f"a pack with {case}", ended.is_told and ended.code and grown < 1 << 20, ended)
        shutil.rmtree(place.folder / "pack", ignore_errors=True)
        shutil.copytree(PACK, place.folder / "pack")
        expected = call("export", place.folder / "pack", "--format", "csv").out
        unpacked = Path(name) / "cache" / "unpacked"
        for case in DAMAGES if not only or only == "copies" else ():
            # packs that held nothing left copies without a record
            damages(next(each for each in unpacked.iterdir() if any((each / "records").glob("*"))))[case]()
            found = call("export", place.folder / "pack", "--format", "csv")
            told("copies", f"a copy of which {case}", not found.error and found.out == expected != "", found)
    for kind, (tried, held) in counts.items():
        sys.stdout.write(f"{kind}: {held} of {tried} held\n")
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
