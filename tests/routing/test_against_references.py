"""Every shipped method against a transcription of its paper's equations: outputs and all gradients, in float64."""

import math

import pytest
import torch

from routebench.engine.suites import load_suite
from routebench.errors import UserError
from routebench.kernels import fused, using
from routebench.kernels.trust import differences
from routebench.routing import hyperparameters_of, make
from tests.references import em
from tests.references.competition import on_a_grid
from tests.references.problem import (
    Problem,
    assert_close,
    dense,
    dense_matrices,
    disturb,
    gradients,
    on_grid,
    routed_by,
)
from tests.references.transcription import SHIPPED, Transcription
from tests.references.votes import seen_by

PROBLEMS = {
    "vectors": dense,
    "matrices": dense_matrices,
    "one image": lambda: dense(images=1),
    "one child": lambda: dense(children=1),
    "one parent": lambda: dense(parents=1),
    "one of each": lambda: dense_matrices(images=1, children=1, parents=1),
}

OPTIONS = [(name, options) for name in SHIPPED for options in Transcription(name).options]
ITERATIVE = [name for name in SHIPPED if "iterations" in hyperparameters_of(name)]
AXES = ("types", "types+positions", "positions", "children")


def transcribed(name, problem, learned, **params):
    """What the transcription gives."""
    transcription = Transcription(name)
    children = {"x": problem.in_lanes()[0]} if "x" in transcription.takes else {}
    return transcription.function(*problem.written_out(), learned, **children, **params)


def made(name, problem, **params):
    """The method with parameters away from where they start."""
    transcription = Transcription(name)
    method = make(name, problem.sizes, **transcription.literal, **params)
    return disturb(method.double()).train(transcription.training)


def assert_same(name, problem, params, **more):
    """`more` goes to the transcription alone."""
    method = made(name, problem, **params)
    method.progress = more.get("progress", 1.0)
    learned = dict(method.named_parameters())
    leaves = [*problem.leaves(), *learned.values()]
    routed = routed_by(method, problem)
    expected = transcribed(name, problem, learned, **params, **more)
    assert_close(routed.poses, expected[0])
    assert_close(routed.activations, expected[1])
    assert_close(gradients([routed.poses, routed.activations], leaves), gradients(expected, leaves))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in ITERATIVE])
def test_method_without_iterations_equals_its_transcription(name, problem):
    assert_same(name, PROBLEMS[problem](), {})


@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ITERATIVE)
def test_method_equals_its_transcription_at_every_number_of_iterations(name, problem, iterations):
    assert_same(name, PROBLEMS[problem](), {"iterations": iterations})


@pytest.mark.parametrize("problem", ["vectors", "one child"])
@pytest.mark.parametrize(("name", "params"), OPTIONS, ids=str)
def test_method_equals_its_transcription_with_each_option(name, params, problem):
    more = {"progress": 0.4} if "progress" in Transcription(name).takes else {}
    params = {**params, "iterations": 3} if name in ITERATIVE else params
    assert_same(name, PROBLEMS[problem](), params, **more)


