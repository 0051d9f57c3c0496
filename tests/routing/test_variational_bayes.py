"""What must hold of variational-Bayes routing: its limits, its lower bound, and how it is normalised."""

import math

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.capsules.schedules import SCHEDULES
from routebench.claims import Claim
from routebench.routing import factory, make
from routebench.routing.variational_bayes import expected_log_determinant
from tests.references.problem import assert_close, dense, gradients, on_grid, routed_by

PLAIN = {"pose_norm": False, "activation_norm": False}


@pytest.mark.parametrize("iterations", [1, 2, 3, 6])
def test_with_growing_evidence_it_becomes_em_with_mixing_proportions(iterations):
    problem = dense(children=9)
    bayes = make("variational-bayes", problem.sizes, iterations=iterations, **PLAIN).double()
    em = make("em", problem.sizes, iterations=iterations, activation="mixing", variance_floor=1e-30).double()
    expected = routed_by(em, problem).poses
    apart = []
    for evidence in (1e2, 1e4, 1e6):
        problem.activations.data.fill_(1.0).mul_(evidence)
        apart.append(float((routed_by(bayes, problem).poses - routed_by(em, problem).poses).detach().abs().max()))
    assert apart[2] < 1e-4 * float(expected.detach().abs().max())
    assert apart[0] > 10 * apart[1] > 100 * apart[2]


def test_without_evidence_parents_are_the_prior():
    problem = dense(parents=4)
    problem.activations.data.zero_()
    routed = routed_by(make("variational-bayes", problem.sizes, psi0=2.0, **PLAIN).double(), problem)
    mean, curvature, bias = routed.memory
    assert_close(mean, torch.zeros_like(mean))
    assert_close(curvature, torch.full_like(curvature, 7 * 2.0))  # nu_0 psi_0 for poses of 6
    assert_close(bias, bias[:, :1].expand_as(bias))


def test_expected_log_determinant_is_that_of_drawn_wishart_matrices():
    nu, scale = torch.tensor(7.0, dtype=torch.float64), torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    torch.manual_seed(0)
    normal = torch.randn(20_000, 7, 3, dtype=torch.float64) * scale.sqrt()
    drawn = normal.transpose(1, 2) @ normal
    assert float(expected_log_determinant(nu, -scale.log().sum(), 3)) == pytest.approx(
        float(drawn.logdet().mean()), abs=0.03
    )


def test_the_lower_bound_never_falls():
    """With poses of one element the updates are exact, so that each one raises the bound."""
    problem = dense(images=3, children=12, parents=4, pose=1)
    V, a = problem.written_out()
    method = make("variational-bayes", problem.sizes, alpha0=0.5, kappa0=0.7, psi0=2.0, iterations=1, **PLAIN).double()
    couplings, routed = [], None
    bounds = []
    for _ in range(8):
        votes, activations = problem.given_to(method)
        votes.watch = couplings.append
        routed = method.iterate(votes, activations, routed)
        bounds.append(lower_bound(V[..., 0], a, couplings[-1], alpha0=0.5, kappa0=0.7, nu0=2.0, psi0=2.0))
    steps = torch.stack(bounds).detach().diff(dim=0)
    assert float(steps.min()) > -1e-9
    assert float(steps.sum(dim=0).min()) > 0.1


def lower_bound(V, a, R, *, alpha0, kappa0, nu0, psi0):
    """Log marginal likelihood of children of one element that are shared out by R, and the entropy of R; per lane."""
    r = a[..., None] * R
    N = r.sum(dim=1)
    mean = (r * V).sum(dim=1) / N
    alpha, kappa, nu = alpha0 + N, kappa0 + N, nu0 + N
    inverse = 1 / psi0 + (r * (V - mean[:, None]) ** 2).sum(dim=1) + kappa0 * N / kappa * mean**2
    shares = torch.lgamma(alpha).sum(dim=1) - torch.lgamma(alpha.sum(dim=1))
    of_votes = torch.lgamma(nu / 2) - nu / 2 * inverse.log() + nu / 2 * math.log(2) - 0.5 * kappa.log()
    of_votes = of_votes - N / 2 * math.log(2 * math.pi)
    entropy = -(r * R.clamp(min=1e-300).log()).sum(dim=(1, 2))
    return shares + of_votes.sum(dim=1) + entropy


