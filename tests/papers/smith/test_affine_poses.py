"""Poses of parts and objects: six numbers as a matrix, and one pose after another."""

import math

import torch

from routebench.papers.smith.models.affine_poses import after, pose_of
from tests.papers.smith.spread import spread
from tests.references.problem import assert_close


def test_poses_are_scales_shears_turns_and_shifts():
    numbers = spread(6)
    scale_x, scale_y, turns, shear, x, y = numbers.tolist()
    scale_x, scale_y = (1 / (1 + math.exp(-scale)) + 0.01 for scale in (scale_x, scale_y))
    angle = 2 * math.pi * turns
    turned = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    scaled = torch.tensor([[scale_x, math.tanh(5 * shear) * scale_y], [0, scale_y]])
    expected = torch.cat([scaled @ turned, torch.tensor([[math.tanh(5 * x)], [math.tanh(5 * y)]])], dim=1)
    assert_close(pose_of(numbers), expected.double(), rtol=1e-5, atol=1e-6)


def test_one_pose_after_another_is_a_product_of_matrices():
    outer, inner = spread(3, 1, 2, 3), spread(1, 4, 2, 3, seed=1)
    below = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    whole = [torch.cat([each, below.expand(*each.shape[:-2], 1, 3)], dim=-2) for each in (outer, inner)]
    assert_close(after(outer, inner), (whole[0] @ whole[1])[..., :2, :])
