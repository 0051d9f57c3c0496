"""What a method cannot be asked costs its own values, which are missing with the reason, and no others."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from routebench import routing
from routebench.atomic import StoreFull
from routebench.conformance import Status, check
from routebench.ops import length, squash
from routebench.protocols.accuracy import Accuracy
from routebench.protocols.base import Metric
from routebench.protocols.cost import Cost
from routebench.protocols.robustness import Robustness
from routebench.protocols.spared import ABSENT, spared
from routebench.protocols.sparsity import Sparsity
from routebench.registry import extensions
from routebench.studies.equivariance.protocols.equivariance import Equivariance
from tests.protocols import small_digits

ATTACKS = {
    "images": 40, "eps": [0.05, 0.15], "main_eps": 0.05, "steps": 2, "restarts": 1, "apgd_steps": 2,
    "further_starts": 0, "attacks": ["noise", "fgsm", "pgd", "fab-t"], "losses": ["training"], "square_queries": 4,
    "minimal_images": 2, "minimal_steps": 2, "queries": 10,
}  # fmt: skip


class PerIteration(routing.RoutingMethod):
    """A parameter for each iteration: it cannot be tested with more than it was trained with."""

    def __init__(self, sizes, *, iterations: int = 1, broken: str = ""):
        super().__init__(sizes)
        self.iterations, self.broken = iterations, broken
        self.sharpness = nn.ParameterList([nn.Parameter(torch.ones(())) for _ in range(iterations)])

    def route(self, votes, activations):
        if self.broken == "large" and len(activations) > 8:
            raise RuntimeError("more than eight lanes")
        if self.broken == "gradients" and torch.is_grad_enabled():
            raise RuntimeError("no gradients here")
        if self.broken == "two" and self.iterations == 2:
            raise RuntimeError("not with two")
        mass, total, _ = votes.sweep()
        for step in range(self.iterations):
            mass, total, _ = votes.sweep(self.sharpness[step] * total / (mass[..., None] + 1e-9))
        parents = squash(total)
        return routing.Routed(parents, length(parents))


class Elsewhere(PerIteration):
    """Keeps the number of iterations where nothing can set it."""

    def __init__(self, sizes, *, iterations: int = 1):
        super().__init__(sizes, iterations=iterations)
        del self.iterations
        self.steps = iterations

    def route(self, votes, activations):
        self.iterations = self.steps
        try:
            return super().route(votes, activations)
        finally:
            del self.iterations


@pytest.fixture(autouse=True)
def methods(monkeypatch):
    small_digits.register(monkeypatch)
    with extensions.restored():
        routing.register("per-iteration")(PerIteration)
        yield


def measured(protocol, iterations=1, broken="", **options):
    request = small_digits.request_of("per-iteration", iterations)
    if broken:
        request = replace(request, method_params={"broken": broken})
    return protocol().measure(request, options, small_digits.Untrained()).metrics


def missing(metrics):
    return {one.where["what"]: one.where["why"] for one in metrics if one.metric == ABSENT and "what" in one.where}


def test_other_iterations_cost_their_own_accuracy_alone():
    metrics = measured(Accuracy, 2, test_iterations=[1, 3, 4])
    assert [one.test_iterations for one in metrics if one.metric == "accuracy"] == [1, 2]
    reasons = missing(metrics)
    assert set(reasons) == {"accuracy with 3 iterations", "accuracy with 4 iterations"}
    assert all("IndexError" in why and "test_spared.py" in why for why in reasons.values())
    assert {one.test_iterations for one in metrics if one.metric == ABSENT} == {3, 4}


def test_a_method_that_fails_with_its_own_iterations_fails():
    with pytest.raises(RuntimeError, match="more than eight lanes"):
        measured(Accuracy, 1, "large")


def test_coupling_is_followed_as_far_as_it_goes():
    metrics = measured(Sparsity, 2, follow=4, images=4)
    assert {one.test_iterations for one in metrics if one.metric == "coupling_entropy"} == {1, 2}
    paper = "distances of votes"  # of iterations 1 to 3, as the paper has them
    assert set(missing(metrics)) == {"coupling with 3 iterations", "coupling with 4 iterations", paper}


def test_what_is_left_of_iterations_is_told_of_the_right_ones():
    whole, cut = (
        {one.test_iterations: one.value for one in measured(Sparsity, 3, broken, follow=3) if one.metric == "gathered"}
        for broken in ("", "two")
    )
    assert set(whole) == {1, 2, 3}
    assert cut == {steps: whole[steps] for steps in (1, 3)}


def test_a_method_without_gradients_in_evaluation_keeps_what_needs_none():
    metrics = measured(Sparsity, 1, "gradients", follow=1, images=4)
    assert "gradients through routing" in missing(metrics)
    assert any(one.metric == "coupling_entropy" for one in metrics)


def test_an_attack_that_fails_costs_its_accuracies_and_the_worst_case():
    metrics = measured(Robustness, 1, "gradients", **ATTACKS)
    known = {(one.where["attack"], one.where["eps"]) for one in metrics if one.metric == "attacked_accuracy"}
    assert known == {("noise", "0.05"), ("noise", "0.15")}
    told = missing(metrics)
    assert {f"accuracy under {name}, eps {eps}" for name in ("fgsm", "pgd", "fab-t") for eps in ("0.05", "0.15")} <= {
        *told
    }
    assert all("no gradients here" in why for why in told.values())
    assert not any(one.metric == "accuracy_taken" for one in metrics)
    whole = measured(Robustness, 1, **ATTACKS)
    assert {one.where["attack"] for one in whole if one.metric == "attacked_accuracy"} >= {"pgd", "worst"}
    assert not missing(whole)


def test_a_batch_that_fails_costs_its_own_times():
    metrics = measured(Cost, 1, "large", batches=[1, 64], seconds=0.001)
    timed = {one.where["batch"] for one in metrics if one.metric == "inference_time" and one.where["part"] == "network"}
    assert timed == {1}
    assert any(one.metric == ABSENT and "eight lanes" in str(one.where["why"]) for one in metrics)
    with pytest.raises(RuntimeError, match="eight lanes"):
        measured(Cost, 1, "large", batches=[64], seconds=0.001)


def test_a_full_disk_ends_everything():
    with pytest.raises(StoreFull), spared([], "anything"):
        raise StoreFull("full")


def test_check_tries_what_suites_ask():
    found = {one.name: one for one in check(PerIteration).findings}["test iterations"]
    assert found.outcome is Status.BESIDES
    assert "in 9 cases: IndexError" in found.seen and found.at == "T = 2, made for 1"
    wrong = {one.name: one for one in check(Elsewhere).findings}["test iterations"]
    assert wrong.outcome is Status.WRONG and "no `self.iterations`" in wrong.seen
    assert {one.name: one for one in check("dynamic").findings}["test iterations"].outcome is Status.OK


def test_equivariance_keeps_the_other_changes(monkeypatch):
    from routebench.studies.equivariance.protocols import equivariance

    def refused(images, factor):
        raise RuntimeError(f"no scaling by {factor}")

    monkeypatch.setattr(equivariance, "scaled", refused)
    metrics = measured(Equivariance, 1, turns=[30], scales=[1.2])
    assert missing(metrics) == {"poses after scaling by 1.2": missing(metrics)["poses after scaling by 1.2"]}
    assert {one.where.get("change") for one in metrics if one.metric == "pose_r2"} == {"turn by 30°"}


def test_the_metric_that_stands_for_it():
    found: list[Metric] = []
    with spared(found, "this", 3):
        raise ValueError("a reason\nof two lines")
    (one,) = found
    assert (one.metric, one.value, one.test_iterations, one.where["what"]) == (ABSENT, 1, 3, "this")
    assert one.where["why"].startswith("ValueError: a reason of two lines")
