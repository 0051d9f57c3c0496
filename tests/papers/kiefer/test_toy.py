"""The toy network of Kiefer et al., appendix B: its iterates, its closed forms, and what other solvers say."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, Ridge

from routebench.papers.kiefer.predictive_coding.toy import (
    Toy,
    at_rest,
    example,
    infer,
    infer_by_subgradient,
    shares,
    strengths_with_one_winner,
)

PENALTIES = [(0.0, 0.0), (0.0, 0.7), (0.5, 0.0), (1.5, 0.0), (0.4, 0.6)]


def drawn(seed, l1, l2, sizes=None):
    rng = np.random.default_rng(seed)
    if sizes is None:
        return Toy(rng.normal(size=3), rng.normal(size=1), l1, l2)
    inputs, hidden, outputs = sizes
    weights = rng.normal(size=(hidden, inputs)), rng.normal(size=(outputs, hidden))
    return Toy(rng.normal(size=inputs), rng.normal(size=outputs), l1, l2, *weights)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize("sizes", [None, (2, 4, 3)])
def test_iterates_reach_the_closed_form(l1, l2, sizes):
    for seed in range(10):
        toy = drawn(seed, l1, l2, sizes)
        course = infer(toy, step_size=0.05, steps=600)
        assert np.abs(course.hidden[-1] - at_rest(toy)).max() < 1e-10


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_energy_never_increases(l1, l2):
    for seed in range(10):
        energies = infer(drawn(seed, l1, l2), step_size=0.35).energies
        assert (np.diff(energies) <= 1e-14).all()
        assert energies[-1] < energies[0]


def test_the_formulas_of_the_paper_s_weights():
    x, y, l2 = np.array([0.3, -1.2, 0.9]), 0.4, 0.7
    assert at_rest(Toy(x, np.array([y]))) == pytest.approx(x + (y - x.sum()) / 4)
    pull = ((1 + l2) * y - x.sum()) / (4 + l2)
    assert at_rest(Toy(x, np.array([y]), l2=l2)) == pytest.approx((x + pull) / (1 + l2))


def test_the_example_has_the_three_panels():
    plain, sparse, flat = at_rest(example()), at_rest(example(l1=1.8)), at_rest(example(l2=1.0))
    assert plain == pytest.approx([0.65, 0.45, 0.25])
    assert flat == pytest.approx([0.46, 0.36, 0.26])
    assert sparse == pytest.approx([0.1, 0, 0])
    assert shares(plain) == pytest.approx([0.4815, 0.3333, 0.1852], abs=1e-4)
    assert shares(flat) == pytest.approx([0.4259, 0.3333, 0.2407], abs=1e-4)
    assert shares(sparse) == pytest.approx([1, 0, 0])
    assert shares(np.zeros(3)) == pytest.approx([0, 0, 0])


def test_lasso_and_ridge_say_the_same():
    """`1/2 |h - x|^2 + 1/2 (y - sum h)^2` is a regression of [x; y] on [I; 1^T]."""
    design = np.vstack([np.eye(3), np.ones((1, 3))])
    for seed in range(5):
        toy = drawn(seed, 0.6, 0.0)
        seen = np.concatenate([toy.x, toy.y])
        lasso = Lasso(alpha=toy.l1 / len(seen), fit_intercept=False, tol=1e-12, max_iter=100_000)  # divides by rows
        assert at_rest(toy) == pytest.approx(lasso.fit(design, seen).coef_, abs=1e-7)
        ridge = Ridge(alpha=0.6, fit_intercept=False, solver="cholesky")
        assert at_rest(drawn(seed, 0.0, 0.6)) == pytest.approx(ridge.fit(design, seen).coef_, abs=1e-10)


def test_one_winner_exactly_between_the_two_strengths():
    rng = np.random.default_rng(1)
    met = 0
    for _ in range(200):
        x, y = rng.normal(size=3), float(rng.normal())
        low, high = strengths_with_one_winner(x, y)
        best = int(np.argmax(x))
        for l1 in np.abs(rng.normal(size=4)):
            hidden = at_rest(Toy(x, np.array([y]), l1=float(l1)))
            alone = hidden[best] > 0 and np.count_nonzero(hidden) == 1
            assert alone == (low <= l1 < high)
            met += alone
            if alone:
                assert hidden[best] == pytest.approx((x[best] + y - l1) / 2)
    assert met > 50
    assert strengths_with_one_winner(np.array([1.0, 0.8, 0.6]), 1.0) == pytest.approx((1.6, 2.0))


def test_a_large_input_needs_the_second_condition_too():
    """Where the winner overshoots the target, others are pushed below zero and not above: the paper says neither."""
    toy = Toy(np.array([10.0, 0.1, 0.1]), np.array([0.1]), l1=0.2)
    assert 2 * 0.1 + 0.1 - 10.0 <= toy.l1 < 10.1
    assert np.count_nonzero(at_rest(toy)) == 3
    assert strengths_with_one_winner(toy.x, 0.1)[0] == pytest.approx(9.7 / 3)


def test_plain_subgradient_steps_chatter():
    toy = example(l1=1.8)
    course = infer_by_subgradient(toy, step_size=0.05, steps=2000)
    tail = course.hidden[-100:, 1]  # of a unit that is 0 in the solution
    assert np.abs(tail).max() > 0.05
    assert (np.diff(np.sign(tail)) != 0).sum() > 10
    assert (np.diff(course.energies[-100:]) > 1e-6).any()
    assert infer(toy).hidden[-1] == pytest.approx(at_rest(toy), abs=1e-10)


def test_without_l1_both_take_the_same_steps():
    toy = drawn(3, 0.0, 0.5)
    assert infer(toy).hidden == pytest.approx(infer_by_subgradient(toy).hidden, abs=1e-12)


def test_steps_and_start_change_the_course():
    toy = example(l1=1.8)
    assert len(infer(toy, steps=7).hidden) == 8
    assert infer(toy).hidden[0] == pytest.approx(toy.x)
    other = infer(toy, start=np.array([-1.0, 2.0, 0.0]))
    assert other.hidden[0] == pytest.approx([-1, 2, 0])
    assert other.hidden[-1] == pytest.approx(at_rest(toy), abs=1e-10)
    assert infer(toy, steps=3, step_size=0.1).hidden[-1] != pytest.approx(infer(toy, steps=3).hidden[-1])


def test_what_cannot_be_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"below 0\.5, or inference diverges; got 0\.51"):
        infer(example(), step_size=0.51)
    with pytest.raises(ValueError, match=r"below 0\.4"):
        infer(example(l2=1.0), step_size=0.45)
    with pytest.raises(ValueError, match="at least 0"):
        example(l1=-1.0)
    with pytest.raises(ValueError, match="expected weights"):
        Toy(np.ones(3), np.ones(1), out=np.ones((2, 3)))
    with pytest.raises(ValueError, match="at most 12 hidden units, got 13"):
        at_rest(Toy(np.ones(13), np.ones(1), l1=0.1))
