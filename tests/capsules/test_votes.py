"""Votes, and the sums over children that routing asks of them, against plain loops."""

import pytest
import torch

from routebench.capsules import Competition, Votes
from tests import first_calls
from tests.references.competition import softmax_over_parents
from tests.references.problem import assert_close, dense, dense_matrices, gradients
from tests.references.votes import every_vote

PROBLEMS = {"vectors": dense, "matrices": dense_matrices}
LANES, CHILDREN, PARENTS = 2, 5, 3


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]()


@pytest.fixture(params=[False, True], ids=["without offset", "with offset"])
def offset(request, problem):
    return torch.randn(CHILDREN, problem.sizes.pose, dtype=torch.float64) if request.param else None


def votes_of(problem, offset=None, axis="types"):
    return Votes(problem.children, problem.weight, Competition(axis), offset=offset)


def like_parents(problem, positive=False):
    values = torch.randn(LANES, PARENTS, problem.sizes.pose, dtype=torch.float64)
    return (values.abs() + 0.1 if positive else values).requires_grad_()


def literal_sums(V, coupling, centre, weights):
    """Mass, first and second moment about the centre, one child and parent at a time."""
    mass = torch.zeros(LANES, PARENTS, dtype=V.dtype)
    first = torch.zeros(LANES, PARENTS, V.shape[3], dtype=V.dtype)
    second = torch.zeros_like(first)
    for lane in range(LANES):
        for i in range(CHILDREN):
            for j in range(PARENTS):
                share = coupling[lane, i, j] * weights[lane, i]
                apart = V[lane, i, j] - centre[lane, j]
                mass[lane, j] += share
                first[lane, j] += share * apart
                second[lane, j] += share * apart**2
    return [mass, first, second]


def test_dense_votes_are_products_of_poses_and_weights(problem, offset):
    found = votes_of(problem, offset).dense()
    expected = every_vote(problem.children, problem.weight, offset)
    assert_close(found, expected)
    assert_close(gradients([found], problem.leaves()), gradients([expected], problem.leaves()))


def test_matrix_poses_are_multiplied_from_the_right_and_flattened_by_rows():
    problem = dense_matrices(images=1, children=1, parents=1, side=3)
    pose = problem.children[0, 0].reshape(3, 3)
    assert_close(votes_of(problem).dense()[0, 0, 0].reshape(3, 3), pose @ problem.weight[0, 0])


def test_sizes_are_those_of_the_weights(problem):
    votes = votes_of(problem)
    assert (votes.lanes, votes.children, votes.parents, votes.pose) == (LANES, CHILDREN, PARENTS, problem.sizes.pose)


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("centred", [False, True], ids=["about zero", "about a centre"])
@pytest.mark.parametrize(
    "asked",
    [(), ("query",), ("curvature",), ("bias",), ("query", "curvature", "bias")],
    ids="+".join,
)
def test_sweep_equals_plain_loops(problem, offset, asked, centred, weighted):
    query, curvature = like_parents(problem), like_parents(problem, positive=True)
    bias, centre = torch.randn(LANES, PARENTS, dtype=torch.float64, requires_grad=True), like_parents(problem)
    given = {"query": query, "curvature": curvature, "bias": bias}
    more = {"centre": centre} if centred else {}
    more |= {"weights": problem.activations} if weighted else {}
    found = votes_of(problem, offset).sweep(**{key: given[key] for key in asked}, **more, moments=2)

    V = every_vote(problem.children, problem.weight, offset)
    about = centre if centred else torch.zeros_like(centre)
    apart = V - about[:, None]
    logits = torch.zeros(LANES, CHILDREN, PARENTS, dtype=torch.float64)
    if "query" in asked:
        logits = logits + (apart * query[:, None]).sum(dim=-1)
    if "curvature" in asked:
        logits = logits - 0.5 * (apart**2 * curvature[:, None]).sum(dim=-1)
    if "bias" in asked:
        logits = logits + bias[:, None]
    weights = problem.activations if weighted else torch.ones_like(problem.activations)
    expected = literal_sums(V, softmax_over_parents(logits), about, weights)

    leaves = [*problem.leaves(), query, curvature, bias, centre]
    assert_close(list(found), expected)
    assert_close(gradients(found, leaves), gradients(expected, leaves))


@pytest.mark.parametrize("asked", [{}, {"query": True}], ids=["uniform", "query"])
def test_one_moment_is_the_first_of_two(problem, offset, asked):
    query = {"query": like_parents(problem)} if asked else {}
    one, two = (votes_of(problem, offset).sweep(**query, moments=moments) for moments in (1, 2))
    assert one.second is None
    assert_close([one.mass, one.first], [two.mass, two.first])


def test_zero_query_is_no_query(problem, offset):
    votes = votes_of(problem, offset)
    asked, unasked = votes.sweep(torch.zeros_like(like_parents(problem))), votes.sweep()
    assert_close([asked.mass, asked.first], [unasked.mass, unasked.first])


