"""Attention as top-down generation, against one child and one parent at a time in plain numbers."""

import math

import numpy as np
import pytest
import torch

from routebench.papers.kiefer.models.top_down.attention import attend, energy, predict


def problem(seed=0, batch=2, children=3, parents=4, pose=5, scale=1.0):
    draws = torch.Generator().manual_seed(seed)
    start = scale * torch.randn(batch, children, pose, generator=draws, dtype=torch.float64)
    predictions = scale * torch.randn(batch, children, parents, pose, generator=draws, dtype=torch.float64)
    return start, predictions


def plain(start, predictions, beta, iterations, accumulate):
    """Equation 6, transcribed."""
    result = start.numpy().copy()
    for b, i in np.ndindex(start.shape[:2]):
        memories, total = predictions[b, i].numpy(), 0.0
        for _ in range(iterations):
            similarity = beta * np.array([float(np.dot(result[b, i], memory)) for memory in memories])
            total = total + similarity if accumulate else similarity
            weights = np.exp(total - total.max()) / np.exp(total - total.max()).sum()
            result[b, i] = sum(weight * memory for weight, memory in zip(weights, memories, strict=True))
    return torch.from_numpy(result)


@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize(("beta", "accumulate"), [(1.0, False), (0.3, False), (2.5, True)])
def test_update_is_that_of_plain_arithmetic(iterations, beta, accumulate):
    start, predictions = problem()
    found = attend(start, predictions, beta=beta, iterations=iterations, accumulate=accumulate).poses
    torch.testing.assert_close(found, plain(start, predictions, beta, iterations, accumulate))


def test_accumulated_similarity_can_be_handed_on():
    start, predictions = problem()
    together = attend(start, predictions, iterations=3, accumulate=True)
    first = attend(start, predictions, iterations=2, accumulate=True)
    then = attend(first.poses, predictions, accumulate=True, similarity=first.similarity)
    torch.testing.assert_close(then.poses, together.poses)
    assert not then.poses.allclose(attend(first.poses, predictions).poses)


@pytest.mark.parametrize("seed", range(20))
def test_energy_never_increases(seed):
    beta, scale = (0.01, 0.3, 1.0, 4.0, 50.0)[seed % 5], (0.1, 1.0, 10.0, 100.0)[seed % 4]
    state, predictions = problem(seed, batch=20, children=5, parents=1 + seed % 7, pose=2 + seed % 3, scale=scale)
    before = energy(state, predictions, beta)
    for _ in range(8):
        state = attend(state, predictions, beta=beta).poses
        after = energy(state, predictions, beta)
        assert bool((after <= before + 1e-12 * (1 + before.abs() + scale**2)).all())
        before = after


def test_energy_is_that_of_plain_arithmetic_and_its_fixed_points_are_those_of_the_update():
    state, predictions = problem()
    first = [float(state[0, 0] @ memory) for memory in predictions[0, 0]]
    expected = float(state[0, 0] @ state[0, 0]) / 2 - math.log(sum(math.exp(0.7 * s) for s in first)) / 0.7
    assert float(energy(state, predictions, 0.7)[0, 0]) == pytest.approx(expected)
    state.requires_grad_()
    (gradient,) = torch.autograd.grad(energy(state, predictions, 0.7).sum(), state)  # V - softmax(beta V U') U
    torch.testing.assert_close(state - gradient, attend(state, predictions, beta=0.7).poses)


def test_one_parent_is_followed_in_one_step():
    start, predictions = problem(parents=1)
    once = attend(start, predictions).poses
    torch.testing.assert_close(once, predictions[:, :, 0])
    assert once.equal(attend(start, predictions, iterations=5).poses)


def test_cold_attention_copies_the_prediction_that_the_child_is_most_like():
    start, predictions = problem()
    similarity = torch.einsum("bid,bijd->bij", start, predictions)
    expected = predictions.gather(2, similarity.argmax(dim=2)[..., None, None].expand(-1, -1, 1, 5))[:, :, 0]
    torch.testing.assert_close(attend(start, predictions, beta=1e6).poses, expected)


def test_predictions_are_transposed_votes():
    draws = torch.Generator().manual_seed(0)
    above = torch.randn(2, 4, 6, generator=draws, dtype=torch.float64)
    weight, bias = (torch.randn(size, generator=draws, dtype=torch.float64) for size in [(3, 4, 5, 6), (3, 4, 5)])
    found = predict(above, weight, bias)
    assert found.shape == (2, 3, 4, 5)
    torch.testing.assert_close(found[1, 2, 3], weight[2, 3] @ above[1, 3] + bias[2, 3])
    torch.testing.assert_close(predict(above, weight), found - bias)
    below = torch.randn(5, generator=draws, dtype=torch.float64)  # <child, prediction> = <vote, parent>
    torch.testing.assert_close(below @ (weight[2, 3] @ above[1, 3]), (below @ weight[2, 3]) @ above[1, 3])


def test_gradients_are_those_of_finite_differences():
    start, predictions = (values.requires_grad_() for values in problem())
    beta = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def update(start, predictions, beta):
        return attend(start, predictions, beta=beta, iterations=2, accumulate=True).poses

    assert torch.autograd.gradcheck(update, (start, predictions, beta))


@pytest.mark.parametrize("iterations", [1, 4])
def test_predictions_are_kept_once(iterations):
    above = torch.randn(4, 10, 16)
    weight = torch.randn(30, 10, 8, 16, requires_grad=True)
    large, kept = 4 * 30 * 10 * 8, {}

    def see(tensor):
        if tensor.numel() >= large and tensor.untyped_storage().data_ptr() != weight.untyped_storage().data_ptr():
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(see, lambda tensor: tensor):
        predictions = predict(above, weight)
        attend(torch.randn(4, 30, 8), predictions, iterations=iterations)
    assert list(kept) == [predictions.untyped_storage().data_ptr()]
