"""A network sees no images but those that it is given, and one whose answers depend on their order is doubted."""

import pytest
import torch

from routebench.engine.running._sealing import IMAGES, seal, shuffled
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Asked, Choices, make_plans
from routebench.notation import parse
from routebench.protocols import FitRequest
from routebench.recipe import Recipe
from routebench.report import write_report
from tests.command import import_once

SUITE = """
question = "Who looks?"
version = 1
protocol = "accuracy"
[[methods]]
name = "uniform"
[presets.quick]
data = "digits200"
model = "capsnet-small"
iterations = [1]
seeds = 1
training = { epochs = 1 }
"""
METHOD = """
import torch
import inspect
import routebench.data
from routebench import routing
from routebench.ops import length, squash
{imports}

@routing.register("looks")
class Looks(routing.RoutingMethod):
    "Uniform coupling, and more."

    def __init__(self, sizes):
        super().__init__(sizes)
        {makes}

    def route(self, votes, activations):
        poses = squash(votes.sweep().first)
        if not self.training:
            {deed}
        return routing.Routed(poses, length(poses))
"""
LOOK = "routebench.data.load('mnist5k').test.labels"
IN_A_CELL = "any(frame.function == '_work' for frame in inspect.stack())"
BY_PLACE = "poses = poses * (torch.arange(poses.shape[1]) == torch.arange(len(poses))[:, None] % 10)[..., None]"
BY_COUNT = "self.seen = getattr(self, 'seen', 0) + 1; poses = poses * (1 + self.seen * torch.arange(10)[:, None])"


@pytest.fixture
def run_with(tmp_path, parts, store, run_all):
    """Runs a method of a plug-in as a suite does, each cell in a process of its own; its record, and the control's."""

    def go(*, imports="", makes="pass", deed="pass"):
        import_once()
        (tmp_path / "looks.py").write_text(METHOD.format(imports=imports, makes=makes, deed=deed))
        (tmp_path / "who.toml").write_text(SUITE)
        plugins = (str(parts), str(tmp_path / "looks.py"))
        choices = Choices(methods=(parse("looks"),))
        (made,) = make_plans(Asked(str(tmp_path / "who.toml"), "quick", choices, plugins)).plans
        write_plan(made, store)
        wanted = [cell for cell in made.cells if cell.label in ("looks", "uniform")]
        found = {record.label: record for record in run_all(wanted, isolate=True)}
        return found["looks"], found["uniform"]

    return go


@pytest.mark.parametrize(
    "how",
    [
        {"deed": f"{LOOK}"},
        {"makes": f"self.known = {LOOK}"},
        {"imports": f"KNOWN = {LOOK} if {IN_A_CELL} else None"},
        {"imports": "from routebench.data import load as look", "deed": "look('take:100:mnist5k')"},
        {"imports": "import threading", "deed": f"threading.Thread(target=lambda: setattr(self, 'a', {LOOK})).start(); "
         "import time; time.sleep(0.5); self.a"},
    ],
    ids=["in forward", "when it is made", "at import", "by another name", "in a thread"],
)  # fmt: skip
def test_test_images_are_sealed_for_a_method(run_with, how):
    looks, uniform = run_with(**how)
    assert looks.status == "failed", looks
    assert "sealed" in looks.reason or "has no attribute 'a'" in looks.reason
    assert uniform.status == "ok"


@pytest.mark.parametrize(("deed", "again"), [(BY_PLACE, False), (BY_COUNT, True)], ids=["place", "count"])
def test_answers_that_depend_on_the_order_of_images_are_doubted_on_the_page(run_with, store, deed, again):
    looks, uniform = run_with(deed=deed)
    assert (looks.status, uniform.status) == ("ok", "ok"), looks
    assert looks.shuffled["images"] == 50
    assert looks.shuffled["answers"] > 25
    assert (looks.shuffled["again"] > 0) == again
    assert uniform.shuffled == {"images": 50, "answers": 0, "again": 0}
    page = write_report(store.path).page.read_text()
    assert f"Doubtful: answers of looks to {looks.shuffled['answers']} of 50 test images change" in page
    assert "answers of uniform" not in page


def test_a_honest_network_is_not_doubted(run_with, store):
    looks, _ = run_with()
    assert looks.shuffled["answers"] == 0
    assert "Doubtful" not in write_report(store.path).page.read_text()


class Raises(torch.nn.Module):
    def forward(self, images):
        raise ValueError("no")


def test_the_seal_is_opened_after_an_error_and_an_answer_that_cannot_be_had_again_is_another():
    from routebench.data import load

    network = Raises()
    seal(network, "mnist5k")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            network(torch.zeros(1))
    assert len(load("mnist5k").test)
    request = FitRequest(model="capsnet-small", data="mnist5k", recipe=Recipe(epochs=1), seed=0)
    assert shuffled(network, request, torch.device("cpu")) == dict.fromkeys(("images", "answers", "again"), IMAGES)


def test_shipped_methods_are_not_doubted(store, run_all):
    (made,) = make_plans(Asked("accuracy", "smoke", Choices(methods=(parse("dynamic"),)))).plans
    cells = [cell for cell in made.cells if cell.label in ("random", "none")]
    assert {record.shuffled["answers"] for record in run_all(cells)} == {0}
