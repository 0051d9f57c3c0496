"""Extraction beside the network alone, an epoch of a head beside its parts, memory: `make microbench` shows them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from routebench.data import Tokens, TrainingData, extract, load, pretrained
from routebench.models import build
from routebench.recipe import Recipe
from routebench.routing import RoutingLayer
from routebench.training import fit

BATCH, TOKENS, NUMBERS, CLASSES, TYPES = 128, 16, 320, 10, 4
PROCESSOR = torch.device("cpu")


@pytest.mark.parametrize("work", ["the network alone", "extraction"])
def test_extraction(benchmark, tmp_path, work):
    """The goal is 80 % of the network's own speed."""
    backbone = pretrained("timm:tf_efficientnet_lite0", weights="random", size=96)
    data, file = load("take:100:mnist5k" if benchmark.disabled else "take:1000:mnist5k"), tmp_path / "x.safetensors"
    count = sum(map(len, (data.train, data.held_out, data.test)))

    def alone():
        images = torch.rand(64, 3, 96, 96).to(memory_format=torch.channels_last)
        with torch.inference_mode():
            for start in range(0, count, 64):
                backbone.network.forward_features(images[: count - start])

    call = alone if work == "the network alone" else lambda: extract(backbone, data, file)
    benchmark.pedantic(call, setup=lambda: file.unlink(missing_ok=True), rounds=3)
    assert work == "the network alone" or len(load(f"features:{file}").train) == len(data.train)


@pytest.mark.parametrize("work", ["linear probe", "routing layer", "head"])
@pytest.mark.parametrize("method", ["uniform", "em"])
def test_an_epoch_of_a_head(benchmark, method, work):
    """The goal, of 50,000 items: at most twice what the linear probe and the routing layer take together."""
    items = 2 * BATCH if benchmark.disabled else 50_000
    given = {"method": method, "types": TYPES} if work == "head" else {}
    name = "token-capsules" if work == "head" else "token-linear"
    network = build(name, shape=(TOKENS, NUMBERS), classes=CLASSES, **given)
    layer = RoutingLayer(method, TOKENS * TYPES, CLASSES, 8, 16, shared=True)
    values = torch.randn(items, TOKENS, NUMBERS, dtype=torch.float16)
    tokens = Tokens(values, torch.arange(items) % CLASSES)
    data = TrainingData("drawn", tuple(map(str, range(CLASSES))), tokens, tokens.at(torch.arange(BATCH)), "")

    def routed():
        poses = torch.randn(BATCH, TOKENS * TYPES, 8, requires_grad=True)
        for _ in range(0, items, BATCH):
            layer(poses).square().sum().backward()

    recipe = Recipe(epochs=1, batch_size=BATCH)
    call = routed if work == "routing layer" else lambda: fit(network, data, recipe, seed=0, device=PROCESSOR)
    benchmark.pedantic(call, rounds=1 if benchmark.disabled else 3, warmup_rounds=1)


WORKER = """
import sys
import torch
from routebench.data import load

def held(*kinds):
    with open("/proc/self/smaps_rollup") as lines:
        known = {line.split()[0]: 1024 * int(line.split()[1]) for line in lines if "Pss" in line}
    return sum(known[f"Pss{kind}:"] for kind in kinds)

before = held("")
train = load(f"features:{sys.argv[1]}").train
for start in range(0, len(train), 128):
    train.inputs(slice(start, start + 128), torch.device("cpu"))
print("read", flush=True)
sys.stdin.readline()  # until the other has read all, too
print(held("") - before, flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not tell shares of memory")
def test_two_workers_share_the_memory_of_a_file(tmp_path):
    """The goal, of 60,000 items of 16 x 320 numbers in 16 bits, is 1.5 times the file: `ITEMS=60000` tries it."""
    items, file = int(os.environ.get("ITEMS", "12000")), tmp_path / "x.npz"
    drawn = np.random.default_rng(0).standard_normal((items, TOKENS, NUMBERS), dtype=np.float32).astype(np.float16)
    labels = np.arange(items) % CLASSES
    np.savez(file, train_features=drawn, train_labels=labels, test_features=drawn[:50] + 1, test_labels=labels[:50])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(file)], **pipes) for _ in range(2)]
    try:
        assert [one.stdout.readline() for one in workers] == ["read\n"] * 2
        found = [_next(one) for one in workers]
    finally:
        for one in workers:
            one.communicate("\n")
    assert sum(found) < 1.5 * file.stat().st_size, [round(one / file.stat().st_size, 2) for one in found]


def _next(worker) -> int:
    worker.stdin.write("\n")
    worker.stdin.flush()
    return int(worker.stdout.readline())
