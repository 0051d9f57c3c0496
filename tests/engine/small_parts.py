"""A plug-in for tests: 200 real MNIST digits, and a protocol that measures without training, as slowly as asked."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from routebench import datasets, protocols
from routebench.data import Dataset, load
from routebench.protocols import Context, FitRequest, Measurement, Metric, Protocol


@datasets.register("digits200")
def digits200() -> Dataset:
    """Every twentieth image of mnist5k."""
    whole = load("mnist5k")
    train, test = whole.train.at(torch.arange(0, 3600, 20)), whole.test.at(torch.arange(0, 1000, 20))
    return Dataset.of("digits200", whole.classes, train, test, "every twentieth image of mnist5k")


@protocols.register("brightness")
class Brightness(Protocol):
    """How many test images are brighter than the mean of the training image that seed and iterations choose."""

    options: ClassVar = {"seconds": float, "journal": str, "gate": str}

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        if "journal" in options:  # one line per measurement, whoever makes it
            with Path(options["journal"]).open("a") as journal:
                journal.write(f"{request.method} {request.iterations} {request.seed}\n")
        if "gate" in options:  # a folder, where processes sign and wait until it is open
            (Path(options["gate"]) / str(os.getpid())).touch()
            while not (Path(options["gate"]) / "open").exists():
                time.sleep(0.05)
        time.sleep(options.get("seconds", 0.0))
        data = load(request.data)
        chosen = data.train.pixels[10 * request.seed + (request.iterations or 0)].double().mean()
        bright = data.test.pixels.double().mean(dim=(1, 2, 3)) > chosen
        share = Metric("accuracy", "test", 100 * float(bright.double().mean()), "%", True, request.iterations)
        return Measurement([share], {"correct": bright.to(torch.uint8)})
