"""What a process says is read without waiting and without running anything of it."""

import json
import os
import pickle
import subprocess
import sys
import time

import pytest

from routebench.conformance import Checkup, Finding, Kind, Status
from routebench.engine.isolation import Ended, Unreadable, alone, taken
from routebench.engine.isolation import _process as process_module
from routebench.engine.isolation._messages import Inbox, line_of, plain
from routebench.engine.running._config import Stage
from routebench.engine.suites import Asked, Choices
from routebench.engine.suites._planning import Planned, plans_of


class Runs:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return os._exit, (7,)


FORGED = {
    "no JSON": b"garbage\n",
    "half a message": b'["answer", ',
    "a connection's own header and no more": b"\x00\x10\x00\x00abc",
    "a pickle": pickle.dumps(("answer", Runs())) + b"\n",
    "another kind": b'["deed", 1]\n',
    "a kind that is a table": b"[{}, 1]\n",
    "no pair": b"[1]\n",
    "a number": b"5\n",
    "no UTF-8": b'["answer", "\xff\xfe"]\n',
    "an answer of another type": b'["answer", {"a": 1}]\n',
    "a step without words": b'["step", 5]\n',
    "a step of numbers": b'["step", [[1, 2], true]]\n',
    "a text that is none": b'["ended", {"a": []}]\n',
    "tables within tables": b'["answer", ' + 100_000 * b"[" + b"\n",
    "a number of 5,000 digits": b'["answer", [1, ' + 5000 * b"9" + b"]]\n",
    "steps without end": b'["step", [null, false]]\n',
}
ENDLESS = ("steps without end",)
HANGS = ("half a message", "a connection's own header and no more", *ENDLESS)


def _says(text: bytes, again: bool) -> tuple[int, int]:
    """Writes to the connection to its starter, and goes on as if nothing were."""
    (sender,) = process_module._main
    while True:
        os.write(sender.fileno(), text)
        if not again:
            time.sleep(1000)


@pytest.mark.parametrize("name", FORGED)
def test_what_cannot_be_read_ends_the_call_alone(name):
    told = r"ran past 1 s and was stopped" if name in HANGS else "sent what cannot be read"
    with pytest.raises(Ended, match=told):
        alone(_says, FORGED[name], name in ENDLESS, limit=1.0 if name in HANGS else 60.0)


def _unsendable() -> object:
    return object()


def test_an_answer_that_no_message_holds_is_told():
    with pytest.raises(Ended, match="raised TypeError: expected what JSON holds, got object"):
        alone(_unsendable)


def test_messages_come_whole_however_they_arrive():
    reader, writer = os.pipe()
    inbox, lines = Inbox(reader), [line_of("stage", Stage(0.5, "é\n\udc80")), line_of("answer", [1, None, 2.5])]
    found = []
    for byte in b"".join(lines):
        os.write(writer, bytes([byte]))
        found += [inbox.next()]
    assert [one for one in found if one] == [
        ("stage", {"Stage": {"share": 0.5, "doing": "é\n\\udc80"}}), ("answer", [1, None, 2.5])
    ]  # fmt: skip
    assert inbox.next() is None
    os.close(writer)
    with pytest.raises(EOFError):
        inbox.next()
    os.close(reader)


@pytest.mark.parametrize("suite", ["accuracy", "iterations", "cost", "robustness"])
def test_a_plan_arrives_as_it_was(suite, no_data):
    tuning = suite == "accuracy"
    made = plans_of(Asked(suite, "quick", Choices(tuning=tuning)), {})
    found = taken(Planned, json.loads(json.dumps(plain(made))))
    assert plain(found) == plain(made)
    (one,), (other,) = found.plans, made.plans
    assert [cell.key for cell in one.cells] == [cell.key for cell in other.cells]
    assert [(cell.label, str(cell), cell.settings) for cell in one.cells] == [
        (cell.label, str(cell), cell.settings) for cell in other.cells
    ]
    assert (one.networks, one.caveat, one.primary_pairs) == (other.networks, other.caveat, other.primary_pairs)
    assert one.suite.tuning == other.suite.tuning


def test_a_checkup_arrives_as_it_was():
    made = Checkup("mine", 0, "cpu", (Finding("finite", Kind.REQUIRED, Status.WRONG, "nan", deviation=float("inf")),))
    assert taken(Checkup, json.loads(json.dumps(plain(made)))) == made


@pytest.mark.parametrize("content", [{"share": "1"}, {"share": True}, {"doing": 5}, {"more": 1}, [], {"share": None}])
def test_a_stage_of_other_types_is_refused(content):
    with pytest.raises(Unreadable):
        taken(Stage, {"Stage": content})


@pytest.mark.parametrize(("share", "kept"), [(float("nan"), 0.0), (1e308, 1.0), (-1, 0.0), (0.25, 0.25)])
def test_a_stage_has_a_share_and_few_words(share, kept):
    stage = Stage(share, "\x1b[2J" + 10_000 * "x")
    assert stage.share == kept
    assert stage.doing.startswith("\\x1b[2J")
    assert len(stage.doing) < 300


ORPHAN = """
import multiprocessing, sys
from routebench.engine.isolation import _process
receiver, sender = multiprocessing.Pipe(duplex=False)
receiver.close()
_process._answer(sender, sys.argv[1], print, ("unheard",))
"""


def test_a_process_whose_starter_was_killed_ends_without_a_word(tmp_path):
    done = subprocess.run([sys.executable, "-c", ORPHAN, tmp_path / "output"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
