"""Maps of coupling, image by image: how much of what lies at a place goes to a class."""

import torch
from torch import Tensor, nn

from routebench.data import Images
from routebench.protocols.traced import Trace, trace

RIGHT = 6
WRONG = 6


def coupling_maps(traced: Trace) -> Tensor | None:
    """The coupling coefficients at each place of the grid of children, of the last sweep for the class capsules.

    Args:
        traced: what a network did with a batch of images.

    Returns:
        (image, class, row, column), means over the types of children that lie there, weighted by their activations.
        Children without a grid lie in one row. None for a network whose class capsules have no coupling, or lie on a
        grid themselves.
    """
    if not traced.layers:
        return None
    children, layer = traced.output.layers[-2], traced.layers[-1]
    images = len(children.poses)
    if layer.coupling is None or len(layer.coupling) != images:
        return None
    rows, columns = children.poses.shape[1:3] if children.on_grid else (1, children.poses.shape[1])
    coupling = layer.coupling.double().reshape(images, rows, columns, -1, layer.coupling.shape[2])
    present = layer.present.double().reshape(*coupling.shape[:4])
    sums = torch.einsum("nhwt,nhwtk->nkhw", present, coupling)
    return (sums / present.sum(dim=3).clamp(min=1e-12)[:, None]).float()


def mapped_examples(
    network: nn.Module, images: Images, iterations: int | None, device: torch.device
) -> dict[str, Tensor]:
    """Maps of images for the right class, and for the strongest other one, which is the answer where that is wrong.

    Args:
        network: the trained network, in evaluation mode.
        images: a few images with one class each.
        iterations: number of routing iterations; None for a method that has none.
        device: the network's device.

    Returns:
        `coupling_images`, (image, channel, height, width), bytes; `coupling_classes`, (image, 2), the right class and
        the other; `coupling_answers`, (image), the classes that the network names; `coupling_maps`, (image, 2, row,
        column). Empty where `coupling_maps` finds none.
    """
    traced = trace(network, images.pixels.to(device).to(torch.float32).div(255), iterations)
    maps, scores = coupling_maps(traced), traced.output.scores.float().cpu()
    if maps is None:
        return {}
    others = scores.scatter(1, images.labels[:, None], -torch.inf).argmax(dim=1)
    classes = torch.stack((images.labels, others), dim=1)
    return {
        "coupling_images": images.pixels,
        "coupling_classes": classes,
        "coupling_answers": scores.argmax(dim=1),
        "coupling_maps": maps.cpu()[torch.arange(len(maps))[:, None], classes],
    }


def right_and_wrong(labels: Tensor, answers: Tensor) -> Tensor:
    """Numbers of images to look at: the first right one of each of some classes, then the first wrong ones likewise.

    Args:
        labels, answers: (image), classes.
    """
    classes, is_right = range(int(labels.max()) + 1), labels == answers
    right, wrong = (
        [(chosen & (labels == one)).nonzero()[:1, 0] for one in classes] for chosen in (is_right, ~is_right)
    )
    return torch.cat((torch.cat(right)[:RIGHT], torch.cat(wrong)[:WRONG]))
