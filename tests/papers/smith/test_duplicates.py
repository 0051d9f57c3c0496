"""Copies of a template are found whatever affine map made them, and other shapes are not taken for copies."""

import math

import torch

from routebench.papers.smith.models.duplicates import duplicates
from routebench.papers.smith.models.templates import warp


def shapes():
    """A ring, an L and a comma, smooth and small enough to be turned within 40 x 40 pixels."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 40), torch.linspace(-1, 1, 40), indexing="ij")

    def blob(a, b, width=0.12, height=0.12):
        return torch.exp(-(((x - a) / width) ** 2) - ((y - b) / height) ** 2)

    ring = sum(blob(0.35 * math.cos(angle), 0.35 * math.sin(angle)) for angle in torch.arange(0, 6.28, 0.4).tolist())
    corner = blob(-0.2, 0, 0.08, 0.4) + blob(0.05, 0.35, 0.3, 0.08)
    comma = 3 * blob(0, 0) + blob(0.3, 0.25, 0.2, 0.06)
    return torch.stack([ring / ring.max(), corner / corner.max(), comma / comma.max()])[:, None]


def moved(templates, linear, shift):
    pose = torch.cat([torch.tensor(linear), torch.tensor(shift)[:, None]], dim=1)
    return warp(templates, pose.expand(1, len(templates), 2, 3), (40, 40))[:, 0]


def test_three_shapes_are_three():
    assert duplicates(shapes()) == 0


def test_turned_sheared_stretched_mirrored_and_fainter_copies_are_copies():
    copies = [
        moved(shapes(), [[0.0, -0.8], [1.0, 0.0]], [0.1, -0.1]),
        moved(shapes(), [[0.9, 0.4], [0.0, 0.7]], [-0.1, 0.1]),
        0.3 * moved(shapes(), [[-0.8, 0.1], [0.1, 0.9]], [0.0, 0.0]),
    ]
    for copied in copies:
        assert duplicates(torch.cat([shapes(), copied])) == 3
    assert duplicates(torch.cat([shapes(), *copies])) == 9


def test_templates_that_are_all_dark_are_no_copies():
    assert duplicates(torch.zeros(4, 1, 12, 12)) == 0
