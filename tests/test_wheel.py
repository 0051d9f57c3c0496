"""`pip install .` gives a working routebench outside the checkout: suites, analyses, templates and facts travel too."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of a clean environment that holds the wheel.

    What routebench depends on is not installed again: the environment reads it from the one that the tests run in.
    `site.addsitedir` is not used for that, so that the editable routebench, which a .pth file there adds, stays out.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    target = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    run(*pip, cwd=home)
    Path(target, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run(*command, cwd):
    """Standard output of a command that must succeed; what it said on failure is shown.

    The wheel's routebench is asked for, also where PYTHONPATH names another.
    """
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [str(part) for part in command]
    done = subprocess.run(call, cwd=cwd, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheel_holds_what_the_checkout_has(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    suites = {
        f"routebench/{file.relative_to(ROOT)}" for kind in ("toml", "json") for file in ROOT.glob(f"suites/*.{kind}")
    }
    analyses = {f"routebench/{file.relative_to(ROOT)}" for file in ROOT.glob("analyses/*.py")}
    package = {
        str(file.relative_to(ROOT))
        for file in ROOT.glob("routebench/**/*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert suites
    assert analyses
    assert {"routebench/py.typed", "routebench/papers/smith/published.csv"} <= package
    assert suites | analyses | package == {name for name in packed if name.startswith("routebench/")}


def test_the_source_archive_has_the_golden_numbers_and_what_runs_them(tmp_path):
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    golden = {str(file.relative_to(ROOT)) for file in ROOT.glob("tests/golden/*") if file.is_file()}
    assert {"Makefile", "constraints.txt", "tests/conftest.py", "tests/golden/golden.json", *golden} <= packed


def test_wheel_runs_outside_the_checkout(python, tmp_path):
    where = run(python, "-c", "import routebench; print(routebench.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parents[1])

    methods = json.loads(run(python, "-m", "routebench", "list", "methods", "--json", cwd=tmp_path))
    assert {"dynamic", "em", "uniform"} <= {method["name"] for method in methods}
    assert "accuracy" in run(python, "-m", "routebench", "list", "suites", cwd=tmp_path)
    without_torch = "import sys; from routebench.catalogue import catalogue; catalogue(); print('torch' in sys.modules)"
    assert run(python, "-c", without_torch, cwd=tmp_path) == "False\n"


@pytest.fixture(scope="module")
def measured(python, tmp_path_factory):
    """What the README's command for a plug-in prints and leaves, at the size of a smoke test on few images."""
    folder = tmp_path_factory.mktemp("measured")
    suite = [python, "-m", "routebench", "suite", "accuracy", "--preset", "smoke", "--data", "take:500:mnist5k"]
    plugin = ["--plugin", ROOT / "examples" / "my_routing.py", "--method", "mean-agreement[sharpness=2.0]"]
    return run(*suite, *plugin, cwd=folder), folder / "results"


def test_plugin_is_measured_over_its_iterations(measured):
    _, results = measured
    records = [json.loads(file.read_text()) for file in results.glob("records/*.json")]
    assert {record["status"] for record in records} == {"ok"}
    mine = [record["identity"] for record in records if record["identity"]["method"] == "mean-agreement"]
    assert {1, 3} <= {identity["iterations"] for identity in mine}
    assert all(identity["method_params"]["sharpness"] == 2.0 for identity in mine)


def test_plugin_stands_in_table_and_report(measured):
    printed, results = measured
    assert "mean-agreement" in printed
    (page,) = results.glob("**/*.html")
    assert "mean-agreement" in page.read_text()
    assert "<svg" in page.read_text()  # the analyses that travelled along drew something


def test_a_method_is_ranked_without_the_checkout(python, tmp_path):
    run(python, "-m", "routebench", "new-method", "my-idea", cwd=tmp_path)
    told = run(python, "-m", "routebench", "rank", "my_idea.py", "--dry-run", cwd=tmp_path)
    assert "board quick: suite accuracy, preset quick; published results: quick" in told
    assert "16 for each T of my-idea" in told
