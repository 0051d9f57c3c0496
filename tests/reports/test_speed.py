"""The yardsticks of reports/speed are the same functions as ours, and the script that measures them works."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from reports.speed import cases, measure, once, page, tsai, yardstick
from routebench import kernels
from routebench.models.network import count_parameters

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "reports" / "speed" / "measure.py"
LAYERS = [name for name, case in cases.CASES.items() if case.memory_batch is not None]


@pytest.fixture(autouse=True)
def plain_torch():
    """What is tested here is not the kernels."""
    with kernels.using("reference"):
        yield


def run(*arguments, script=SCRIPT):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("iterations", [1, 2, 4])
@pytest.mark.parametrize("name", cases.CASES)
def test_yardstick_is_the_same_function(name, iterations):
    errors = cases.disagreement(cases.CASES[name], "ours", iterations=iterations, tiny=True)
    assert len(errors) >= 4
    assert max(errors.values()) < measure.TOLERANCE


def test_variant_of_ours_is_compared_with_stored_votes():
    errors = cases.disagreement(cases.CASES["conv-em"], "ours, types+positions", iterations=3, tiny=True)
    assert max(errors.values()) < measure.TOLERANCE


@pytest.mark.parametrize("name", LAYERS)
def test_rounding_of_the_yardstick_is_small(name):
    errors = cases.rounding(cases.CASES[name], iterations=2, tiny=True)
    assert 0 < max(errors.values()) < measure.TOLERANCE


def test_yardstick_and_ours_get_the_same_weights():
    one, other = (
        cases.make(cases.CASES["conv-em"], which, batch=2, iterations=1, tiny=True) for which in ("ours", "yardstick")
    )
    assert torch.equal(one.layer.weight, other.layer.weight)
    assert torch.equal(one.children.poses, other.children.poses)


def test_difference_is_seen():
    """One iteration more or less is another function."""
    case = cases.CASES["dense-dynamic"]

    def make(implementation, batch, iterations, tiny):
        return case.make(implementation, batch, iterations + (implementation == "yardstick"), tiny)

    errors = cases.disagreement(replace(case, make=make), "ours", iterations=2, tiny=True)
    assert errors["poses"] > measure.TOLERANCE


def test_yardstick_of_em_refuses_what_it_does_not_do():
    ours = cases.make(cases.CASES["conv-em"], "ours, types+positions", batch=1, iterations=1, tiny=True)
    with pytest.raises(ValueError, match="positions"):
        yardstick.ConvEM(ours.layer)


def test_network_of_tsai_has_the_size_of_the_paper():
    assert count_parameters(tsai.simple_network()) == 561_809


def test_training_step_in_passes_is_the_whole_step():
    case = cases.CASES["tsai-cifar10"]
    found = {}
    for passes in (1, 3):
        made = replace(case, make=partial(cases._tsai, passes=passes))
        work = cases.make(made, "yardstick", batch=6, iterations=2, tiny=True)
        assert len(work.batches) == passes
        work.step()
        found[passes] = list(work.network.parameters())
    for one, other in zip(found[1], found[3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_one_measurement_in_a_process_of_its_own():
    done = run("--case=conv-em", "--implementation=yardstick", "--quick", "--runs=2", "--seconds=0.01", "--threads=1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seconds"] > 0
    assert found["runs"] >= 2
    assert found["peak"] > found["extra"] > 0


def test_quick_run_writes_page_results_and_figure(tmp_path, monkeypatch):
    """With measurements in this process, which takes a tenth of the time."""

    def ask(_, *question, **_more):
        return json.loads(CliRunner().invoke(measure.main, [*question, *short, "--threads=1"]).stdout)

    short = ["--quick", "--runs=1", "--seconds=0.001"]
    monkeypatch.setattr(measure.Run, "ask", ask)
    monkeypatch.setattr(once, "prepare", lambda setting: None)  # it sets a limit on the memory of the process
    done = CliRunner().invoke(measure.main, [*short, "--only=dense-dynamic", "--repeats=2", f"--output={tmp_path}"])
    assert done.exit_code == 0, done.output
    results = pd.read_csv(tmp_path / "results.csv")
    assert set(results["part"]) == {"check", "table", "iterations", "memory"}
    assert list(results.loc[results["part"] == "table", "implementation"]) == ["ours", "yardstick"] * 2
    assert (results.loc[results["part"] == "table", "seconds"] > 0).all()
    assert set(pd.read_csv(tmp_path / "memory_against_T.csv")["implementation"]) == {"ours", "yardstick"}
    assert "extra memory, MiB" in (tmp_path / "memory_against_T.svg").read_text()
    assert "show nothing" in (tmp_path / "README.md").read_text()


def test_ours_beside_a_busy_process(tmp_path, monkeypatch):
    """Each state is measured with threads that give way and that spin; other results stay."""
    asked = []

    def ask(_, *question, **more):
        asked.append(more)
        return {"seconds": 1.0 + len(asked), "extra": 0, "used": "fused", "processor": "P", "torch": "2"}

    monkeypatch.setattr(measure.Run, "ask", ask)
    kept = {"case": "dense-dynamic", "part": "table", "implementation": "ours", "quick": False, "used": "fused"}
    pd.DataFrame([kept]).to_csv(tmp_path / "results.csv")
    old = [{"case": "dense-dynamic", "part": "beside"}]
    measure._keep(tmp_path / "results.csv", "dense-dynamic", old, beside=True)
    run = measure.Run(1, "auto", 1, 1.0, quick=True)
    rows = [{"case": "dense-dynamic", **row} for row in measure._measure_beside(run, "dense-dynamic", 1)]
    measure._keep(tmp_path / "results.csv", "dense-dynamic", rows, beside=True)
    assert asked == [{}, measure.SPINS] * 2
    results = pd.read_csv(tmp_path / "results.csv")
    assert list(results["part"]) == ["table"] + ["beside"] * 4
    assert "| dense, dynamic | 2 s | 4 s | 2.00 | 3 s | 5 s | 1.67 |" in page._beside(results, ["dense-dynamic"])


def test_what_was_measured_stays_where_a_busy_process_is_refused(tmp_path, monkeypatch):
    def ask(*_, **__):
        raise measure.Refused("no memory")

    monkeypatch.setattr(measure.Run, "ask", ask)
    kept = {"case": "dense-dynamic", "part": "beside", "implementation": "ours", "quick": False, "used": "fused"}
    pd.DataFrame([kept]).to_csv(tmp_path / "results.csv")
    done = CliRunner().invoke(measure.main, ["--beside", "--only=dense-dynamic", f"--output={tmp_path}"])
    assert (done.exit_code, "refused: no memory" in done.stderr) == (1, True)
    assert list(pd.read_csv(tmp_path / "results.csv")["part"]) == ["beside"]


@pytest.mark.parametrize("error", [2e-4, float("inf")])
def test_disagreement_is_refused(error, monkeypatch):
    monkeypatch.setattr(
        measure.Run, "ask", lambda *_, **__: {"errors": {"poses": 1e-7, "child 0": error}, "rounding": {}}
    )
    with pytest.raises(measure.Refused, match=f"'child 0' by {error:.1e}"):
        measure._measure_case(measure.Run(1, "auto", 1, 1.0, quick=True), "dense-dynamic", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only=dense"], "unknown case 'dense'; did you mean 'dense-dynamic'?"),
        (["--backend=fusd"], "unknown back end 'fusd'; did you mean 'fused'?"),
        (["--page-only"], "expected results in "),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path):
    done = CliRunner().invoke(measure.main, [*arguments, "--quick", f"--output={tmp_path}"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {message}")
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def made_up():
    """Ours takes 1 s and 10 MiB more than it held, the yardstick 20 s and 400 MiB."""
    common = {"case": "dense-dynamic", "threads": 2, "backend": "auto", "processor": "P", "torch": "2", "quick": False}
    rows = [
        {"part": "table", "implementation": which, "repeat": repeat, "seconds": seconds, "extra": extra * 2**20}
        for which, seconds, extra in (("ours", 1.0, 10), ("yardstick", 20.0, 400))
        for repeat in range(2)
    ]
    rows += [
        {
            "part": "iterations",
            "implementation": "ours",
            "repeat": 0,
            "iterations": count,
            "seconds": seconds,
            "extra": 2**20,
        }
        for count, seconds in ((1, 1.0), (2, 1.5), (3, 2.4))
    ]
    return pd.DataFrame([{**common, "used": "fused", "peak": 2**30, **row} for row in rows])


def test_page_compares_with_the_goals(made_up, tmp_path):
    made_up.to_csv(tmp_path / "results.csv")
    page.write(tmp_path)
    (line,) = [line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| dense layer")]
    assert "| 20.0 (20.0 to 20.0) | 12: met | 400 MiB | 10 MiB | 40.0 | 10: met |" in line


def test_page_says_what_is_not_met(made_up, tmp_path):
    made_up.to_csv(tmp_path / "results.csv")
    page.write(tmp_path)
    (line,) = [
        line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| dense, dynamic")
    ]
    assert "| 0.50 | 0.90 | **not met** | 1.00 (1 MiB at T = 1, 1 MiB at T = 3) | met |" in line


def test_page_names_a_refused_case(made_up, tmp_path):
    refused = pd.DataFrame([{"case": "conv-em", "part": "refused", "used": "too different", "quick": False}])
    pd.concat([made_up, refused]).to_csv(tmp_path / "results.csv")
    page.write(tmp_path)
    assert "refused: too different" in (tmp_path / "README.md").read_text()


def test_candidates_for_a_kernel_agree():
    done = run("--quick", "--runs=1", "--only=reference", "--only=numba", script=SCRIPT.with_name("technology.py"))
    assert done.returncode == 0, done.stderr
    reference, numba = done.stdout.splitlines()[2:]
    assert float(reference.split("|")[3]) < 1e-5
    assert "left out" in numba


def test_page_says_how_memory_grows_with_iterations(made_up, tmp_path):
    rows = [
        {**made_up.iloc[-1], "part": "memory", "implementation": which, "iterations": count, "batch": 8, "extra": extra}
        for which, least, step in (("ours", 2**20, 2**21), ("yardstick", 2**30, 2**27))
        for count, extra in ((1, least), (4, least + 3 * step))
    ]
    pd.concat([made_up, pd.DataFrame(rows)]).to_csv(tmp_path / "results.csv")
    page.write(tmp_path)
    line = "- dense, dynamic: 2 MiB an iteration, yardstick 128 MiB (B = 8, T = 1 to 4)"
    assert line in (tmp_path / "README.md").read_text().splitlines()


PUBLIC = {
    "CapsNet-Pytorch/capsulelayers.py": """
