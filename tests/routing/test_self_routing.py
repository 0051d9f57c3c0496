"""What must hold of self-routing: it starts uniform, never looks at votes, and averages."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules, DenseCapsules
from routebench.claims import Claim
from routebench.routing import factory, make
from tests.references.problem import assert_close, dense, disturb, routed_by


def test_at_the_start_it_is_a_weighted_mean_and_all_parents_are_equally_present():
    problem = dense(parents=4)
    routed = routed_by(make("self-routing", problem.sizes).double(), problem)
    votes, a = problem.written_out()
    assert_close(routed.poses, (a[:, :, None, None] * votes).sum(dim=1) / a.sum(dim=1)[:, None, None])
    assert_close(routed.activations, torch.full((2, 4), 0.25, dtype=torch.float64))


def test_votes_do_not_decide():
    problem = dense()
    method = disturb(make("self-routing", problem.sizes).double())
    before = routed_by(method, problem)
    problem.weight.data.mul_(-7)
    after = routed_by(method, problem)
    assert torch.equal(before.activations, after.activations)
    assert_close(after.poses, -7 * before.poses)


def test_activations_of_one_position_add_up_to_one():
    problem = dense()
    activations = routed_by(disturb(make("self-routing", problem.sizes).double()), problem).activations
    assert_close(activations.sum(dim=1), torch.ones(2, dtype=torch.float64))


def test_a_gate_that_is_sure_sends_a_child_to_one_parent():
    problem = dense(children=3, parents=3)
    method = make("self-routing", problem.sizes).double()
    method.bias.data = 1e3 * torch.eye(3, dtype=torch.float64)
    votes, _ = problem.written_out()
    own = torch.stack([votes[:, number, number] for number in range(3)], dim=1)
    assert_close(routed_by(method, problem).poses, own)


def test_the_gate_reads_poses_of_mean_zero_and_variance_one_however_short_they_are():
    problem = dense(images=8)
    method = disturb(make("self-routing", problem.sizes).double())
    before = routed_by(method, problem).activations
    problem.children.data.mul_(0.1).add_(0.5)  # as squashed poses are
    assert_close(routed_by(method, problem).activations, before, rtol=1e-2)
    plain = make("self-routing", problem.sizes, pose_norm=False).double()
    plain.load_state_dict(method.state_dict(), strict=False)
    assert float((routed_by(plain, problem).activations - before).detach().abs().max()) > 0.02


def test_in_evaluation_the_gate_reads_each_image_by_itself():
    problem = dense(images=6)
    method = disturb(make("self-routing", problem.sizes).double())
    for _ in range(3):
        routed_by(method, problem)
    together = routed_by(method.eval(), problem).activations
    problem.children.data, problem.activations.data = problem.children.data[2:3], problem.activations.data[2:3]
    assert_close(routed_by(method, problem).activations, together[2:3])
    assert_close(routed_by(method.train(), problem).activations, together[2:3])  # one lane has no deviation


def test_only_without_its_norm_images_are_independent():
    sizes = dense().sizes
    assert Claim.BATCH_INDEPENDENCE not in make("self-routing", sizes).claims
    assert Claim.BATCH_INDEPENDENCE in make("self-routing", sizes, pose_norm=False).claims


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_absent_children_leave_finite_parents_and_gradients(dtype):
    problem = dense()
    problem.activations.data.zero_()
    for leaf in problem.leaves():
        leaf.data = leaf.data.to(dtype)
    method = disturb(make("self-routing", problem.sizes).to(dtype))
    routed = routed_by(method, problem)
    (routed.poses.sum() + routed.activations.sum()).backward()
    assert float(routed.activations.detach().abs().max()) == 0
    assert all(bool(torch.isfinite(leaf.grad).all()) for leaf in [*problem.leaves(), *method.parameters()])


def test_gates_have_the_size_of_the_poses_below_and_are_shared_by_positions():
    layer = ConvCapsules((6, 6, 2), 3, 5, 7, factory("self-routing"))
    assert tuple(layer.routing.gate.shape) == (18, 3, 5)
    dense_layer = DenseCapsules((2, 2, 3), 4, 7, 6, factory("self-routing"), share=True)
    assert tuple(dense_layer.routing.gate.shape) == (12, 4, 7)
    found = layer(Capsules(torch.randn(2, 6, 6, 2, 5), torch.rand(2, 6, 6, 2)))
    assert tuple(found.poses.shape) == (2, 4, 4, 3, 7)
