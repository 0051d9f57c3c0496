"""Solvers of fixed points, on equations whose answer is known."""

import pytest
import torch

from routebench.capsules import fixed_point
from tests.references.problem import assert_close


class TestSolvers:
    def linear(self, radius, images=4, size=8, seed=0):
        """z -> A z + b with a different A, of the given spectral radius, for every image."""
        draw = torch.Generator().manual_seed(seed)
        a = torch.randn(images, size, size, dtype=torch.float64, generator=draw)
        a = radius * a / torch.linalg.eigvals(a).abs().amax(dim=1)[:, None, None]
        b = torch.randn(images, size, dtype=torch.float64, generator=draw)
        exact = torch.linalg.solve(torch.eye(size, dtype=torch.float64) - a, b)
        return lambda z, images: torch.einsum("ijk,ik->ij", a[images], z) + b[images], exact

    def solved(self, update, exact, solver, limit=600):
        def gap(z, found):
            return (found - z).norm(dim=1)

        return fixed_point.solve(update, torch.zeros_like(exact), gap, solver=solver, tolerance=1e-10, limit=limit)

    @pytest.mark.parametrize("solver", [fixed_point.Anderson([3, 5]), fixed_point.Damped(0.5), fixed_point.Damped(1.0)])
    def test_linear_equations_are_solved(self, solver):
        update, exact = self.linear(0.9)
        found = self.solved(update, exact, solver)
        assert_close(found.states, exact, rtol=1e-7, atol=1e-7)
        assert float(found.residual.max()) < 1e-10

    def test_anderson_follows_the_constrained_least_squares(self):
        """Three updates by hand: the third state mixes two, with weights of the normal equations."""
        update, exact = self.linear(0.5, images=1)
        seen = []

        def watched(z, images):
            seen.append(z.clone())
            return update(z, images)

        self.solved(watched, exact, fixed_point.Anderson([8], descent=1e9), limit=3)
        one, two, three = seen
        everyone = torch.zeros(1, dtype=torch.long)
        values = [update(z, everyone) for z in (one, two)]
        gaps = [(value - z) / value.norm() for value, z in zip(values, (one, two), strict=True)]
        change = gaps[1] - gaps[0]
        share = float((gaps[1] * change).sum() / change.square().sum())  # of the older value
        assert_close(three, share * values[0] + (1 - share) * values[1], rtol=1e-5, atol=1e-6)

    def test_a_state_outside_the_domain_is_taken_back(self):
        """z -> (z + 2 / z) / 2 from far away, undefined below zero and never extrapolated there."""
        tried = []

        def update(z, images):
            tried.append(float(z.min()))
            return torch.where(z > 0, (z + 2 / z) / 2, torch.nan)

        start = torch.full((1, 1), 1e4, dtype=torch.float64)
        found = fixed_point.solve(
            update, start, lambda z, f: (f - z).norm(dim=1), solver=fixed_point.Anderson([1]), tolerance=1e-12, limit=60
        )
        assert float(found.states) == pytest.approx(2**0.5)
        assert min(tried) > 0

    def test_an_update_that_is_not_finite_leads_back_to_the_last_that_was(self):
        """log has no sign to keep: what it does not allow shows in what it gives."""
        calls = []

        def update(z, images):
            calls.append(z.clone())
            found = 3 + torch.log(z)  # fixed point near 4.505
            return torch.full_like(z, torch.nan) if len(calls) == 3 else found

        start = torch.full((1, 1), 0.5, dtype=torch.float64)
        found = fixed_point.solve(
            update, start, lambda z, f: (f - z).norm(dim=1), solver=fixed_point.Anderson([1]), tolerance=1e-12, limit=60
        )
        assert_close(calls[3], 3 + torch.log(calls[1]))
        assert float(found.states) == pytest.approx(4.50524149, abs=1e-7)

    def test_best_state_is_handed_out_where_nothing_rests(self):
        update, exact = self.linear(1.5, images=2)
        found = self.solved(update, exact, fixed_point.Damped(1.0), limit=20)
        assert bool((found.residual <= update(torch.zeros_like(exact), torch.arange(2)).norm(dim=1)).all())
        assert found.updates.tolist() == [20, 20]

    def test_start_is_handed_out_if_no_update_is_finite(self):
        start = torch.ones(2, 3)
        found = fixed_point.solve(
            lambda z, images: z * torch.nan, start, lambda z, f: (f - z).norm(dim=1),
            solver=fixed_point.Anderson([3]), tolerance=1e-3, limit=5,
        )  # fmt: skip
        assert torch.equal(found.states, start) and bool(found.residual.isinf().all())
