"""A training run on disk: tensors in safetensors, which cannot execute code when they are read."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from routebench.atomic import write_bytes


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
        write_bytes(file, save(tensors, metadata=self.notes))  # `save_file` hides that a disk is full

    @staticmethod
    def read(file: Path) -> "Checkpoint":
        """Reads a file that `write` has written.

        Raises:
            DamagedCheckpoint: the file is something else, or only a part of it.
        """
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimiser": {}, "best": {}}
        try:
            with safe_open(file, framework="pt") as opened:
                notes = dict(opened.metadata() or {})
                for key in opened.keys():  # noqa: SIM118  # not a dict
                    part, name = key.split("/", 1)
                    parts[part][name] = opened.get_tensor(key)
        except (SafetensorError, KeyError, ValueError) as error:
            raise DamagedCheckpoint(f"{file.name}: {error}") from error
        return Checkpoint(parts["weights"], parts["optimiser"], parts["best"], notes)
