"""What must hold of the methods whatever the votes: closed forms, symmetries and quantities that cannot grow."""

import math

import pytest
import torch
from torch.nn import functional

from routebench.ops import description_length_logit, squash
from routebench.routing import Routed, make
from tests.references.em import inverse_temperature, log_density
from tests.references.problem import assert_close, dense, dense_matrices, disturb, routed_by
from tests.references.votes import every_vote

ITERATIVE = ["dynamic", "em", "inverted-attention"]


def couplings_of(method, problem):
    """The coupling of every sweep over the children."""
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = lambda coupling: seen.append(coupling.detach())
    method(votes, activations)
    return seen


def moments(weight, votes):
    """Weighted mean and variance of votes over children: (lane, parent, pose) each."""
    mass = weight.sum(dim=1)[..., None]
    mean = (weight[..., None] * votes).sum(dim=1) / mass
    return mean, (weight[..., None] * (votes - mean[:, None]).square()).sum(dim=1) / mass


def test_one_iteration_of_dynamic_routing_is_the_squashed_mean_over_parents():
    problem = dense(parents=4)
    routed = make("dynamic", problem.sizes, iterations=1)(*problem.given_to(make("dynamic", problem.sizes)))
    votes, _ = problem.written_out()
    assert_close(routed.poses, squash(votes.sum(dim=1) / 4))


def test_no_routing_lacks_the_factor_of_one_over_parents():
    problem = dense(parents=4)
    method = make("none", problem.sizes)
    votes, _ = problem.written_out()
    assert_close(routed_by(method, problem).poses, squash(votes.sum(dim=1)))


def test_no_routing_differs_from_one_iteration():
    problem = dense(parents=4)
    one = make("dynamic", problem.sizes, iterations=1)
    zero = make("none", problem.sizes)
    difference = routed_by(zero, problem).activations - routed_by(one, problem).activations
    assert bool((difference > 1e-3).all())


def test_one_iteration_of_dynamic_routing_is_uniform_routing():
    problem = dense()
    one, uniform = make("dynamic", problem.sizes, iterations=1), make("uniform", problem.sizes)
    assert torch.equal(routed_by(one, problem).poses, routed_by(uniform, problem).poses)


@pytest.mark.parametrize("name", ITERATIVE)
def test_routing_cannot_tell_parents_apart_whose_votes_are_the_same(name):
    problem = dense(parents=4)
    problem.weight.data[:] = problem.weight.data[:, :1]
    for coupling in couplings_of(make(name, problem.sizes, iterations=4).double(), problem):
        assert_close(coupling, torch.full_like(coupling, 1 / 4))


@pytest.mark.parametrize("name", ITERATIVE)
def test_routing_tells_parents_apart_whose_votes_differ(name):
    problem = dense(parents=4)
    last = couplings_of(make(name, problem.sizes, iterations=4).double(), problem)[-1]
    assert float((last - 1 / 4).abs().max()) > 0.01


@pytest.mark.parametrize("name", ["dynamic", "em"])
def test_without_biases_the_negative_of_an_input_is_as_present_as_the_input(name):
    problem = dense()
    method = make(name, problem.sizes, iterations=3).double()
    original = routed_by(method, problem)
    problem.children.data.neg_()
    negative = routed_by(method, problem)
    assert_close(negative.poses, -original.poses)
    assert_close(negative.activations, original.activations)


def test_a_bias_tells_an_input_from_its_negative():
    problem = dense()
    method = disturb(make("dynamic", problem.sizes, bias=True).double())
    original = routed_by(method, problem)
    problem.children.data.neg_()
    negative = routed_by(method, problem)
    assert float((negative.activations - original.activations).detach().abs().max()) > 0.01


