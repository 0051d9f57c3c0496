"""What autograd keeps for backward, and how large any tensor is on the way."""

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Saved:
    """Storages that were saved, each once."""

    def __init__(self):
        self.storages = {}

    @property
    def elements(self):
        """Numbers in them, whether a view uses all or not."""
        return sum(self.storages.values())


@contextmanager
def saved_elements():
    """Gives what is kept of computations until the end of the block; keeps it alive, so that no address comes twice."""
    found, alive = Saved(), []

    def pack(tensor):
        alive.append(tensor)
        storage = tensor.untyped_storage()
        found.storages[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield found


class largest_tensor(TorchDispatchMode):  # noqa: N801  # used as a function, as saved_elements is
    """Counts the elements of the largest storage that any operation writes, backward included."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                size = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.elements = max(self.elements, size)
        return made