import torch
from torch import nn

class DenseCapsule(nn.Module):
    def __init__(self, children, below, parents, pose, routings):
        super().__init__()
        self.weight, self.routings = nn.Parameter(torch.zeros(parents, children, pose, below)), routings

    def forward(self, x):
        votes = torch.einsum("pcoi,bci->bpco", self.weight, x)
        return routed(votes, self.routings).squeeze(2)

def squash(s):
    length = s.norm(dim=-1, keepdim=True)
    return length**2 / (1 + length**2) * s / (length + 1e-8)

def routed(votes, iterations):
    logits = torch.zeros(votes.shape[:3]).cuda()
    for number in range(iterations):
        seen = votes if number == iterations - 1 else votes.detach()
        parents = squash((logits.softmax(dim=1)[..., None] * seen).sum(dim=2, keepdim=True))
        logits = logits + (parents * seen).sum(dim=-1)
    return parents
""",
    "capsule-network/capsules.py": """
from pathlib import Path
import torch
from torch import nn

exec((Path(__file__).parents[1] / "CapsNet-Pytorch" / "capsulelayers.py").read_text())

class RoutingCapsules(nn.Module):
    def __init__(self, below, children, parents, pose, routings, device):
        super().__init__()
        self.W, self.routings = nn.Parameter(torch.zeros(1, parents, children, pose, below)), routings

    def forward(self, x):
        return WRONG * routed(torch.matmul(self.W, x[:, None, :, :, None]).squeeze(-1), self.routings).squeeze(2)
