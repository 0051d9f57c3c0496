"""Measures ours against public repositories as they are: their files unchanged, in a folder of checkouts.

    cd CHECKOUTS
    git clone https://github.com/XifengGuo/CapsNet-Pytorch
    git clone https://github.com/danielhavir/capsule-network
    python .../reports/speed/public.py CHECKOUTS

Each measurement is a process of its own, ours and theirs in turn. Outputs and all gradients are compared first, and a
layer that differs is refused. Calls of `.cuda()` do nothing here, so that code for a GPU runs on a processor.
"""

import importlib.util
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch
from torch import Tensor, nn

from reports.speed import cases, once
from reports.speed.measure import HERE, TOLERANCE
from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.ops import length, squash
from routebench.routing import factory

PUBLIC, REPEATS = "public", 3


class Theirs(nn.Module):
    """A public dense layer with the weights of ours, from capsules to capsules.

    Args:
        layer: the public module.
        weight: a parameter of the public module.
        ours: the same from our layer, (child, parent, pose in, pose).
    """

    def __init__(self, layer: nn.Module, weight: nn.Parameter, ours: Tensor):
        super().__init__()
        self.layer = layer
        with torch.no_grad():
            weight.copy_(ours.permute(1, 0, 3, 2).reshape(weight.shape))

    def forward(self, children: Capsules) -> Capsules:
        """All iterations."""
        poses = self.layer(children.flat().poses)
        return Capsules(poses, length(poses))


def _dense(make: Any, implementation: str, batch: int, iterations: int, tiny: bool) -> cases.Work:
    """CapsNet's class capsules. The public ones stop the gradients of all iterations but the last, and so do ours."""
    children = 24 if tiny else 1152
    layer = DenseCapsules(children, 10, 8, 16, factory("dynamic", iterations=iterations, detach=True), weight_std=0.1)
    poses = squash(torch.randn(batch, children, 8)).requires_grad_()
    below = Capsules(poses, length(poses).detach())
    theirs = make(children, iterations) if implementation == PUBLIC else None
    return cases.LayerWork(layer if theirs is None else Theirs(*theirs, layer.weight), below)


def _guo(checkouts: Path, children: int, iterations: int) -> tuple[nn.Module, nn.Parameter]:
    module = _module(checkouts / "CapsNet-Pytorch" / "capsulelayers.py")
    layer = module.DenseCapsule(children, 8, 10, 16, routings=iterations)
    return layer, layer.weight


def _havir(checkouts: Path, children: int, iterations: int) -> tuple[nn.Module, nn.Parameter]:
    module = _module(checkouts / "capsule-network" / "capsules.py")
    layer = module.RoutingCapsules(8, children, 10, 16, iterations, torch.device("cpu"))
    return layer, layer.W


SIZES = {"batch": 128, "check": 8, "implementations": ("ours", PUBLIC)}
WORK = "dense layer 1152 x 8 to 10 x 16, B = 128, T = 3, dynamic routing"
CASES: dict[str, Any] = {"XifengGuo/CapsNet-Pytorch": _guo, "danielhavir/capsule-network": _havir}


def _module(file: Path) -> Any:
    """The module in a file, which is not installed."""
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise click.ClickException(f"expected the file {file}; clone the repository into the folder of checkouts")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case_of(name: str, checkouts: Path) -> cases.Case:
    """The work of one repository.

    Args:
        name: a key of `CASES`.
        checkouts: the folder of the checkouts.
    """
    return cases.Case(WORK, partial(_dense, partial(CASES[name], checkouts)), iterations=3, **SIZES)  # type: ignore[arg-type]


def error_of(case: cases.Case, *, tiny: bool) -> float:
    """The largest difference of outputs and gradients, as a share of the largest value of the same tensor."""
    sizes = {"batch": case.check, "iterations": case.iterations, "tiny": tiny}
    ours, theirs = ({**cases.make(case, one, **sizes).found()} for one in ("ours", PUBLIC))
    pairs = zip(ours.values(), theirs.values(), strict=True)
    return max(
        cases.share(one if one.shape == other.shape else one.permute(1, 0, 3, 2).reshape(other.shape), other)
        for one, other in pairs
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("checkouts", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--quick", is_flag=True, help="Tiny sizes: shows that the script works, and nothing else.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=HERE / "public.csv", show_default=True)
@click.option("--one", nargs=2, hidden=True, metavar="CASE IMPLEMENTATION")
def main(checkouts: Path, quick: bool, output: Path, one: tuple[str, str] | None) -> None:
    """Compares and times the layers of public repositories with ours, and writes a CSV file."""
    setting = once.Setting(seconds=0.1 if quick else 2.0, tiny=quick)
    if one is not None:
        case = case_of(one[0], checkouts)
        found = once.measure(case, one[1], setting, batch=4 if quick else case.batch, iterations=case.iterations)
        click.echo(json.dumps({**found, **once.machine()}))
        return
    rows = [row for name in CASES for row in _measured(name, checkouts, quick=quick)]
    pd.DataFrame(rows).to_csv(output, index=False)


def _measured(name: str, checkouts: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Rows of repeats, ours and theirs in turn."""
    case, rows = case_of(name, checkouts), []
    error = error_of(case, tiny=quick)
    if error > TOLERANCE:
        raise click.ClickException(f"{name}: refused, outputs or gradients differ by {error:.1e}")
    folder = checkouts / name.partition("/")[2]
    asked = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    for repeat in range(1 if quick else REPEATS):
        for implementation in case.implementations:
            command = [sys.executable, __file__, str(checkouts), "--one", name, implementation]
            environment = {**os.environ, "OMP_NUM_THREADS": "2"}
            done = subprocess.run(
                [*command, *(["--quick"] if quick else [])], capture_output=True, text=True, check=True, env=environment
            )
            found = json.loads(done.stdout.splitlines()[-1])
            rows.append({"repository": name, "commit": commit, "work": case.work, "implementation": implementation,
                         "repeat": repeat, "error": error, **found})  # fmt: skip
            click.echo(f"{name}, {implementation}: {1e3 * found['seconds']:.3g} ms", err=True)
    return rows


if __name__ == "__main__":
    main()