def test_the_floor_of_masses_is_a_departure_and_can_be_left_out():
    torch.manual_seed(0)
    problem = dense(images=8)
    problem.children.data *= 3
    params = {"iterations": 5, "mass_normalisation": "ratio", "final_lambda": 1.0}
    usual, literal = (make("em", problem.sizes, mass_floor=floor, **params).double() for floor in (1e-8, 0.0))
    expected = transcribed("em", problem, dict(literal.named_parameters()), **params)[1].detach()
    found = [routed_by(method, problem).activations.detach() for method in (usual, literal)]
    departure, rounding = (float((activations - expected).abs().max()) for activations in found)
    assert departure > 0.1
    assert rounding < 1e-9


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("floor", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("scale", [1, 100])
def test_gradients_of_small_variances_in_single_precision_are_as_exact_as_in_two_passes(scale, floor, backend):
    if backend == "fused" and fused.missing(3, 5, 0):
        pytest.skip(fused.missing(3, 5, 0))
    torch.manual_seed(7)  # a parent leaves its children for one
    problem = dense(images=4, children=8, pose_in=3, pose=5)
    problem.children.data *= scale
    params = {"iterations": 5, "variance_floor": floor}
    method = made("em", problem, **params)

    def ours(given):
        routed = routed_by(method, given)
        return routed.poses, routed.activations

    def twice(given):
        return transcribed("em", given, dict(method.named_parameters()), **params)

    def slopes(way, given):
        return [found.double() for found in gradients([output.double() for output in way(given)], given.leaves())]

    exact = slopes(twice, problem)
    method.float()
    single = Problem(*(leaf.detach().float() for leaf in problem.leaves()))
    with using(backend):
        off, allowed = (differences(slopes(way, single), exact) for way in (ours, twice))
    assert max(off) < 1e-4 + 3 * max(allowed)


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_full_covariances_equal_their_transcription_at_every_shape(problem, iterations):
    assert_same("variational-bayes", PROBLEMS[problem](), {"covariance": "full", "iterations": iterations})


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", [name for name in SHIPPED if "competition" in hyperparameters_of(name)])
def test_method_equals_its_transcription_on_a_grid_for_each_competition(name, axis, stride):
    problem = on_grid(stride=stride)
    couple = on_a_grid(seen_by((4, 5, 2), 3, stride), axis)
    params = {"iterations": 3} if name in ITERATIVE else {}
    method = made(name, problem, competition=axis, **params)
    learned = dict(method.named_parameters())
    leaves = [*problem.leaves(), *learned.values()]
    routed = routed_by(method, problem)
    expected = transcribed(name, problem, learned, couple=couple, **params)
    assert_close(routed.poses, expected[0])
    assert_close(gradients([routed.poses], leaves), gradients(expected[:1], leaves))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("iterations", [1, 3])
def test_em_can_begin_with_equal_shares_of_types(axis, iterations):
    problem, params = on_grid(stride=2), {"iterations": iterations, "first_coupling": "types"}
    method = made("em", problem, competition=axis, **params)
    routed = method(*problem.given_to(method))
    couple = on_a_grid(seen_by((4, 5, 2), 3, 2), axis)
    expected = transcribed("em", problem, dict(method.named_parameters()), couple=couple, **params)
    assert_close([routed.poses, routed.activations], list(expected))


SQUARE = {"vectors": lambda: dense(pose_in=4, pose=4), "matrices": dense_matrices, "grid": lambda: on_grid(stride=2)}


@pytest.mark.parametrize("problem", SQUARE)
@pytest.mark.parametrize("params", [{}, {"mean_damping": 0.3, "final_lambda": 1.0}], ids=str)
def test_em_can_compare_children_in_their_own_pose_space(problem, params):
    """By the inverse of W, which for matrices multiplies each row of a vote."""
    exact = SQUARE[problem]()
    method = made("em", exact, iterations=3, misfit="children", competition="types", **params)
    learned = dict(method.named_parameters())
    leaves = [*exact.leaves(), *learned.values()]
    routed = method(*exact.given_to(method))
    inverses = torch.linalg.inv(exact.weight)
    if problem == "matrices":
        inverses = torch.stack([torch.block_diag(*[one] * 3) for one in inverses.flatten(0, 1)]).unflatten(0, (5, 3))
    given = {"misfit": "children", "inverses": inverses, "iterations": 3, **params}
    expected = transcribed("em", exact, learned, **given)
    assert_close([routed.poses, routed.activations], list(expected))
    assert_close(gradients([routed.poses, routed.activations], leaves), gradients(expected, leaves))


def test_misfits_of_children_do_not_depend_on_the_scale_of_transformations():
    """The collapse of appendix A.2: smaller votes make a parent's Gaussian narrower, unless children are compared."""
    exact = dense_matrices()
    smaller = Problem(exact.children.detach(), exact.activations.detach(), 0.1 * exact.weight.detach())
    for misfit, same in (("children", True), ("votes", False)):
        method = made("em", exact, iterations=1, final_lambda=1.0, misfit=misfit, variance_floor=0.0)
        before, after = (method(*given.given_to(method)).activations for given in (exact, smaller))
        assert torch.allclose(before, after, rtol=1e-6) == same


def test_misfits_of_children_need_poses_of_one_size():
    with pytest.raises(UserError, match="poses of one size below and above, got 4 and 6 elements"):
        make("em", dense().sizes, misfit="children")


def test_em_as_released_equals_a_transcription_of_the_code():
    """Of one of its convolutional layers, but for the least density that it adds."""
    problem = on_grid()
    (released,) = (entry for entry in load_suite("hinton-table1").methods if entry.variant == "as released")
    method = make("em", problem.sizes, iterations=3, **released.params).double()
    b_u, b_a = 0.5, torch.linspace(-1e-3, 1e-3, problem.sizes.parents, dtype=torch.float64)  # or all are absent
    with torch.no_grad():
        method.beta_u.fill_(b_u * (1 + math.log(2 * math.pi)) / 2)
        method.beta_a.copy_(-2500 * b_a / method.beta_a_unit)
    routed = method(*problem.given_to(method))
    couple = on_a_grid(seen_by((4, 5, 2), 3, 1), "positions")
    expected = em.as_released(
        *problem.written_out(), b_u, b_a, iterations=3, final_beta=released.params["final_lambda"] / 2, couple=couple
    )
    assert_close([routed.poses, routed.activations], list(expected), rtol=1e-6, atol=1e-7)  # 1e-7 of mass is elsewhere
    assert float(routed.activations.detach().std()) > 1e-3


@pytest.mark.parametrize("zero", [False, True], ids=["random poses", "zero poses"])
@pytest.mark.parametrize("name", SHIPPED)
def test_gradients_are_those_of_finite_differences(name, zero):
    problem = dense(images=1, children=3, parents=2, pose_in=2, pose=3)
    if zero:
        problem.children.data.zero_()
    params = {"iterations": 3} if name in ITERATIVE else {}
    method = disturb(make(name, problem.sizes, **params, **Transcription(name).smooth[zero]).double()).eval()

    def outputs(*_):
        routed = routed_by(method, problem)
        return routed.poses if routed.activations is None else (routed.poses, routed.activations)

    assert torch.autograd.gradcheck(outputs, (*problem.leaves(), *method.parameters()), fast_mode=True)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("params", [{}, {"squash_over": "position", "bias": False}], ids=str)
def test_in_windows_types_vote_as_one_and_share_themselves_out_over_all_positions(params, stride):
    problem = on_grid(stride=stride)
    method = made("deepcaps", problem, **params)
    learned = dict(method.named_parameters())
    leaves = [*problem.leaves(), *learned.values()]
    routed = routed_by(method, problem)
    where = {"positions": problem.windows.positions, "types": problem.windows.types}
    expected = transcribed("deepcaps", problem, learned, **params, **where)
    assert_close([routed.poses, routed.activations], list(expected))
    assert_close(gradients([routed.poses, routed.activations], leaves), gradients(expected, leaves))