""",
}
"""Files with the classes of the public repositories, written for this test."""


@pytest.mark.parametrize("wrong", ["1", "1.01"])
def test_public_repositories_are_compared_before_they_are_timed(tmp_path, wrong):
    for name, text in PUBLIC.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text.replace("WRONG", wrong))
    script, table = SCRIPT.with_name("public.py"), tmp_path / "public.csv"
    done = run(str(tmp_path), "--quick", "-o", str(table), script=script)
    if wrong != "1":
        assert done.returncode == 1 and "danielhavir/capsule-network: refused, outputs or gradients" in done.stderr
        assert not table.exists()
        return
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(table)
    assert [*rows["implementation"]] == ["ours", "public"] * 2 and (rows["error"] < measure.TOLERANCE).all()
    (tmp_path / "CapsNet-Pytorch" / "capsulelayers.py").unlink()
    lacking = run(str(tmp_path), "--quick", "-o", str(table), script=script)
    assert lacking.returncode == 1 and "clone the repository" in lacking.stderr


def test_the_page_has_the_ratios_of_public_repositories(made_up, tmp_path):
    made_up.to_csv(tmp_path / "results.csv")
    times = {("ours", 0): 1.0, ("public", 0): 20.0, ("ours", 1): 2.0, ("public", 1): 20.0}
    rows = [
        {"repository": "a/b", "commit": "0123", "work": "w", "implementation": one, "repeat": repeat, "error": 1e-7,
         "seconds": seconds, "extra": 2**20 if one == "ours" else 2**24}
        for (one, repeat), seconds in times.items()
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "public.csv")
    page.write(tmp_path)
    line = "| [a/b](https://github.com/a/b) | `0123` | 20 s | 1.5 s | 15.0 (10.0 to 20.0) | 16 MiB | 1 MiB | 16.0 |"
    assert line in (tmp_path / "README.md").read_text().splitlines()
