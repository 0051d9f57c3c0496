"""Plug-ins that crash, end or hang whoever imports them or makes what they define: only a child process does."""

import pytest
from click.testing import CliRunner

from routebench.cli import cli
from routebench.engine.suites import Asked, Choices, make_plans
from routebench.errors import UserError
from routebench.notation import parse
from routebench.registry import routing
from tests.command import import_once
from tests.plugins.texts import method

HOW = {
    "raises": ("raise RuntimeError('torn')", "RuntimeError: torn"),
    "exits": ("import sys; sys.exit(3)", "3"),
    "leaves": ("import os; os._exit(0)", "ended its process with exit code 0, as os._exit does"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "forks": ("import ctypes; ctypes.CDLL(None).fork() or ctypes.CDLL(None).sleep(99); ctypes.string_at(0)", "SIGSEGV"),
    "sleeps": ("import time; time.sleep(1000)", "ran past 3 s and was stopped"),
}
INIT = "    def __init__(self, sizes):\n        super().__init__(sizes)\n        {deed}\n\n    def route"
AT_IMPORT = ("leaves", "forks", "sleeps")
MUTE = "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute"


def made_with(deed, name):
    """The text of a method whose `__init__` does something."""
    return method(name).replace("    def route", INIT.format(deed=deed))


def planned(plugins, *methods):
    import_once()  # which is no part of the seconds that a plug-in has
    specs = tuple(map(parse, methods))
    found = make_plans(Asked("accuracy", "smoke", Choices(methods=specs), tuple(map(str, plugins))), 3.0)
    reasons = {cell.identity.method: cell.broken for cell in found.plans[0].cells if cell.identity.seed == 0}
    return found, reasons


def test_the_worst_plugins_become_failed_cells_and_the_others_are_planned(write):
    """Those that import but cannot be made, and those that do not import."""
    plugins = [write({f"make_{name}.py": made_with(deed, f"make-{name}")}) for name, (deed, _) in HOW.items()]
    plugins += [write({f"import_{name}.py": method(f"import-{name}") + HOW[name][0]}) for name in AT_IMPORT]
    plugins.append(write({"import_mute.py": MUTE}))
    plugins.append(write({"fine.py": method("fine")}))
    found, reasons = planned(plugins)
    for name, (_, told) in HOW.items():
        assert reasons[f"make-{name}"].startswith("it cannot be made: it "), reasons
        assert told in reasons[f"make-{name}"]
    for name in AT_IMPORT:
        assert f"import_{name}.py failed to import: it " in reasons[f"import_{name}"]
        assert HOW[name][1] in reasons[f"import_{name}"]
    assert "Mute: its message cannot be had" in reasons["import_mute"]
    assert reasons["fine"] == reasons["uniform"] == ""
    assert [spec.rpartition("/")[2] for spec in found.plugins] == [*(f"make_{name}.py" for name in HOW), "fine.py"]
    assert all("\n" not in warning for warning in found.warnings)
    assert len(found.warnings) == len(AT_IMPORT) + 1
    assert found.plans[0].is_foreign
    assert "fine" not in routing  # nothing was imported here


def test_a_cell_names_the_plugins_that_it_needs_and_no_others(write):
    files = [write({f"{name}.py": method(name)}) for name in ("mine", "other")]
    found, _ = planned(files, "mine", "dynamic")
    needed = {cell.identity.method: cell.plugins for cell in found.plans[0].cells}
    assert {name: plugins for name, plugins in needed.items() if plugins} == {"mine": (str(files[0]),)}
    labels = {cell.label for cell in found.plans[0].cells}
    assert {"mine", "dynamic"} <= labels


def test_data_that_ends_the_process_is_one_line(write):
    text = "from routebench import datasets\n@datasets.register('dark')\ndef dark():\n    import os; os._exit(5)\n"
    with pytest.raises(UserError, match=r"^data set dark: expected it to answer .* exit code 5"):
        make_plans(Asked("accuracy", "smoke", Choices(data="dark"), (str(write({"dark.py": text})),)))


SPEAKS = """
import os, time
from routebench.engine.isolation import send
from routebench.engine.isolation._process import _main
from routebench.engine.suites._planning import Planned
def say(line):
    for end in _main:
        os.write(end.fileno(), line)
{deed}
time.sleep(1000)
"""
FORGED = ("Planned([])", "None")
UNREADABLE = (
    "b'[]\\n'",
    "b'[\"answer\"'",
    "b'[\"step\", ' + b'[' * 5000 + b'\\n'",
    "b'\\xff\\n'",
    "b'7' * 6000 + b'\\n'",
)


@pytest.mark.parametrize(
    "deed", [*(f"send('answer', {answer})" for answer in FORGED), *map("say({})".format, UNREADABLE)]
)
def test_a_plugin_that_speaks_for_the_planner_becomes_a_failed_cell(write, deed):
    found, reasons = planned([write({"speaks.py": method("speaks") + SPEAKS.format(deed=deed)})])
    is_half = not deed.endswith("\\n')") and deed.startswith("say")
    assert ("ran past 3 s" if is_half else "it sent what cannot be read") in reasons["speaks"]
    assert reasons["uniform"] == ""
    assert len(found.warnings) == 1


def test_the_environment_is_left_to_the_child(write, call):
    """A plug-in of ROUTEBENCH_PLUGINS that ends its process ends no command that plans."""
    file = write({"ends.py": method("ends") + "\nimport os; os._exit(0)\n"})
    done = call("suite", "accuracy", "--preset", "smoke", "--method", "ends", "--dry-run", ROUTEBENCH_PLUGINS=str(file))
    assert done.code == 0, done.error
    assert "ended its process with exit code 0" in done.error
    assert "0 cached, 0 failed" in done.out


@pytest.mark.parametrize("command", ["list", "cite dynamic", "check dynamic", "report tests/packs/accuracy-quick"])
def test_a_plugin_that_never_ends_its_import_ends_the_command_that_asked_for_it(write, tmp_path, monkeypatch, command):
    monkeypatch.setattr("routebench.engine.isolation._alone.STEP_LIMIT", 2.0)
    import_once()
    file = write({"sleepy.py": "import time; time.sleep(1000)"})
    where = ["-o", str(tmp_path / "page.html")] if command.startswith("report") else []
    with pytest.raises(UserError, match="ran past 2 s and was stopped"):
        CliRunner().invoke(cli, [*command.split(), *where, "--plugin", str(file)], catch_exceptions=False)
