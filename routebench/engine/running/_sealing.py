"""Keeps a network to the images that it is given, and asks whether its answers come from these alone."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.data import load, sealed_test_images
from routebench.losses import OWN
from routebench.protocols.base import FitRequest

IMAGES = 64
ALIKE = 1e-3
"""The most by which logits may differ, relative to the largest: sums of a batch come in another order, too."""


def seal(network: nn.Module, data: str) -> None:
    """Seals test images from now on while the network runs: what it says is to come from the images that it is given.

    It holds for the data sets of routebench; code that reads files itself is not held back.

    Args:
        network: the network whose calls are sealed.
        data: the data set that it is trained on; folds of its training images may be loaded.
    """
    opened: list[AbstractContextManager[None]] = []

    def begin(*_: object) -> None:
        opened.append(sealed_test_images(data))
        opened[-1].__enter__()

    def end(*_: object) -> None:
        opened.pop().__exit__(None, None, None)

    network.register_forward_pre_hook(begin, prepend=True)
    network.register_forward_hook(end, always_call=True)


@torch.no_grad()
def shuffled(network: nn.Module, request: FitRequest, device: torch.device) -> Mapping[str, int] | None:
    """Asks a network three times about the first test images: twice as they come, and once shuffled.

    Args:
        network: a trained network, in evaluation mode.
        request: the request that it was trained for.
        device: device of the network.

    Returns:
        as `Record.shuffled`; None for a network without class scores. If it raises, all its answers count as others.
    """
    if request.recipe.loss == OWN:
        return None
    inputs = load(request.data).test.inputs(slice(IMAGES), device)
    count = len(inputs[0])
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).to(device)
    try:
        mixed = tuple(one[order] for one in inputs)
        first, again, turned = (network(*some).logits.float() for some in (inputs, inputs, mixed))
        answers, repeated = _others(turned, first[order]), _others(again, first)
    except Exception:  # noqa: BLE001  # whatever it is, it answered before
        answers = repeated = count
    return {"images": count, "answers": answers, "again": repeated}


def _others(found: Float[Tensor, "image classes"], before: Float[Tensor, "image classes"]) -> int:
    """The number of images that have other logits than before."""
    scale = before.abs().max().clamp_min(1e-12)
    return int(((found - before).abs().amax(dim=1) > ALIKE * scale).sum())
