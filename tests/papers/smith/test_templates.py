"""Templates under affine poses, composited: against plain loops in float64, and the kernel against that."""

import numpy as np
import pytest
import torch

from routebench.kernels import backend, drawing
from routebench.papers.smith.models.templates import SMALLEST, composited, drawn, inverse, over, warp

needs_kernel = pytest.mark.skipif(bool(drawing.missing(1, torch.device("cpu"))), reason="no C++ compiler")


def random(*shape, seed=0, dtype=torch.float64):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def poses(images, count, seed=1, size=0.6):
    draw = torch.Generator().manual_seed(seed)
    spread = 0.25 * torch.randn(images, count, 2, 3, generator=draw, dtype=torch.float64)
    return size * torch.eye(2, 3, dtype=torch.float64) + spread


def in_a_loop(templates, maps, presences, height, width):
    """Canvas and opacity of one image, pixel by pixel."""
    count, values, rows, columns = templates.shape
    canvas, opacity = np.zeros((values - 1, height, width)), np.zeros((height, width))
    for number in range(count):
        matrix = np.vstack([maps[number], [0, 0, 1]])
        back = np.linalg.inv(matrix)
        for y in range(height):
            for x in range(width):
                place = back @ [(2 * x + 1) / width - 1, (2 * y + 1) / height - 1, 1]
                column, row = ((place[0] + 1) * columns - 1) / 2, ((place[1] + 1) * rows - 1) / 2
                value = np.zeros(values)
                for r in (int(np.floor(row)), int(np.floor(row)) + 1):
                    for c in (int(np.floor(column)), int(np.floor(column)) + 1):
                        if 0 <= r < rows and 0 <= c < columns:
                            value += (1 - abs(row - r)) * (1 - abs(column - c)) * templates[number, :, r, c]
                alpha = value[-1] * presences[number]
                canvas[:, y, x] = value[:-1] * alpha + canvas[:, y, x] * (1 - alpha)
                opacity[y, x] = alpha + opacity[y, x] * (1 - alpha)
    return canvas, opacity


def test_drawing_is_that_of_a_plain_loop():
    templates, maps, there = random(3, 3, 5, 4), poses(2, 3), random(2, 3, seed=2)
    canvas, opacity = drawn(templates, maps, there, (9, 8))
    for image in range(2):
        expected = in_a_loop(templates.numpy(), maps[image].numpy(), there[image].numpy(), 9, 8)
        assert canvas[image].numpy() == pytest.approx(expected[0], abs=1e-12)
        assert opacity[image, 0].numpy() == pytest.approx(expected[1], abs=1e-12)


def test_gradients_are_those_of_finite_differences():
    given = [value.requires_grad_() for value in (random(2, 2, 3, 3), poses(1, 2), random(1, 2, seed=2))]
    assert torch.autograd.gradcheck(lambda *inputs: drawn(*inputs, (6, 5)), given)


def test_identity_draws_a_template_as_it_is():
    template = random(1, 2, 6, 6)
    found = warp(template, torch.eye(2, 3, dtype=torch.float64).expand(1, 1, 2, 3), (6, 6))
    assert torch.allclose(found[:, 0], template)


def test_a_pose_moves_right_and_down():
    template = torch.ones(1, 1, 4, 4)
    pose = torch.tensor([[0.25, 0, 0.5], [0, 0.25, -0.5]])[None, None]
    rows, columns = warp(template, pose, (16, 16))[0, 0, 0].nonzero(as_tuple=True)
    assert float(columns.double().mean()) == pytest.approx(11.5)  # half way between the middle and the right edge
    assert float(rows.double().mean()) == pytest.approx(3.5)  # above the middle


def test_inverse_undoes_and_holds_for_a_singular_pose():
    maps = poses(4, 3)
    square = torch.cat([maps, torch.tensor([[[[0.0, 0, 1]]]]).double().expand(4, 3, 1, 3)], dim=2)
    assert torch.allclose(inverse(maps), torch.linalg.inv(square)[:, :, :2])
    flat = torch.tensor([[1.0, 1, 0], [1, 1, 0]]).requires_grad_()
    undone = inverse(flat)
    torch.autograd.backward(undone.sum())
    assert float(undone.detach().abs().max()) == pytest.approx(1 / SMALLEST) and torch.isfinite(flat.grad).all()


def test_over_is_associative_and_opaque_hides():
    colours, alphas = random(3, 2, 1, 4, 4), random(3, 2, 1, 4, 4, seed=1)
    lower, lower_alpha = over(colours[:2], alphas[:2])
    all_at_once, _ = over(colours, alphas)
    in_two, _ = over(torch.stack([lower / lower_alpha, colours[2]]), torch.stack([lower_alpha, alphas[2]]))
    assert torch.allclose(all_at_once, in_two)
    alphas[2] = 1
    assert torch.equal(over(colours, alphas)[0], colours[2])


@needs_kernel
@pytest.mark.parametrize("images", [1, 7])
@pytest.mark.parametrize("channels", [1, 3])
def test_kernel_draws_as_the_reference_with_its_gradients(images, channels):
    given = [random(4, channels + 1, 6, 5), inverse(poses(images, 4)), random(images, 4, seed=2)]
    weighting = random(images, channels + 1, 11, 13, seed=3)

    def evaluated(way, dtype):
        leaves = [value.to(dtype).clone().requires_grad_() for value in given]
        found = way(*leaves, (11, 13))
        gradients = torch.autograd.grad((torch.cat(found, dim=1) * weighting.to(dtype)).sum(), leaves)
        return [*found, *gradients]

    exact = evaluated(composited, torch.float64)
    for mine, right in zip(evaluated(drawing.draw, torch.float32), exact, strict=True):
        assert (mine.double() - right).abs().max() < 1e-4 * right.abs().max()


@needs_kernel
def test_kernel_is_the_same_for_any_number_of_threads():
    given = [random(4, 2, 6, 5).float(), inverse(poses(7, 4)).float(), random(7, 4, seed=2).float()]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            leaves = [value.clone().requires_grad_() for value in given]
            canvas, _ = drawing.draw(*leaves, (11, 13))
            found.append([canvas, *torch.autograd.grad(canvas.square().sum(), leaves)])
    finally:
        torch.set_num_threads(before)
    for one, three in zip(*found, strict=True):
        assert torch.allclose(one, three, rtol=1e-4, atol=1e-5)


@needs_kernel
def test_kernel_is_chosen_and_can_be_refused(monkeypatch):
    given = random(2, 2, 4, 4).float(), poses(1, 2).float(), random(1, 2).float()
    used = []
    monkeypatch.setattr(drawing, "draw", lambda *arguments: used.append(1) or composited(*arguments))
    drawn(*given, (6, 6))
    assert used
    used.clear()
    with backend.using("reference"):
        drawn(*given, (6, 6))
    assert not used


@needs_kernel
def test_a_kernel_that_is_wrong_is_not_used(monkeypatch):
    given = random(2, 2, 3, 4).float(), poses(1, 2).float(), random(1, 2).float()
    right = drawing.draw
    monkeypatch.setattr(drawing, "_verdicts", {})
    monkeypatch.setattr(drawing, "draw", lambda *arguments: tuple(1.1 * part for part in right(*arguments)))
    with pytest.warns(UserWarning, match="differs from the reference"):
        canvas, _ = drawn(*given, (6, 6))
    expected = drawn(*(value.double() for value in given), (6, 6))[0]
    assert torch.allclose(canvas.double(), expected, atol=1e-5)