class TestEM:
    @pytest.mark.parametrize("final_lambda", [0.0, 0.01, 1.0])
    def test_first_means_are_weighted_by_activations_whatever_beta_and_lambda(self, final_lambda):
        problem = dense_matrices()
        method = disturb(make("em", problem.sizes, iterations=1, final_lambda=final_lambda).double())
        votes, activations = problem.written_out()
        expected = (activations[:, :, None, None] * votes).sum(dim=1) / activations.sum(dim=1)[:, None, None]
        assert_close(routed_by(method, problem).poses, expected, rtol=1e-7)

    def test_cost_is_the_negative_log_likelihood_of_the_votes(self):
        votes = torch.randn(1, 7, 1, 4, dtype=torch.float64)
        weight = torch.rand(1, 7, 1, dtype=torch.float64)
        mean, variance = moments(weight, votes)
        expected = (weight * log_density(votes, mean, variance)).sum(dim=1)  # the cost, negated
        beta_u = torch.tensor([0.5 + 0.5 * math.log(2 * math.pi)], dtype=torch.float64)
        found = description_length_logit(weight.sum(dim=1), variance, beta_u, torch.zeros(1, dtype=torch.float64))
        assert_close(found, expected)

    def test_free_energy_never_grows_while_activations_are_frozen(self):
        problem = dense(images=3, children=12, parents=4, pose=2)
        method = make("em", problem.sizes, iterations=8, final_lambda=0.0, variance_floor=1e-12).double()
        couplings = couplings_of(method, problem)[1:]  # the first iteration sweeps twice
        V, a = problem.written_out()
        energies, fitted = [], None
        for R in couplings:
            if fitted is not None:
                energies.append(free_energy(R, a, V, *fitted))  # after an E-step
            fitted = moments(R * a[..., None], V)
            energies.append(free_energy(R, a, V, *fitted))  # after an M-step
        assert len(energies) == 15
        steps = torch.stack(energies).detach().diff(dim=0)
        assert float(steps.max()) < 1e-6
        assert float(steps.sum(dim=0).max()) < -0.1

    def test_equal_variances_and_activations_make_coupling_a_softmax_of_squared_distances(self):
        problem = dense()
        method = make("em", problem.sizes).double()
        votes, activations = problem.given_to(method)
        mean = torch.randn(2, 3, 6, dtype=torch.float64)
        variance = torch.full_like(mean, 0.3)
        seen = []
        votes.watch = seen.append
        memory = (mean, variance, torch.full((2, 3), -1.2, dtype=torch.float64))
        method.iterate(votes, activations, Routed(mean, memory=memory))
        distance = (problem.written_out()[0] - mean[:, None]).square().sum(dim=-1)
        assert_close(seen[0], torch.softmax(-distance / (2 * 0.3), dim=2))

    @pytest.mark.parametrize("schedule", ["iteration", "training", "constant"])
    def test_inverse_temperature_follows_its_schedule(self, schedule):
        method = make("em", dense().sizes, lambda_schedule=schedule)
        method.progress = 0.25
        for k in (1, 2, 3):
            expected = inverse_temperature(k, 0.01, schedule, 0.25)
            assert method.inverse_temperature(k) == pytest.approx(expected, rel=1e-12)

    def test_default_temperatures_are_those_of_the_authors_code(self):
        method = make("em", dense().sizes)
        found = [method.inverse_temperature(k) for k in (1, 2, 3)]
        assert found == pytest.approx([0.0005, 0.000975, 0.00142625])

    def test_mixing_proportions_add_up_to_one(self):
        problem = dense(parents=4)
        method = make("em", problem.sizes, activation="mixing").double()
        total = routed_by(method, problem).activations.sum(dim=1)
        assert_close(total, torch.ones_like(total))

    def test_log_odds_are_those_of_the_activations(self):
        problem = dense()
        method = disturb(make("em", problem.sizes, final_lambda=1.0).double())
        routed = routed_by(method, problem)
        assert_close(routed.logits.sigmoid(), routed.activations)

    def test_the_floor_of_masses_hardly_changes_anything(self):
        problem = dense()
        with_floor, literal = (make("em", problem.sizes, mass_floor=floor).double() for floor in (1e-8, 0.0))
        found, expected = (routed_by(method, problem).poses for method in (with_floor, literal))
        assert_close(found, expected, rtol=1e-5, atol=1e-7)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_absent_children_leave_finite_parents_and_gradients(self, dtype):
        problem = dense()
        problem.activations.data.zero_()
        method = make("em", problem.sizes).to(dtype)
        for leaf in problem.leaves():
            leaf.data = leaf.data.to(dtype)
        routed = routed_by(method, problem)
        (routed.poses.sum() + routed.activations.sum()).backward()
        assert all(bool(torch.isfinite(leaf.grad).all()) for leaf in problem.leaves())


