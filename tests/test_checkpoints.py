"""Training runs that stop and go on: the same bits as without a stop, and damaged checkpoints set aside."""

import errno
import json
import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from routebench.atomic import StoreFull
from routebench.checkpoint import Checkpoint, DamagedCheckpoint
from routebench.registry import optimizers
from tests.short_fits import RECIPES, SHORT, curves, network_of, same_weights, sixty_digits, trained


@pytest.fixture(scope="module")
def data():
    return sixty_digits()


class Interruption(Exception):
    """What a machine that goes away looks like to the loop."""


def interrupt_after(epochs, of):
    """A progress callback that fails in the first step of the next epoch."""

    def on_progress(share):
        if share > epochs / of:
            raise Interruption

    return on_progress


class TestResume:
    @pytest.mark.parametrize(("name", "done"), [("adam", 1), *((name, 2) for name in RECIPES)])
    def test_interrupted_run_ends_with_the_same_bits(self, data, tmp_path, name, done):
        recipe, file = RECIPES[name], tmp_path / "checkpoint.safetensors"
        whole = trained(data, recipe)
        with pytest.raises(Interruption):
            trained(data, recipe, checkpoint=file, on_progress=interrupt_after(done, recipe.epochs))
        resumed = trained(data, recipe, checkpoint=file)
        assert same_weights(whole[0], resumed[0])
        assert curves(whole[1]) == curves(resumed[1])

    def test_channels_last_resumes_exactly(self, data, tmp_path):
        recipe, file = replace(SHORT, channels_last=True), tmp_path / "checkpoint.safetensors"
        whole = trained(data, recipe)
        with pytest.raises(Interruption):
            trained(data, recipe, checkpoint=file, on_progress=interrupt_after(1, 3))
        assert same_weights(whole[0], trained(data, recipe, checkpoint=file)[0])

    def test_resumed_run_does_not_repeat_epochs(self, data, tmp_path):
        file, shares = tmp_path / "checkpoint.safetensors", []
        with pytest.raises(Interruption):
            trained(data, checkpoint=file, on_progress=interrupt_after(2, 3))
        trained(data, checkpoint=file, on_progress=shares.append)
        assert len(shares) == 3  # steps of one epoch
        assert min(shares) > 2 / 3

    def test_interruption_in_the_first_epoch_leaves_no_checkpoint(self, data, tmp_path):
        file = tmp_path / "checkpoint.safetensors"
        with pytest.raises(Interruption):
            trained(data, checkpoint=file, on_progress=interrupt_after(0, 3))
        assert not file.exists()

    def test_finished_run_is_read_and_not_repeated(self, data, tmp_path):
        file, shares = tmp_path / "checkpoint.safetensors", []
        whole = trained(data, RECIPES["held-out"], checkpoint=file)
        again = trained(data, RECIPES["held-out"], checkpoint=file, on_progress=shares.append)
        assert shares == []
        assert same_weights(whole[0], again[0])
        assert whole[1] == again[1]

    def test_writing_checkpoints_changes_nothing(self, data, tmp_path):
        assert same_weights(trained(data)[0], trained(data, checkpoint=tmp_path / "deeper" / "file.safetensors")[0])

    def test_checkpoints_leave_no_other_file(self, data, tmp_path):
        trained(data, checkpoint=tmp_path / "checkpoint.safetensors")
        assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def empty(file):
    file.write_bytes(b"")


def text(file):
    file.write_text("not a checkpoint")


