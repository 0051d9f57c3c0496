"""Imports torchvision, also where its compiled part was built for another torch."""

from importlib import import_module
from types import ModuleType

import torch

# Kept for the life of the process: operators vanish with the library that defined them.
_definitions: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """The package torchvision; its data sets, transforms and models work, its compiled operators perhaps not.

    A torchvision for CUDA beside a torch for the CPU (or the reverse) cannot load its compiled part, and then its
    import stops with "operator torchvision::nms does not exist", because it describes operators that nobody defined.
    Nothing here uses them, so in that case their signatures are defined and the import is repeated. A torchvision
    that matches its torch is left alone.

    Raises:
        ImportError, RuntimeError: torchvision is missing, or fails for another reason.
    """
    try:
        return import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error) or _definitions:
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
        _definitions.append(library)
    return import_module("torchvision")