def free_energy(R, a, V, mean, variance):
    """sum_ij a_i R_ij (ln R_ij - ln a_j - ln p_ij) of each lane, with all a_j = 1/2."""
    log_joint = math.log(0.5) + log_density(V, mean, variance)
    return (a[..., None] * R * (R.clamp(min=1e-300).log() - log_joint)).sum(dim=(1, 2))


class TestInvertedAttention:
    @pytest.mark.parametrize("iterations", [1, 3])
    def test_parents_have_mean_zero_and_variance_one_at_first(self, iterations):
        problem = dense(pose=16)
        method = make("inverted-attention", problem.sizes, iterations=iterations).double()
        poses = routed_by(method, problem).poses
        assert_close(poses.mean(dim=-1), torch.zeros(2, 3, dtype=torch.float64))
        assert_close(poses.var(dim=-1, correction=0), torch.ones(2, 3, dtype=torch.float64), rtol=1e-3)

    def test_zero_parents_give_uniform_coupling(self):
        problem = dense(parents=4)
        method = make("inverted-attention", problem.sizes, iterations=2).double()
        votes, activations = problem.given_to(method)
        seen = []
        votes.watch = seen.append
        method.iterate(votes, activations, Routed(torch.zeros(2, 4, 6, dtype=torch.float64)))
        assert_close(seen[0], torch.full((2, 5, 4), 0.25, dtype=torch.float64))

    @pytest.mark.parametrize(("scale", "divisor"), [(True, math.sqrt(6)), (False, 1.0)])
    def test_agreement_is_divided_by_the_root_of_the_pose_only_where_asked(self, scale, divisor):
        problem = dense(pose=6)
        method = make("inverted-attention", problem.sizes, scale=scale).double()
        _, second = couplings_of(method, problem)
        votes, _ = problem.written_out()
        parents = functional.layer_norm(votes.mean(dim=1) * 5 / 3, (6,))  # 5 children, 3 parents
        agreement = (votes * parents[:, None]).sum(dim=-1) / divisor
        assert_close(second, agreement.softmax(dim=2))

    def test_only_ablation_c_looks_at_the_activations_of_children(self):
        for activations, differs in ((False, False), (True, True)):
            problem = dense()
            method = make("inverted-attention", problem.sizes, activations=activations).double()
            before = routed_by(method, problem).poses
            problem.activations.data[:, 0] = 0.0
            assert torch.equal(before, routed_by(method, problem).poses) != differs


class TestRandom:
    def test_coupling_is_a_softmax_of_the_drawn_numbers(self):
        problem = dense()
        method = make("random", problem.sizes, spread=2.0, draw=7).double()
        z = torch.randn(5, 3, generator=torch.Generator().manual_seed(7))
        expected = (2 * z).exp() / (2 * z).exp().sum(dim=1, keepdim=True)
        assert_close(couplings_of(method, problem)[0][0], expected.double(), rtol=1e-5)

    def test_no_spread_is_uniform_routing(self):
        problem = dense()
        still, uniform = make("random", problem.sizes, spread=0.0).double(), make("uniform", problem.sizes)
        assert_close(routed_by(still, problem).poses, routed_by(uniform, problem).poses, rtol=1e-6, atol=1e-7)

    def test_coupling_is_the_same_whatever_the_seed_of_the_run(self):
        sizes = dense().sizes
        torch.manual_seed(1)
        one = make("random", sizes)
        torch.manual_seed(2)
        assert torch.equal(one.coupling, make("random", sizes).coupling)

    def test_coupling_does_not_learn(self):
        assert list(make("random", dense().sizes).parameters()) == []


def test_transcribed_votes_are_what_a_sum_over_pose_elements_gives():
    problem = dense()
    expected = torch.einsum("bid,ijde->bije", problem.children, problem.weight)
    assert_close(every_vote(problem.children, problem.weight), expected)
