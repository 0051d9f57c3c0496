"""One function in a process of its own: it answers, or how it ended is said."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import reduction, util
from pathlib import Path

import pytest

from routebench.engine.isolation import Ended, Scratch, _alone, alone, send, step
from routebench.errors import UserError


def _divided(one: int, other: int) -> tuple[int, int]:
    return divmod(one, other)


def _refuse():
    raise UserError("expected more")


def _leave():
    os._exit(0)


def _litter(note, how, deed):
    """Leaves a process in a session of its own whose parent is gone, and files in the temporary folder."""
    tempfile.mkdtemp()
    Path(tempfile.gettempdir(), "left").write_text("left")
    if how == "program":
        subprocess.run(["sh", "-c", f"setsid sh -c 'echo $$ > {note}; sleep 1000' > /dev/null 2>&1 &"], check=True)
    elif os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note.write_text(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    while not (note.exists() and note.read_text()):
        time.sleep(0.01)
    deed()
    return tempfile.gettempdir()


def _crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise():
    raise RuntimeError("torn apart")


def _sleep():
    time.sleep(1000)


def _take_steps(deed):
    with step("plug-in", "fine.py"):
        pass
    with step("method", "mine"):
        deed()


def _leave_a_lock(file):
    """With a finaliser as multiprocessing gives to a lock, which takes its time."""
    util.Finalize(None, lambda: (time.sleep(0.5), file.write_text("removed")), exitpriority=0)


def _fork():
    """In C, so that the other process keeps the pipe open when this one has crashed."""
    if ctypes.CDLL(None).fork() == 0:
        time.sleep(1000)
    _crash()


def test_it_answers():
    assert alone(_divided, 7, 2) == (3, 1)


def test_errors_of_the_user_are_passed_on():
    with pytest.raises(UserError, match="expected more"):
        alone(_refuse)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_leave, r"ended its process with exit code 0, as os\._exit does"),
        (_crash, r"killed its process: .*\(SIGSEGV\) at test_alone\.py:\d+ \(_crash\)"),
        (_raise, r"raised RuntimeError: torn apart \(test_alone\.py:\d+\)"),
        (_sleep, r"ran past 1\.5 s and was stopped"),
        (sys.exit, r"ended its process, as sys\.exit\(None\) does"),
    ],
)
def test_whatever_ends_or_hangs_is_told(function, told):
    with pytest.raises(Ended, match=told):
        alone(function, limit=1.5 if function is _sleep else 60)


@pytest.mark.parametrize(("deed", "told"), [(_leave, "exit code 0"), (_raise, "torn"), (_fork, "SIGSEGV")])
def test_the_step_is_told_at_which_it_ended(deed, told):
    with pytest.raises(Ended, match=told) as caught:
        alone(_take_steps, deed)
    assert caught.value.during == ("method", "mine")


def test_a_step_has_a_limit_of_its_own_and_is_told_when_it_takes_long(monkeypatch, caplog):
    monkeypatch.setattr("routebench.engine.isolation._alone.SILENT", 0.2)
    with pytest.raises(Ended, match=r"ran past 1 s and was stopped") as caught:
        alone(_take_steps, _sleep, each=1.0)
    assert caught.value.during == ("method", "mine")
    assert [record.getMessage() for record in caplog.records] == ["waiting for method mine, for at most 1 s"]


def _interrupt_all():
    """As Ctrl-C in a terminal does."""
    os.killpg(os.getpgrp(), signal.SIGINT)


def _begin_and_be_interrupted(moment):
    """While the process is asked for, or while the one that it is forked from imports."""
    send = reduction.sendfds
    if moment == "asked":
        alone(_divided, 7, 2)
        reduction.sendfds = lambda *arguments: (send(*arguments), _interrupt_all())
    else:
        Path("importing.py").write_text("from tests.engine.test_alone import _interrupt_all\n_interrupt_all()\n")
    try:
        alone(_sleep, preload=["importing"])
    except KeyboardInterrupt:
        reduction.sendfds = send
        sys.stdout.write(f"interrupted, {alone(_divided, 7, 2)}\n")


@pytest.mark.parametrize("moment", ["asked", "importing"])
def test_an_interrupt_while_a_process_starts_ends_it_without_a_word(moment, heard, tmp_path):
    code = f"from tests.engine import test_alone; test_alone._begin_and_be_interrupted({moment!r})"
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, text=True,
        capture_output=True, start_new_session=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("interrupted, (3, 1)\n", "")


def test_a_function_that_answered_removes_its_locks(tmp_path):
    alone(_leave_a_lock, tmp_path / "lock")
    assert (tmp_path / "lock").read_text() == "removed"


@pytest.mark.skipif(sys.platform != "linux", reason="it looks for orphans in /proc")
@pytest.mark.parametrize("how", ["program", "fork"])
@pytest.mark.parametrize("deed", [dict, _leave, _crash, _raise, _sleep])
def test_what_a_function_leaves_is_cleared(tmp_path, monkeypatch, how, deed):
    note = tmp_path / "number"
    with tempfile.TemporaryDirectory(prefix="own-") as own:  # shorter than `tmp_path`
        monkeypatch.setattr(tempfile, "tempdir", own)
        try:
            folder = alone(_litter, note, how, deed, limit=5.0)
        except Ended:
            folder = None
        assert folder is None or not Path(folder).exists()
        assert not [*Path(own).glob("routebench-*")]
    assert _is_ending(Path("/proc", note.read_text().strip()))


def _is_ending(place):
    """Whether a process is gone, dead, or has been killed and lets go of its memory, which takes the system a while."""
    try:
        flags = int((place / "stat").read_text().rpartition(")")[2].split()[6])
    except FileNotFoundError:
        return True
    return bool(flags & 0x4)  # PF_EXITING in the kernel's include/linux/sched.h


def _steps_without_an_end() -> None:
    with step("plug-in", "mine.py"):
        while True:
            send("step", (None, False))


def test_steps_without_an_end_are_no_answer(monkeypatch):
    monkeypatch.setattr(_alone, "MOST_STEPS", 1000)
    with pytest.raises(Ended, match="sent what cannot be read") as caught:
        alone(_steps_without_an_end)
    assert caught.value.during == ("plug-in", "mine.py")


OWNER = """
import os, signal, sys
from routebench.engine.isolation import Scratch, _alone, send
folder = Scratch()
print(folder.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "dies" else sys.stdin.read()
"""


def owner(place, how):
    """A process with a temporary folder, and the folder."""
    environment = {**os.environ, "TMPDIR": str(place)}
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    process = subprocess.Popen([sys.executable, "-c", OWNER, how], **given)
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
def test_folders_of_killed_processes_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    alive, held = owner(tmp_path, "lives")
    with alive:
        dead, left = owner(tmp_path, "dies")
        with dead:
            dead.communicate()
        assert left.is_dir()
        others = [tmp_path / f"routebench-{name}" for name in ("beginning", "link", "own")]
        for other in others:
            other.mkdir()
        (others[1] / "lock").symlink_to(tmp_path / "precious")
        (tmp_path / "precious").write_text("precious")
        with monkeypatch.context() as stranger:
            stranger.setattr(os, "getuid", lambda: left.stat().st_uid + 1)
            Scratch().cleanup()
            assert left.is_dir()
        with Scratch() as name:
            assert {Path(name), held, *others} == {*tmp_path.glob("routebench-*")}
        alive.communicate("")
    assert {*tmp_path.iterdir()} == {*others, tmp_path / "precious"}
