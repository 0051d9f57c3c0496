"""Files that users ask for."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from routebench.atomic import (
    OLD,
    StoreFull,
    clear_leftovers,
    expect_empty,
    filled,
    taken_away,
    told_when_full,
    unfinished,
    write_output,
)
from routebench.engine.results import Store
from routebench.engine.suites import ChosenSettings
from routebench.errors import UserError
from routebench.report._block import replace_files

PACKAGE = Path(__file__).parents[1] / "routebench"
MAKES = """
import os, signal, sys
from pathlib import Path
from routebench import atomic
with atomic.unfinished(Path(sys.argv[1])) as made:
    (made / "some").write_text("much")
    print(made, flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "dies" else sys.stdin.read()
"""


def test_output_is_replaced_by_a_whole_one_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "out.csv"
    write_output(file, "old", "the table")
    write_output(file, b"new", "the table")
    assert file.read_bytes() == b"new"

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match=r"the table cannot be written to .*: the disk is full; choose with -o"):
        write_output(file, b"newer", "the table")
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "link.html").symlink_to("page.html")
    write_output(tmp_path / "link.html", "new", "the report")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "page.html").read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_output(pipe, "new", "the report")
    reader.join(10)
    assert read == ["new"]
    assert pipe.is_fifo()


PRINTS = """
import sys
from routebench.atomic import Path, write_output
print("first")
write_output(Path(sys.argv[1]), "new\\n", "it")
print("last")
"""


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="open files have no paths")
@pytest.mark.parametrize("way", ["/dev/stdout", "/dev/fd/1", "link"])
@pytest.mark.parametrize("to", ["a pipe", "a file", "a file that is gone"])
def test_standard_output_is_written_to_whatever_it_is(tmp_path, way, to):
    """Standard output may lead to what has no path that can be opened, or holds more already."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    before, file, expected = {*tmp_path.iterdir()}, tmp_path / "file", [b"before", b"first", b"new", b"last"]
    command, env = [sys.executable, "-c", PRINTS, way], {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    with file.open("w+b") as opened:
        opened.write(b"" if to == "a pipe" else b"before\n")
        opened.flush()
        if to != "a file":
            file.unlink()
        done = subprocess.run(
            command, cwd=tmp_path, env=env, stdout=subprocess.PIPE if to == "a pipe" else opened, check=True
        )
        opened.seek(0)
        assert (opened.read() + (done.stdout or b"")).split() == expected[to == "a pipe" :]
    assert {*tmp_path.iterdir()} == before | ({file} if to == "a file" else set())


ADDS = """
import os, sys
from routebench.atomic import Path, write_output
os.write(int(sys.argv[1]), b"first ")
write_output(Path(sys.argv[2]), "new ", "it")
os.write(int(sys.argv[1]), b"last")
"""


@pytest.mark.parametrize("way", ["", "link", "link to a link", "linked folder"])
@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_the_process_was_given_open_is_added_to(tmp_path, folder, is_there, way):
    """Put in its place, a new one would lose what is in it, and what is added to it afterwards."""
    if not Path(folder).exists():
        pytest.skip("open files have no such paths")
    file, env = tmp_path / "file", {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    with file.open("w+b") as opened:
        if not is_there:
            file.unlink()
        number = opened.fileno()
        places = {"": f"{folder}/{number}", "link": "links/one", "link to a link": "links/two"}
        links = tmp_path / "links"
        links.mkdir()
        (links / "one").symlink_to(places[""])
        (links / "two").symlink_to("one")
        (links / "folder").symlink_to(folder)
        command = [sys.executable, "-c", ADDS, str(number), places.get(way, f"links/folder/{number}")]
        subprocess.run(command, cwd=tmp_path, env=env, pass_fds=(number,), check=True)
        opened.seek(0)
        assert opened.read() == b"first new last"
    assert {*tmp_path.iterdir()} == {links, *[file] * is_there}
    assert {*links.iterdir()} == {links / "one", links / "two", links / "folder"}


def maker(target, how):
    """A process that makes something in an unfinished folder, and the folder."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", MAKES, target, how], **pipes)
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
@pytest.mark.parametrize("name", ["new", "[a] *", "n" * 250])
def test_what_a_killed_process_left_goes_when_the_same_is_made_again(tmp_path, name):
    target = tmp_path / name
    mine, foreign = (tmp_path / f".{name[:200]}.{end}.tmp" for end in ("mine", f"{'0' * 8}.{'1' * 8}"))
    mine.mkdir()
    foreign.mkdir()  # of another machine
    alive, held = maker(target, "lives")
    with alive:
        dead, left = maker(target, "dies")
        with dead:
            dead.communicate()
        assert (left / "some").exists()
        with unfinished(target) as made:
            assert {*tmp_path.iterdir()} == {made, held, mine, foreign}
        os.utime(foreign, (time.time() - OLD - 60,) * 2)
        write_output(target, "text", "the table")
        assert {*tmp_path.iterdir()} == {target, held, mine}
        alive.communicate("")
    assert {*tmp_path.iterdir()} == {target, mine}


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_that_is_there_stays_and_a_new_one_appears_whole(tmp_path, is_there):
    """A disk may be mounted there: it cannot be moved, nor anything to it but what lies on it."""
    folder = tmp_path / "new" / "folder"
    if is_there:
        folder.mkdir(parents=True)
    known = folder.stat().st_ino if is_there else None
    with pytest.raises(IsADirectoryError), filled(folder, "b") as made:
        made.write_text("no file")
    assert folder.exists() == is_there and not [*tmp_path.rglob(".*")]
    with filled(folder, "b") as made:
        (made / "c").mkdir()
        for name in ("b", "a", "c/d"):
            (made / name).write_text(name)
        assert made.is_relative_to(folder) == is_there
    assert [*map(str, sorted(file.relative_to(folder) for file in folder.rglob("*")))] == ["a", "b", "c", "c/d"]
    assert known in (None, folder.stat().st_ino) and [*folder.parent.iterdir()] == [folder]


@pytest.mark.parametrize("reached", ["b", "c", "settings", "z"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_folder_that_is_there_has_nothing_new_after_an_error(tmp_path, monkeypatch, reached, error):
    """Else the same command finds what it moved, and refuses the folder."""

    def move(source, target, *, really=os.replace):
        if Path(source).name == reached and Path(source).parent != tmp_path:
            raise error
        really(source, target)

    def fill():
        with filled(tmp_path, "b") as made:
            (made / "c").mkdir()
            for name in ("b", "settings", "z"):
                (made / name).write_text("same")

    (tmp_path / "settings").write_text("same")
    monkeypatch.setattr(os, "replace", move)
    with pytest.raises(type(error)):
        fill()
    assert [file.name for file in tmp_path.iterdir()] == ["settings"]
    monkeypatch.undo()
    fill()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b", "c", "settings", "z"]


def test_a_full_disk_is_told_by_the_folder_that_is_to_be_there(tmp_path):
    """Not by the hidden one that goes with the error."""
    with unfinished(tmp_path / "new") as made:
        for folder in (tmp_path, made, made / "whole" / "records"):
            with pytest.raises(StoreFull, match=f"results folder: '{tmp_path}' takes no more"), told_when_full(folder):
                raise OSError(28, "No space left on device")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
def test_a_folder_is_empty_again_without_what_killed_commands_left_in_it(tmp_path):
    folder = tmp_path / "disk"
    expect_empty(folder)
    folder.mkdir()
    dead, left = maker(folder / "plans", "dies")
    with dead:
        dead.communicate()
    assert [*folder.iterdir()] == [left]
    expect_empty(folder)
    assert not [*folder.iterdir()]
    alive, held = maker(folder / "plans", "lives")
    with alive:
        with pytest.raises(UserError, match="is not empty; name another folder with -o"):
            expect_empty(folder)
        assert [*folder.iterdir()] == [held]
        alive.communicate("")
    (folder / ".mine.tmp").write_text("the user's own")
    os.utime(folder / ".mine.tmp", (0, 0))
    with pytest.raises(UserError, match="is not empty"):
        expect_empty(folder)
    assert (folder / ".mine.tmp").exists()


FILLS = """
import os, sys
from pathlib import Path
from routebench.atomic import filled
move, count = os.replace, 0
def dies(source, target):
    global count
    move(source, target)
    count += Path(target).parent == Path(sys.argv[1])
    if count == int(sys.argv[2]):
        os._exit(9)
os.replace = dies
with filled(Path(sys.argv[1]), "last") as made:
    (made / "a").mkdir()
    for name in ("a/inner", "b", "last"):
        (made / name).write_text("new")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
@pytest.mark.parametrize("moves", [1, 2, 3])
@pytest.mark.parametrize("mine", ["b", "unlike"])
def test_what_a_killed_process_had_moved_goes_unless_all_was(tmp_path, moves, mine):
    """Else the same command finds it in its way, and a reader takes a part for the whole."""
    folder, code = tmp_path / "disk", [sys.executable, "-c", FILLS]
    folder.mkdir()
    (folder / "own").write_text("mine")
    assert subprocess.run([*code, folder, str(moves)], check=False).returncode == 9
    if (folder / mine).exists():  # somebody has put another one there
        (folder / mine).rename(folder / "before")
        (folder / mine).write_text("mine")
    left = {file.name for file in folder.iterdir() if file.name[0] != "."}
    clear_leftovers(folder)
    gone = set() if moves == 3 else {"a", "b"} - {name for name in (mine,) if (left & {"before"})}
    assert {file.name for file in folder.iterdir()} == left - gone
    assert (folder / "own").read_text() == "mine"


def test_names_in_what_is_unfinished_lead_nowhere_else(tmp_path):
    """A folder may come from anybody."""
    left, mine = tmp_path / "results" / ".last.00000000.11111111.tmp", tmp_path / "mine"
    left.mkdir(parents=True)
    for file in (mine, left / "last"):
        file.write_text("mine")
    names = {"last": 0, "../mine": mine.lstat().st_ino, str(mine): mine.lstat().st_ino}
    (left / ".moved").write_text(json.dumps(names))
    os.utime(left, (0, 0))
    clear_leftovers(left.parent)
    assert mine.exists() and not left.exists()


def test_what_is_taken_away_comes_back_after_an_error(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    files = [tmp_path / name for name in ("a", "b", "folder", "link", "none")]
    before = {*tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        _take_away(files, KeyboardInterrupt())
    assert {*tmp_path.iterdir()} == before
    _take_away(files, None)
    assert {*tmp_path.iterdir()} == {tmp_path / "folder"}


def _take_away(files, error):
    with unfinished(files[0].with_name("page")) as made, taken_away(files, made):
        assert {*made.parent.iterdir()} == {made.with_name("folder"), made}
        if error:
            raise error


def test_folders_that_become_what_is_asked_for_are_made_in_one_way():
    """A command that was killed else leaves gigabytes under a hidden name, for ever."""
    made = {str(file) for file in PACKAGE.rglob("*.py") if re.search(r"TemporaryDirectory\(.*dir=", file.read_text())}
    assert not made


def _fill(folder):
    with filled(folder, "plans") as made:
        (made / "plans").mkdir()
        raise OSError(28, "No space left on device")


DEEDS = {
    "a file": lambda path: write_output(path, "new", "the table"),
    "a folder": _fill,
    "results": lambda path: Store(path).prepare(),
    "settings": lambda path: ChosenSettings("a", 1, "p", "d", 1, 1, "0", []).write(path),
    "figures": lambda path: replace_files([], path, set(), lambda: write_output(path / "x", "new", "the page")),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("there", ["", "there"])
def test_a_full_disk_leaves_no_folder_that_was_made_for_what_it_did_not_take(tmp_path, monkeypatch, there, deed):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    (tmp_path / there).mkdir(exist_ok=True)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises((UserError, OSError)):
        DEEDS[deed](tmp_path / there / "on" / "the way" / "out")
    assert [*tmp_path.rglob("*")] == [tmp_path / there] * bool(there)
