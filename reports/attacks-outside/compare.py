"""Do the attacks of the suite `robustness` miss what AutoAttack finds? Asks torchattacks, and writes pairs.csv.

A pair is an image and an eps. Pairs that the suite calls robust, after all of its attacks, are attacked anew with the
four parts of AutoAttack's standard version, one after the other, each on what those before it left.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch
from torch import Tensor, nn

import routebench
from routebench.attacks import grey_levels, to_bytes
from routebench.data import load
from routebench.engine.results import Store
from routebench.engine.running import StoreContext
from routebench.engine.suites import Cell, Choices, load_suite, plan

PARTS = ("apgd-ce", "apgd-t", "fab-t", "square")
STEPS = 100
"""Of APGD and FAB in AutoAttack's standard version; torchattacks' own default is 10."""
QUERIES = 5000


class Logits(nn.Module):
    """The network as torchattacks wants it."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images with values in [0, 1]."""
        logits: Tensor = self.network(images).logits
        return logits


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--preset", default="quick", show_default=True, help="Of the suite robustness, which RESULTS has.")
@click.option("--most", type=click.IntRange(min=1), default=20, show_default=True, help="Pairs per network and eps.")
@click.option("--jobs", type=click.IntRange(min=1), default=os.cpu_count(), show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default="pairs.csv", show_default=True)
def main(results: Path, preset: str, most: int, jobs: int, output: Path) -> None:
    """Attacks what the networks in RESULTS are said to withstand. Networks that OUTPUT has are not attacked again."""
    done = pd.read_csv(output) if output.exists() else pd.DataFrame(columns=["cell"])
    measured = set(routebench.load_results(results)["cell"]) - set(done["cell"])
    cells = [cell for cell in plan(load_suite("robustness"), preset, Choices()).cells if cell.key in measured]
    with ProcessPoolExecutor(jobs) as pool:
        asked = [pool.submit(ask, results, cell, most) for cell in cells]
        for one in asked:
            done = pd.concat([done, pd.DataFrame(one.result())], ignore_index=True).convert_dtypes()
            done.to_csv(output, index=False)
    click.echo(summary(done))


def ask(results: Path, cell: Cell, most: int) -> list[dict[str, Any]]:
    """One row per eps: how many pairs were attacked, and how many each part broke that the suite's attacks did not."""
    torch.set_num_threads(1)
    found = routebench.load_arrays(results, cell.key)
    context = StoreContext(Store(results), torch.device("cpu"))
    network = context.fit(cell.request()).network.eval().requires_grad_(requires_grad=False)
    data = load(cell.identity.data)
    test = data.test.at(torch.as_tensor(found["places"]).long())
    told = {"cell": cell.key, "network": _digest(network), "method": cell.label}
    told |= {"iterations": cell.identity.iterations, "seed": cell.identity.seed}
    rows = []
    for eps, robust in zip(cell.identity.options["eps"], torch.as_tensor(found["robust"]), strict=True):
        survivors = robust.nonzero()[:, 0]
        draw = torch.Generator().manual_seed(int(cell.key, 16) % 2**63)
        chosen = survivors[torch.randperm(len(survivors), generator=draw)[:most]]
        broken = dict(strike(network, test.pixels[chosen], test.labels[chosen], eps, len(data.classes)))
        rows.append({**told, "eps": eps, "survivors": len(survivors), "pairs": len(chosen), **broken})
    return rows


def strike(network: nn.Module, pixels: Tensor, labels: Tensor, eps: float, classes: int) -> Iterator[tuple[str, int]]:
    """Counts of pairs that each part broke: with its image as floating-point numbers, or rounded to 8 bit."""
    levels = grey_levels(eps)
    for part in PARTS:
        inputs = pixels.float() / 255
        attack = _made(part, Logits(network), levels / 255, classes)
        made = attack(inputs, labels).detach() if len(labels) else inputs
        held = torch.minimum(torch.maximum(made, inputs - levels / 255), inputs + levels / 255).clamp(0, 1)
        with torch.no_grad():
            as_float, as_bytes = (
                network(images).scores.argmax(dim=1) != labels
                for images in (held, to_bytes(held, pixels, levels) / 255)
            )
        yield part, int(as_float.sum())
        yield f"{part} 8 bit", int(as_bytes.sum())
        left = ~(as_float | as_bytes)
        pixels, labels = pixels[left], labels[left]


def _made(part: str, network: nn.Module, eps: float, classes: int) -> Callable[[Tensor, Tensor], Tensor]:
    import torchattacks  # type: ignore[import-not-found]  # only here: `summary` needs none

    made: Callable[[Tensor, Tensor], Tensor] = {
        "apgd-ce": lambda: torchattacks.APGD(network, eps=eps, steps=STEPS, loss="ce"),
        "apgd-t": lambda: torchattacks.APGDT(network, eps=eps, steps=STEPS, n_classes=classes),
        "fab-t": lambda: torchattacks.FAB(network, eps=eps, steps=STEPS, multi_targeted=True, n_classes=classes),
        "square": lambda: torchattacks.Square(network, eps=eps, n_queries=QUERIES),
    }[part]()
    return made


def _digest(network: nn.Module) -> str:
    """Hash of the weights: the same for uniform routing and dynamic routing of one iteration, which are one network."""
    weights = [weight.numpy().tobytes() for weight in network.parameters()]
    return hashlib.sha256(b"".join(weights)).hexdigest()[:8]


def summary(rows: pd.DataFrame) -> str:
    """Counts over all networks, of which equal ones count once."""
    once = rows.drop_duplicates(["network", "eps"])
    counts = [f"{once[f'{part}{kind}'].sum()} by {part}{kind}" for part in PARTS for kind in ("", " 8 bit")]
    return (
        f"{once['network'].nunique()} networks, {once['survivors'].sum()} survivors, "
        f"{once['pairs'].sum()} tried; missed by the suite: {', '.join(counts)}"
    )


if __name__ == "__main__":
    main()
