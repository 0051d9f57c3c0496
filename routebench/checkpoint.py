"""A training run on disk: tensors in safetensors, which cannot execute code when they are read."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from routebench.atomic import write_bytes

CHECKSUM = "checksum"
"""The note with the checksum of everything else; checkpoints of earlier versions have none."""


class DamagedCheckpoint(Exception):
    """A file holds no checkpoint, or not one of this training run."""


@dataclass(frozen=True)
class Checkpoint:
    """The state that a training run needs to go on.

    Args:
        weights: weights of the network.
        optimiser: the optimizer's tensors.
        best: the weights selected so far; empty when the last ones are kept.
        notes: text, as key and value.
    """

    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    best: dict[str, Tensor]
    notes: dict[str, str]

    def write(self, file: Path) -> None:
        """Writes the file in one step: a reader, or a crash, finds the old one or the new one."""
        parts = {"weights": self.weights, "optimiser": self.optimiser, "best": self.best}
        tensors = {
            f"{part}/{name}": value.detach().cpu().contiguous().clone()
            for part, values in parts.items()
            for name, value in values.items()
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        notes = {**self.notes, CHECKSUM: _sum(tensors, self.notes)}
        write_bytes(file, save(tensors, metadata=notes))  # `save_file` hides that a disk is full

    @staticmethod
    def read(file: Path) -> "Checkpoint":
        """Reads a file that `write` has written.

        Raises:
            DamagedCheckpoint: the file is something else, or only a part of it.
        """
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimiser": {}, "best": {}}
        tensors: dict[str, Tensor] = {}
        try:
            with safe_open(file, framework="pt") as opened:
                notes = dict(opened.metadata() or {})
                for key in opened.keys():  # noqa: SIM118  # not a dict
                    part, name = key.split("/", 1)
                    parts[part][name] = tensors[key] = opened.get_tensor(key)
        except (SafetensorError, KeyError, ValueError) as error:
            raise DamagedCheckpoint(f"{file.name}: {error}") from error
        known = notes.pop(CHECKSUM, None)
        if known is not None and known != _sum(tensors, notes):
            raise DamagedCheckpoint(f"{file.name} is not what was written")
        return Checkpoint(parts["weights"], parts["optimiser"], parts["best"], notes)


def are_alike(ones: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    """Tells whether tensors have the same names, shapes and types.

    Args:
        ones, others: tensors by name.
    """
    kinds = ({name: (value.shape, value.dtype) for name, value in tensors.items()} for tensors in (ones, others))
    return next(kinds) == next(kinds)


def _sum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    """The SHA-256 of tensors on the CPU and of notes, whatever their order."""
    found = hashlib.sha256(repr(sorted(notes.items())).encode())
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
