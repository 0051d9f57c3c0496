"""The README's plug-in is the file in examples/, and that file runs, is shown and is reported as the README says."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "my_routing.py"


def test_readme_shows_the_example_as_it_is():
    assert f"```python\n{EXAMPLE.read_text()}```" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "suites/tracking/README.md"])
def test_commands_of_make_exist(document):
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ": " in line}
    lines = (ROOT / document).read_text().splitlines()
    called = {word for line in lines if line.startswith("    make ") for word in line.split("#")[0].split()[1:]}
    assert {word for word in called if "=" not in word} <= targets


@pytest.fixture(scope="module")
def run_beside_ours(tmp_path_factory):
    """The README's command, at the size of a smoke test."""
    folder = tmp_path_factory.mktemp("example")
    suite = [sys.executable, "-m", "routebench", "suite", "accuracy", "--preset", "smoke", "--results", str(folder)]
    command = [*suite, "--plugin", str(EXAMPLE), "--method", "cosine[sharpness=2.0]", "--method", "uniform"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_example_is_measured_over_its_iterations(run_beside_ours):
    folder, _ = run_beside_ours
    records = pd.DataFrame(json.loads(file.read_text())["identity"] for file in folder.glob("records/*.json"))
    mine = records[records["method"] == "cosine"]
    assert 1 in set(mine["iterations"])
    assert len(set(mine["iterations"])) > 1
    assert all(params["sharpness"] == 2.0 for params in mine["method_params"])


def test_example_stands_in_table_and_report(run_beside_ours):
    folder, printed = run_beside_ours
    assert "cosine" in printed
    pages = list(folder.glob("**/*.html"))
    assert pages
    assert all("cosine" in page.read_text() for page in pages)