class TestFullCovariance:
    def test_poses_of_one_element_have_no_other(self):
        problem = dense(pose=1)
        diagonal, full = (
            routed_by(make("variational-bayes", problem.sizes, covariance=name).double(), problem)
            for name in ("diagonal", "full")
        )
        assert_close(full.poses, diagonal.poses)
        assert_close(full.activations, diagonal.activations)

    @pytest.mark.parametrize("iterations", [1, 4])
    def test_votes_whose_elements_are_not_correlated_give_diagonal_precisions(self, iterations):
        """Children come in pairs of opposites along the axes, and each parent scales the axes."""
        problem = dense(images=2, children=8, parents=3, pose_in=4, pose=4)
        problem.children.data = torch.cat([torch.eye(4), -torch.eye(4)]).double().expand(2, 8, 4).clone()
        problem.weight.data = torch.diag_embed(torch.rand(3, 4).double() + 0.2).expand(8, 3, 4, 4).clone()
        problem.activations.data = problem.activations.data[:, :4].repeat(1, 2)
        diagonal, full = (
            routed_by(
                make("variational-bayes", problem.sizes, covariance=name, iterations=iterations, **PLAIN), problem
            )
            for name in ("diagonal", "full")
        )
        assert_close(full.memory[1].square().diagonal(dim1=-2, dim2=-1), diagonal.memory[1])
        assert_close(full.memory[2], diagonal.memory[2])

    def test_only_full_precisions_turn_with_the_votes(self):
        turn, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))
        apart = {}
        for name in ("diagonal", "full"):
            problem = dense(children=12)
            method = make("variational-bayes", problem.sizes, covariance=name, **PLAIN).double()
            before = routed_by(method, problem)
            problem.weight.data = problem.weight.data @ turn
            after = routed_by(method, problem)
            apart[name] = float((after.poses - before.poses @ turn).detach().abs().max())
            apart[name] += float((after.logits - before.logits).detach().abs().max())
            assert (Claim.POSE_ROTATION in method.claims) == (name == "full")
        assert apart["full"] < 1e-10
        assert apart["diagonal"] > 1e-3

    def test_the_lower_bound_never_falls_for_poses_of_any_size(self):
        """Here the expected log determinant is that of the precisions, and every update is exact."""
        problem = dense(images=3, children=12, parents=4, pose=3)
        V, a = problem.written_out()
        prior = {"alpha0": 0.5, "kappa0": 0.7, "psi0": 2.0}
        method = make("variational-bayes", problem.sizes, covariance="full", iterations=1, **prior, **PLAIN).double()
        couplings, bounds, routed = [], [], None
        for _ in range(8):
            votes, activations = problem.given_to(method)
            votes.watch = couplings.append
            routed = method.iterate(votes, activations, routed)
            bounds.append(lower_bound_of_matrices(V, a, couplings[-1], nu0=4.0, **prior))
        steps = torch.stack(bounds).detach().diff(dim=0)
        assert float(steps.min()) > -1e-9
        assert float(steps.sum(dim=0).min()) > 0.1

    def test_a_precision_that_cannot_be_factored_is_not_a_number(self):
        problem = dense()
        method = make("variational-bayes", problem.sizes, covariance="full").double()
        votes, activations = problem.given_to(method)
        method(votes, activations)
        problem.children.data[0, 0, 0] = float("inf")
        votes, activations = problem.given_to(method)
        assert bool(method(votes, activations).activations.isnan().any())


def lower_bound_of_matrices(V, a, R, *, alpha0, kappa0, nu0, psi0):
    """As `lower_bound`, of children of several elements with full precisions."""
    D, r = V.shape[-1], a[..., None] * R
    N = r.sum(dim=1)
    mean = (r[..., None] * V).sum(dim=1) / N[..., None]
    alpha, kappa, nu = alpha0 + N, kappa0 + N, nu0 + N
    scatter = torch.einsum("lij,lijp,lijq->ljpq", r, V - mean[:, None], V - mean[:, None])
    scatter = scatter + torch.einsum("lj,ljp,ljq->ljpq", kappa0 * N / kappa, mean, mean)
    inverse = torch.eye(D, dtype=V.dtype) / psi0 + scatter
    shares = torch.lgamma(alpha).sum(dim=1) - torch.lgamma(alpha.sum(dim=1))
    of_votes = torch.special.multigammaln(nu / 2, D) - nu / 2 * torch.logdet(inverse) + nu * D / 2 * math.log(2)
    of_votes = of_votes - D / 2 * kappa.log() - N * D / 2 * math.log(2 * math.pi)
    entropy = -(r * R.clamp(min=1e-300).log()).sum(dim=(1, 2))
    return shares + of_votes.sum(dim=1) + entropy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_parent_per_child_does_not_collapse(dtype):
    """EM would give such parents no variance at all."""
    problem = dense(images=3, children=3, parents=3)
    for leaf in problem.leaves():
        leaf.data = leaf.data.to(dtype)
    problem.activations.data.fill_(1.0)
    problem.children.data.mul_(30)
    routed = routed_by(make("variational-bayes", problem.sizes, iterations=10, **PLAIN).to(dtype), problem)
    precision = routed.memory[1].detach()
    assert float(precision.max()) < (6 + 1 + 3) * 1.0 + 1e-3  # never above nu psi_0
    found = [routed.poses, *gradients([routed.poses, routed.activations], problem.leaves())]
    assert all(bool(torch.isfinite(value).all()) for value in found)


