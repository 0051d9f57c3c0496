"""3-D routing, from the code of Rajasegaran et al. 2019: on votes of whole types, image by image, written as loops."""

import torch

from tests.references.dynamic import norm, squash

OPTIONS = [{"bias": False}, {"squash_over": "position"}]


def deepcaps(V, a, learned, *, iterations=3, bias=True, squash_over="map", positions=1, types=None):
    """Poses of the parents and their lengths, from votes V (lane, child, parent, pose).

    Children of a lane are the cells of a window, type by type within each; lanes are the positions of each image.
    """
    types = types or V.shape[1]
    poses = [
        _image([sum_of_cells(one, types) for one in image], learned, iterations, bias, squash_over)
        for image in V.split(positions)
    ]
    v = torch.cat(poses)
    return v, norm(v)


def sum_of_cells(votes, types):
    """What each type of a window votes together: (type, parent, pose)."""
    return torch.stack([votes[type_::types].sum(dim=0) for type_ in range(types)])


def _image(votes, learned, iterations, bias, squash_over):
    """Parents (position, parent, pose) of one image, from the votes of types at each position."""
    V = torch.stack(votes)  # position type parent pose
    b = torch.zeros_like(V[..., 0])
    for _ in range(iterations):
        c = b.exp() / b.exp().sum(dim=(0, 2), keepdim=True)  # over positions and parents
        s = (c[..., None] * V).sum(dim=1)
        if bias:
            s = s + learned["bias"]
        if squash_over == "position":
            v = squash(s)
        else:
            v = torch.stack([squash(s[:, j].reshape(1, -1)).view(s[:, j].shape) for j in range(s.shape[1])], dim=1)
        b = b + (V * v[:, None]).sum(dim=-1)
    return v