def half(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def foreign_tensors(file):
    save_file({"weights": torch.zeros(2)}, file)


def another_network(file):
    Checkpoint(network_of(model="capsnet-small", method="em").state_dict(), {}, {}, {"epochs": "[]"}).write(file)


def without_epochs(file):
    replace(Checkpoint.read(file), notes={}).write(file)


def epochs_of_another_version(file):
    replace(Checkpoint.read(file), notes={"epochs": json.dumps([{"number": 1}])}).write(file)


def broken_json(file):
    replace(Checkpoint.read(file), notes={"epochs": "[{"}).write(file)


def another_optimizer(file):
    found = Checkpoint.read(file)
    replace(found, notes={**found.notes, "optimizer": "SGD"}).write(file)


DAMAGES = [
    another_optimizer,
    empty,
    text,
    half,
    foreign_tensors,
    another_network,
    without_epochs,
    epochs_of_another_version,
    broken_json,
]


class TestDamagedCheckpoint:
    @pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
    def test_is_set_aside_and_training_starts_anew(self, data, tmp_path, damage):
        recipe, file = replace(SHORT, epochs=1), tmp_path / "checkpoint.safetensors"
        whole = trained(data, recipe, checkpoint=file)
        damage(file)
        content = file.read_bytes()
        with pytest.warns(UserWarning, match="training starts anew"):
            again = trained(data, recipe, checkpoint=file)
        assert same_weights(whole[0], again[0])
        assert (tmp_path / "checkpoint.safetensors.damaged").read_bytes() == content
        Checkpoint.read(file)  # a sound one took its place

    def test_state_of_the_former_rmsprop_is_set_aside(self, data, tmp_path):
        recipe, file = replace(SHORT, epochs=1, optimiser="rmsprop"), tmp_path / "checkpoint.safetensors"
        whole = trained(data, recipe, checkpoint=file)
        found = Checkpoint.read(file)
        former = {key.replace(".square", ".square_avg"): value for key, value in found.optimiser.items()}
        replace(found, optimiser=former, notes={"epochs": found.notes["epochs"]}).write(file)
        with pytest.warns(UserWarning, match="optimizer RMSprop, not TensorFlowRMSProp"):
            again = trained(data, replace(recipe, epochs=2), checkpoint=file)
        assert len(again[1]) == 2
        assert len(whole[1]) == 1

    def test_is_named_when_it_is_read(self, tmp_path):
        (tmp_path / "some.safetensors").write_bytes(b"short")
        with pytest.raises(DamagedCheckpoint, match=r"some\.safetensors"):
            Checkpoint.read(tmp_path / "some.safetensors")

    def test_interrupted_write_keeps_the_old_file(self, tmp_path, monkeypatch):
        file = tmp_path / "checkpoint.safetensors"
        Checkpoint({"w": torch.ones(2)}, {}, {}, {}).write(file)

        def full_disk(descriptor):
            os.truncate(descriptor, 10)
            raise OSError(errno.ENOSPC, "no space left on device")

        monkeypatch.setattr("os.fsync", full_disk)
        with pytest.raises(StoreFull, match="no space left"):
            Checkpoint({"w": torch.zeros(2)}, {}, {}, {}).write(file)
        assert Checkpoint.read(file).weights["w"].tolist() == [1, 1]
        assert [found.name for found in tmp_path.iterdir()] == [file.name]


@pytest.fixture(scope="module")
def stopped(data, tmp_path_factory):
    """A checkpoint of two of three epochs."""
    file = tmp_path_factory.mktemp("stopped") / "checkpoint.safetensors"
    with pytest.raises(Interruption):
        trained(data, checkpoint=file, on_progress=interrupt_after(2, 3))
    return Checkpoint.read(file)


def moments(change):
    """An edit of the optimizer's part."""
    return lambda found: replace(found, optimiser=change(dict(found.optimiser)))


def epochs(text):
    return lambda found: replace(found, notes={**found.notes, "epochs": text(found.notes["epochs"])})


EDITS = {
    "a key that is no number": moments(lambda own: {**own, "x.y": torch.zeros(1)}),
    "a key without a name": moments(lambda own: {**own, "7": torch.zeros(1)}),
    "a parameter too many": moments(lambda own: {**own, "999.exp_avg": torch.zeros(1)}),
    "a moment missing": moments(lambda own: {key: own[key] for key in own if not key.endswith("0.exp_avg")}),
    "one of two moments missing": moments(lambda own: {key: own[key] for key in own if not key.endswith("exp_avg")}),
    "another shape": moments(lambda own: {**own, "0.exp_avg": torch.zeros(3, 3)}),
    "whole numbers": moments(lambda own: {key: value.long() for key, value in own.items()}),
    "no moments": moments(lambda own: {}),
    "integer weights": lambda found: replace(found, weights={k: v.long() for k, v in found.weights.items()}),
    "integer best weights": lambda found: replace(found, best={k: v.long() for k, v in found.weights.items()}),
    "half of the best weights": lambda found: replace(found, best=dict([*found.weights.items()][:1])),
    "nested epochs": epochs(lambda text: "[" * 100_000 + "]" * 100_000),
    "fifty epochs": epochs(lambda text: json.dumps(json.loads(text)[:1] * 50)),
    "an epoch twice": epochs(lambda text: json.dumps(json.loads(text)[:1] * 2)),
    "no epoch": epochs(lambda text: "[]"),
    "a loss that is a list": epochs(lambda text: json.dumps([{**one, "train_loss": []} for one in json.loads(text)])),
    "a loss that is a word": epochs(lambda text: json.dumps([{**one, "train_loss": "x"} for one in json.loads(text)])),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_checkpoint_with_another_part_is_set_aside_and_training_starts_anew(data, stopped, tmp_path, edit):
    file, shares = tmp_path / "checkpoint.safetensors", []
    EDITS[edit](stopped).write(file)
    with pytest.warns(UserWarning, match="training starts anew, because .*checkpoint"):
        trained(data, checkpoint=file, on_progress=shares.append)
    assert min(shares) < 1 / 3
    assert (tmp_path / "checkpoint.safetensors.damaged").exists()


class Remembering(torch.optim.SGD):
    """Plain gradient descent that keeps the norm of every step."""

    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                known = self.state[one].get("norms", torch.zeros(0))
                self.state[one]["norms"] = torch.cat([known, one.grad.norm()[None]])
        return super().step(closure)


@pytest.fixture
def goes_on(data, tmp_path, monkeypatch):
    """Tells whether training with an optimizer goes on where it stopped; it ends with the same weights in any case."""

    def check(make):
        monkeypatch.setitem(optimizers.entries, "mine", lambda groups, recipe: make(groups, lr=recipe.learning_rate))
        recipe, file, shares = replace(SHORT, optimiser="mine"), tmp_path / "checkpoint.safetensors", []
        whole = trained(data, recipe)
        with pytest.raises(Interruption):
            trained(data, recipe, checkpoint=file, on_progress=interrupt_after(2, 3))
        resumed = trained(data, recipe, checkpoint=file, on_progress=shares.append)
        assert same_weights(whole[0], resumed[0])
        return min(shares) > 2 / 3

    return check


def test_an_optimizer_of_a_plugin_whose_state_grows_goes_on(goes_on):
    assert goes_on(Remembering)


class Counting(torch.optim.SGD):
    """Gradient descent whose rate falls with numbers that it keeps where other software does."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1
            for one in group["params"]:
                self.state[one]["step"] = self.state[one].get("step", 0) + 1
                one.grad /= group["steps"] + self.state[one]["step"]
        return super().step(closure)


@pytest.mark.parametrize("kept", [{}, {"schedule": (0.5, 1), "name": "x"}, {"history": [torch.zeros(1)]}, {"why": {1}}])
def test_an_optimizer_of_a_plugin_goes_on_with_its_numbers(goes_on, kept):
    """A checkpoint leaves nothing out: a run whose optimizer keeps what it cannot hold begins again."""
    found = goes_on(lambda groups, lr: Counting([{**group, **kept} for group in groups], lr=lr))
    assert found == (kept.keys() <= {"schedule", "name"})


def test_a_changed_number_is_found_by_the_checksum(stopped, tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    stopped.write(file)
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)
    with pytest.raises(DamagedCheckpoint, match="is not what was written"):
        Checkpoint.read(file)


def test_a_checkpoint_without_a_checksum_is_read(stopped, tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    parts = {"weights": stopped.weights, "optimiser": stopped.optimiser, "best": stopped.best}
    tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
    save_file(tensors, file, metadata=stopped.notes)
    assert Checkpoint.read(file).notes == stopped.notes
