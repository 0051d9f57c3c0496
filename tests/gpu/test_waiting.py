"""How often a training step would make the host wait for a GPU, counted on the processor.

The host waits where it reads a number that the device has, where a shape depends on such numbers, and where it sends
numbers of its own that are not pinned. All three are operations that torch dispatches on any device.
"""

import traceback
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import routebench
from routebench import kernels
from routebench.models import build
from routebench.optimizers import make_optimizer
from routebench.recipe import Moment, Recipe
from routebench.registry import augmentations, losses
from routebench.training import training_step

PACKAGE, OPTIMISERS = Path(routebench.__file__).parent, Path(torch.optim.__file__).parent
"""Frames are known by these folders, not by their names: a checkout may be called `routebench`, too."""
READS = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"}
SHAPES = {
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::repeat_interleave.Tensor",
}
INDEXES = {"aten::index", "aten::index_put", "aten::index_put_"}
SENDS = {"aten::lift_fresh"}
ITERATIVE = (
    "dynamic",
    "em",
    "inverted-attention",
    "variational-bayes",
    "slot-attention",
    "mesh",
    "heinsen",
    "wang-liu",
)
OTHERS = (
    "self-routing",
    "self-attention",
    "static",
    "random",
    "uniform",
    "none",
    "soft-moe",
    "expert-choice",
    "sinkhorn-token-choice",
)


class Waits(TorchDispatchMode):
    """Lines of routebench that make the host wait. The optimiser is torch's, and waits for nothing on a GPU."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.name()
        masks = name.split(".")[0] in INDEXES and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in args[1]
        )
        if name in READS | SHAPES | SENDS or masks:
            frames = traceback.extract_stack()
            if not any(OPTIMISERS in Path(frame.filename).parents for frame in frames):
                inside = [frame for frame in frames if PACKAGE in Path(frame.filename).parents]
                self.lines.append(f"{inside[-1].filename.rpartition('/')[2]}: {inside[-1].line}")
        return operation(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """There, `one_hot` leaves out its look at the smallest and the largest label."""

    def one_hot(labels, classes):
        return torch.zeros(*labels.shape, classes, dtype=torch.long).scatter(-1, labels[..., None], 1)

    monkeypatch.setattr(functional, "one_hot", one_hot)
    for module in ("routebench.losses", "routebench.models.network"):
        monkeypatch.setattr(f"{module}.one_hot", one_hot, raising=False)


def waits(model, shape, recipe, method=None, params=None):
    network = build(model, shape=shape, classes=10, method=method, method_params=params or {})
    optimiser, draws = make_optimizer(network, recipe), torch.Generator().manual_seed(0)
    images, labels = torch.rand(4, *shape), torch.randint(10, (4,))
    with kernels.using("reference"):
        for counted in (Waits(), Waits()):  # the first step makes what is kept
            with counted:
                training_step(network, optimiser, (images,), labels, recipe=recipe, moment=Moment(), draws=draws)
    return counted.lines


def test_what_makes_the_host_wait_is_seen(monkeypatch):
    """A step that reads its loss."""

    def reads(output, *_):
        return output.logits.sum() * float(output.logits.detach().mean())

    monkeypatch.setitem(losses.entries, "margin", reads)
    (line,) = waits("capsnet-small", (1, 28, 28), Recipe(), "none")
    assert line.startswith("training.py: loss = loss_named")


@pytest.mark.parametrize("method", [*ITERATIVE, *OTHERS])
def test_no_routing_method_waits(method):
    params = {"iterations": 2} if method in ITERATIVE else {}
    assert waits("capsnet-small", (1, 28, 28), Recipe(), method, params) == []


@pytest.mark.parametrize(
    ("model", "side", "method", "recipe"),
    [
        ("capsnet-small-reconstruction", 28, "dynamic", Recipe(reconstruction=5e-4)),
        ("tsai-tiny", 28, "inverted-attention", Recipe(loss="cross-entropy", optimiser="sgd")),
        ("matrix-capsules-small", 32, "em", Recipe(loss="spread")),
        ("vae", 28, None, Recipe(loss="own")),
        ("scae-small", 28, None, Recipe(loss="own")),
    ],
)
def test_no_network_waits(model, side, method, recipe):
    assert waits(model, (1, side, side), recipe, method, {"iterations": 2} if method else {}) == []


@pytest.mark.parametrize(("model", "times"), [("generative-capsules-small", 1), ("top-down-capsules", 6)])
def test_generative_networks_send_few_constants(model, times):
    """Numbers that a layer writes as a list travel to the device in every step."""
    found = waits(model, (1, 28, 28), Recipe(loss="own"))
    assert len(found) == times
    assert all("tensor(" in line for line in found), found


@pytest.mark.parametrize("name", sorted(augmentations))
def test_no_augmentation_waits(name):
    images, draws = torch.rand(4, 1, 48, 48), torch.Generator().manual_seed(0)
    with Waits() as counted:
        augmentations[name](images, draws)
    assert counted.lines == []
