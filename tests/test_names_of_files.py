"""Names that are no UTF-8, steer a terminal or have several lines: commands take them, and show them printable."""

import os

import pytest

from routebench.engine.suites import load_suite
from routebench.errors import shown
from routebench.report import write_report
from tests.command import Command
from tests.stress.names import NAME, is_held, readers, writers
from tests.stress.scenario import QUICK


@pytest.fixture
def call(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "cache"))
    return Command(tmp_path, capfd)


def test_commands_that_read_results(call, tmp_path):
    for name, words in readers(tmp_path).items():
        ended = call(*words)
        assert is_held(ended), (name, ended)
        is_wrong = name.startswith(("an ", "unknown")) or name in {"cite", "a key"}
        assert (ended.code == 2) == is_wrong, (name, ended)
    for file in (f"{NAME}.csv", f"{NAME}.tex", f"{NAME}.txt"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert "\x1b" not in text
    assert r"n\udcff" in (tmp_path / f"{NAME}.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["results", "a suite", "a plug-in", "data"])
def test_suites_are_run_and_reported(call, tmp_path, name):
    ended = call(*writers(tmp_path)[name])
    assert is_held(ended)
    assert ended.code == 0, ended
    (page,) = tmp_path.glob("*/report.html")
    assert "\x1b" not in page.read_text(encoding="utf-8")


def test_a_page_names_its_folder(tmp_path):
    from tests.analysis.made_up_folder import write_folder
    from tests.analysis.made_up_runs import made_up_records

    folder = write_folder(tmp_path / NAME, made_up_records(seeds=1, failures=False))
    text = write_report(folder).page.read_text(encoding="utf-8")
    assert r"n\udcff\x1b[31mx\ny</code>" in text


def test_texts_of_a_suite_are_those_that_records_hold(tmp_path):
    file = tmp_path / f"{NAME}.toml"
    suite = QUICK.format(seeds=1, seconds=0, journal="").replace("How bright", r"a\u001b[31m")
    file.write_text(suite.replace('protocol = "brightness"', 'protocol = "accuracy"').replace("seconds = 0", ""))
    text = file.read_text().replace('journal = ""', "").replace("digits200", "mnist5k")
    file.write_text(text)
    found = load_suite(str(file))
    assert found.name == shown(NAME) == r"n\udcff\x1b[31mx\ny"
    assert found.question == r"a\x1b[31m are digits?"


def test_a_link_in_a_notebook_is_an_address(tmp_path, monkeypatch):
    from routebench.engine.running import Counts
    from routebench.interface import SuiteRun

    monkeypatch.chdir(tmp_path)
    page = tmp_path / "javascript:alert(1)" / NAME
    run = SuiteRun(tmp_path, (), Counts(*[0] * len(Counts.__dataclass_fields__)), page)
    shown_there = run._repr_html_()
    assert 'href="javascript%3Aalert%281%29/n%FF' in shown_there
    assert os.fsencode(page)
