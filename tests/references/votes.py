"""Votes, one at a time."""

import math

import torch


def every_vote(children, weight, offset=None):
    """(lane, child, parent, pose): V_ij = u_i W_ij for vectors, M_i W_ij for matrices, and a child's offset on top."""
    rows = []
    for i in range(weight.shape[0]):
        for j in range(weight.shape[1]):
            vote = torch.stack([_vote(pose, weight[i, j]) for pose in children[:, i]])
            rows.append(vote if offset is None else vote + offset[i])
    return torch.stack(rows, dim=1).unflatten(1, tuple(weight.shape[:2]))


def _vote(pose, weight):
    if len(pose) == weight.shape[0]:
        return pose @ weight
    side = math.isqrt(len(pose))
    return (pose.reshape(side, side) @ weight).reshape(-1)


def seen_by(grid, kernel, stride):
    """For each parent position of a convolutional layer, the numbers of the children in its window."""
    height, width, types = grid
    return [
        [(row * width + column) * types + kind for row in rows for column in columns for kind in range(types)]
        for rows in _windows(height, kernel, stride)
        for columns in _windows(width, kernel, stride)
    ]


def _windows(size, kernel, stride):
    return [range(start, start + kernel) for start in range(0, size - kernel + 1, stride)]
