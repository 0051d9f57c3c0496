"""What the protocol reports of class capsules is what inference does to them."""

import pytest
import torch

from routebench import measures
from routebench.data.dataset import Dataset, Images
from routebench.errors import UserError
from routebench.ops import length
from routebench.papers.kiefer.predictive_coding.forward import forward_pass
from routebench.papers.kiefer.predictive_coding.inference import Rule, infer, targets_for
from routebench.papers.kiefer.protocols.predictive_coding import PredictiveCoding, conditions_of
from tests.protocols import small_digits
from tests.protocols.small_digits import Untrained, request_of

OPTIONS = {"steps": 30, "step_size": 0.1}


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        small_digits.register(patch)
        yield PredictiveCoding().measure(request_of("none", None), OPTIONS, Untrained())


@pytest.fixture
def digits(monkeypatch):
    small_digits.register(monkeypatch)


def value(found, metric, inference, targets, free):
    where = {"inference": inference, "targets": targets, "free": free}
    (one,) = (each.value for each in found.metrics if each.metric == metric and each.where == where)
    return one


def test_numbers_are_those_of_all_test_images(measured, digits):
    data = small_digits.few("x", "mnist5k")
    network = Untrained().fit(request_of("none", None)).network
    forward = forward_pass(network, data.test.pixels.float() / 255)
    targets = targets_for("label", forward.poses, data.test.labels)
    found = infer(forward, targets, Rule(l1=0.1, free="children", **OPTIONS))
    lengths, of = length(found.poses), ("l1", "label", "children")
    assert value(measured, "hoyer", *of) == pytest.approx(float(measures.hoyer(lengths).mean()), abs=1e-6)
    right = 100 * float((lengths.argmax(dim=1) == data.test.labels).double().mean())
    assert value(measured, "right_longest", *of) == pytest.approx(right)
    assert value(measured, "energy_before", *of) == pytest.approx(float(found.energies[0].mean()), abs=1e-6)
    assert value(measured, "energy_after", *of) == pytest.approx(float(found.energies[-1].mean()), abs=1e-6)
    assert value(measured, "silent", *of) == pytest.approx(float((lengths == 0).sum(dim=1).double().mean()), abs=0.02)
    start = length(forward.poses)
    own = start.gather(1, data.test.labels[:, None]).mean()
    assert value(measured, "right_length", "forward", "none", "none") == pytest.approx(float(own), abs=1e-6)


def test_every_condition_is_measured_and_no_energy_rises(measured):
    conditions = conditions_of({})
    assert len(conditions) == 2 * (3 + 3 + 2)
    for condition in conditions:
        of = tuple(condition.where.values())
        assert value(measured, "largest_rise", *of) <= 1e-10
        assert value(measured, "energy_after", *of) <= value(measured, "energy_before", *of)
        energies = measured.arrays[f"energies_{condition.name}"]
        assert energies.shape == (31,)
        assert measured.arrays[f"poses_{condition.name}"].shape == (10, 10, 16)
    assert measured.arrays["labels"].tolist() == list(range(10))


def test_the_label_gives_the_answer_away_and_the_own_answer_does_not(measured):
    forward = value(measured, "right_longest", "forward", "none", "none")
    assert value(measured, "right_longest", "plain", "predicted", "classes") == forward < 50
    assert value(measured, "right_longest", "plain", "label", "classes") > 90
    told = {each.where["targets"]: each.higher_is_better for each in measured.metrics if each.metric == "right_longest"}
    assert told == {"none": True, "predicted": True, "label": None}


def test_options_change_what_is_measured(digits):
    def found(**options):
        chosen = {"targets": ["predicted"], "free": ["classes"], "steps": 5, **options}
        return PredictiveCoding().measure(request_of("none", None), chosen, Untrained())

    base = found()
    assert {each.where["targets"] for each in base.metrics} == {"predicted", "none"}
    assert {each.where["free"] for each in base.metrics} == {"classes", "none"}
    of = ("predicted", "classes")
    for penalty, options in (
        ("l1", {"l1": 0.3}), ("l2", {"l2": 0.3}), ("plain", {"steps": 9}), ("plain", {"step_size": 0.2}),
    ):  # fmt: skip
        assert value(found(**options), "hoyer" if penalty != "l2" else "right_length", penalty, *of) != value(
            base, "hoyer" if penalty != "l2" else "right_length", penalty, *of
        )


def test_a_network_with_routing_is_measured_as_it_is(digits):
    found = PredictiveCoding().measure(request_of("dynamic", 3), OPTIONS, Untrained())
    assert {each.where["inference"] for each in found.metrics} == {"forward"}
    assert set(found.arrays) == {"labels", "poses_forward"}


def test_what_cannot_be_measured_is_said_in_one_line(digits):
    with pytest.raises(UserError, match="expected a capsule network, got"):
        PredictiveCoding().measure(request_of(None, None, "cnn-small"), OPTIONS, Untrained())
    with pytest.raises(UserError, match="targets are none, predicted, label, got 'labels'"):
        conditions_of({"targets": ["labels"]})
    with pytest.raises(UserError, match="free must be one of classes, children, got 'all'"):
        conditions_of({"free": ["all"]})
    with pytest.raises(UserError, match="at least 0"):
        conditions_of({"l1": -1.0})
    several = Images(torch.zeros(1, 1, 8, 8, dtype=torch.uint8), torch.tensor([[True, True]]))
    with pytest.raises(UserError, match="one class per image"):
        PredictiveCoding().expect(Dataset("pairs", ("a", "b"), several, several, several, "f", "here"))