def test_constant_coupling_changes_gradients_and_not_sums(problem):
    query = like_parents(problem)
    free, constant = (votes_of(problem).sweep(query, constant_coupling=stop).first for stop in (False, True))
    assert torch.equal(free, constant)
    assert gradients([constant], [query])[0].abs().max() == 0
    assert gradients([free], [query])[0].abs().max() > 0


def test_aggregate_is_a_weighted_sum_of_votes(problem, offset):
    coupling = torch.rand(LANES, CHILDREN, PARENTS, dtype=torch.float64)
    expected = (coupling[..., None] * every_vote(problem.children, problem.weight, offset)).sum(dim=1)
    assert_close(votes_of(problem, offset).aggregate(coupling), expected)


def test_aggregate_takes_one_coupling_for_all_lanes(problem):
    coupling = torch.rand(1, CHILDREN, PARENTS, dtype=torch.float64)
    votes = votes_of(problem)
    assert_close(votes.aggregate(coupling), votes.aggregate(coupling.repeat(LANES, 1, 1)))


def test_agreement_is_a_dot_product_with_the_parent(problem, offset):
    poses = like_parents(problem)
    V = every_vote(problem.children, problem.weight, offset)
    found = votes_of(problem, offset).agreement(poses)
    for lane in range(LANES):
        for i in range(CHILDREN):
            for j in range(PARENTS):
                assert_close(found[lane, i, j], V[lane, i, j] @ poses[lane, j])


def test_watch_sees_the_coupling_of_every_sweep_and_aggregate(problem):
    votes, query = votes_of(problem), like_parents(problem)
    seen = []
    votes.watch = seen.append
    votes.sweep()
    votes.sweep(query)
    votes.aggregate(torch.full((1, CHILDREN, PARENTS), 0.5, dtype=torch.float64))
    assert [tuple(coupling.shape) for coupling in seen] == [(LANES, CHILDREN, PARENTS)] * 3
    assert_close(seen[0], torch.full_like(seen[0], 1 / PARENTS))
    assert_close(seen[1], softmax_over_parents(votes.agreement(query)))
    assert_close(seen[2], torch.full_like(seen[2], 0.5))


def test_watching_changes_nothing(problem):
    query = like_parents(problem)
    watched = votes_of(problem)
    watched.watch = lambda _: None
    assert torch.equal(watched.sweep(query).first, votes_of(problem).sweep(query).first)


def test_second_moment_about_a_near_centre_keeps_its_digits_far_from_zero():
    problem = dense(images=1, children=50)
    far = 1e4
    offset = torch.full((50, 6), far)
    votes = Votes(problem.children.float(), problem.weight.float(), Competition(), offset=offset)
    exact = every_vote(problem.children, problem.weight)
    expected = exact.var(dim=1, correction=0) * 50 / 3
    centre = (far + exact.mean(dim=1)).float()
    assert_close(votes.sweep(centre=centre, moments=2).second.double(), expected, rtol=0.01)


def test_votes_that_were_looked_at_without_gradients_have_them_afterwards(problem):
    votes, leaves = votes_of(problem), [problem.children, problem.weight]
    with torch.no_grad():
        coupling = votes.dense().norm(dim=-1).softmax(dim=2)
    found, plain = votes.aggregate(coupling), votes_of(problem).aggregate(coupling)
    agreed, plainly = votes.agreement(plain.detach()), votes_of(problem).agreement(plain.detach())
    for one, other in ((found, plain), (agreed, plainly), (votes.dense(), votes_of(problem).dense())):
        for ours, theirs in zip(gradients([one], leaves), gradients([other], leaves), strict=True):
            assert_close(ours, theirs)
    votes = votes_of(problem)
    with torch.no_grad():
        assert votes.dense().data_ptr() == votes.dense().data_ptr(), "nothing is made twice where no gradient is wanted"


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 5, 1), (1, 1, 3), (3, 5, 3)])
def test_a_coupling_of_another_shape_is_not_repeated(monkeypatch, shape):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    votes = votes_of(dense())
    with pytest.raises(ValueError, match="expected coupling of shape"):
        votes.aggregate(torch.ones(shape, dtype=torch.float64))


def test_poses_of_parents_of_another_shape_are_not_repeated(monkeypatch):
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    votes = votes_of(dense())
    for shape in ((1, 3, 6), (2, 1, 6), (2, 3, 1)):
        with pytest.raises(ValueError, match=r"expected poses of shape \(2, 3, 6\)"):
            votes.agreement(torch.ones(shape, dtype=torch.float64))


@pytest.mark.parametrize("axis", ["child", "type", "", None, 0])
def test_an_axis_that_there_is_not_is_refused_with_all_that_there_are(monkeypatch, axis):
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    for make in (Competition, votes_of(dense()).competing_over):
        with pytest.raises(ValueError, match="one of types, types\\+positions, positions, children, none, got"):
            make(axis)
