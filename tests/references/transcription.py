"""The transcription of a method's paper, found by the method's name.

`tests/references/<name>.py` has a function of that name: votes V (lane, child, parent, pose), activations a (lane,
child) and what is learned, by name, to poses and activations. It takes the method's hyperparameters, and, where it
names them, poses `x` of the children, the `progress` of training, and `couple`, how parents compete. Beside it stand

- `OPTIONS`: hyperparameters at which method and transcription are compared;
- `DEPARTURES`: hyperparameters of the method that the paper does not have, and `LITERAL`: their values without effect;
- `TRAINING`: true where it is of training, because there the batch is normalised;
- `SMOOTH`: hyperparameters with which gradients are those of finite differences: at random poses, and at poses of zero.
"""

import inspect
from importlib import import_module

from routebench.registry import routing

SHIPPED = [name for name in routing if routing[name].__module__.startswith("routebench.")]


class Transcription:
    """Of a method, by its name."""

    def __init__(self, method):
        name = method.replace("-", "_")
        module = import_module(f"tests.references.{name}")
        self.function = getattr(module, name)
        self.takes = inspect.signature(self.function).parameters
        self.options, self.departures = getattr(module, "OPTIONS", []), getattr(module, "DEPARTURES", [])
        self.literal, self.training = getattr(module, "LITERAL", {}), getattr(module, "TRAINING", False)
        self.smooth = getattr(module, "SMOOTH", ({}, {}))