class TestNormalisation:
    def test_in_training_every_parent_type_has_mean_zero_and_variance_one(self):
        problem = on_grid(images=4)
        routed = routed_by(make("variational-bayes", problem.sizes).double(), problem)
        for values in (routed.logits[..., None], routed.poses):
            assert_close(values.mean(dim=(0, 2)), torch.zeros(3, dtype=torch.float64))
            assert_close(values.var(dim=(0, 2), correction=0), torch.ones(3, dtype=torch.float64), rtol=0.1)

    def test_running_statistics_follow_the_last_iteration_alone(self):
        problem = dense(images=6)
        method = make("variational-bayes", problem.sizes).double()
        raw = routed_by(make("variational-bayes", problem.sizes, **PLAIN).double(), problem)
        routed_by(method, problem)
        assert int(method.norm_of_poses.num_batches_tracked) == 1
        assert_close(method.norm_of_poses.running_mean, 0.1 * raw.poses.mean(dim=(0, 2)).detach())
        assert_close(method.norm_of_logits.running_mean, 0.1 * raw.logits.mean(dim=0).detach())

    def test_in_evaluation_running_statistics_serve_every_iteration(self):
        problem = dense(images=6)
        method = make("variational-bayes", problem.sizes, iterations=2).double()
        for _ in range(3):
            routed_by(method, problem)
        method.eval()
        before = method.norm_of_poses.running_mean.clone()
        votes, activations = problem.given_to(method)
        plain = make("variational-bayes", problem.sizes, **PLAIN).double()
        first = method.iterate(votes, activations, None)
        raw = plain.iterate(votes, activations, None)
        spread = (method.norm_of_poses.running_var + 1e-5).sqrt()
        assert_close(first.poses, (raw.poses - before[:, None]) / spread[:, None])
        assert torch.equal(method.norm_of_poses.running_mean, before)

    def test_constants_of_a_type_are_learned_only_where_nothing_cancels_them(self):
        sizes = dense().sizes
        assert list(make("variational-bayes", sizes).parameters()) == []
        names = {name for name, _ in make("variational-bayes", sizes, activation_norm=False).named_parameters()}
        assert names == {"beta_a", "beta_u"}

    def test_what_it_claims_hangs_on_its_norms(self):
        sizes = dense().sizes
        assert Claim.BATCH_INDEPENDENCE not in make("variational-bayes", sizes).claims
        assert Claim.BATCH_INDEPENDENCE in make("variational-bayes", sizes, **PLAIN).claims
        assert Claim.POSE_SIGNED_PERMUTATION in make("variational-bayes", sizes, pose_norm=False).claims

    def test_activations_are_those_of_the_transcription_on_a_grid_alone(self):
        """Without norms each image is as it is alone, though all positions compete."""
        problem = on_grid(images=3)
        method = make("variational-bayes", problem.sizes, **PLAIN).double()
        together = routed_by(method, problem).activations.reshape(3, -1)
        problem.children.data, problem.activations.data = problem.children.data[1:2], problem.activations.data[1:2]
        assert_close(routed_by(method, problem).activations.reshape(1, -1), together[1:2])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_running_statistics_follow_the_last_iteration_of_each_schedule(schedule):
    method = factory("variational-bayes", iterations=6, schedule=schedule)
    layer = DenseCapsules(5, 3, 4, 4, method).train()
    SCHEDULES[schedule]([layer], Capsules(torch.randn(4, 5, 4), torch.rand(4, 5)))
    assert int(layer.routing.norm_of_poses.num_batches_tracked) == 1
