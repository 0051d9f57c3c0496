"""Trained models from the store."""

import errno
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from routebench.data import load
from routebench.engine.results import Store
from routebench.engine.running import StoreContext
from routebench.engine.running import _fits as fits
from routebench.engine.running._fits import fit_key
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.kernels import using
from routebench.models.network import routing_methods
from routebench.training import evaluate
from tests.engine.conftest import PARTS


def request_of(made):
    return next(cell for cell in made.cells if cell.identity.iterations == 2).request()


def test_a_fit_is_trained_with_the_iterations_that_are_asked_for(made, store):
    request = request_of(made)
    other = replace(request, iterations=5)
    assert fit_key(request) != fit_key(other)
    context = StoreContext(store, torch.device("cpu"))
    for wanted in (request, other):
        (routing,) = routing_methods(context.fit(wanted).network)
        assert routing.iterations == wanted.iterations


def test_a_second_call_loads_what_the_first_one_trained(made, store):
    request, told = request_of(made), []
    first = StoreContext(store, torch.device("cpu"), told.append).fit(request)
    trained = len(told)
    second = StoreContext(store, torch.device("cpu"), told.append).fit(request)
    assert trained > 0
    assert len(told) == trained
    weights = second.network.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in first.network.state_dict().items())
    assert first.epochs == second.epochs


def test_a_fit_remembers_the_back_end_that_trained_it(made, store):
    request = request_of(made)
    with using("reference"):
        StoreContext(store, torch.device("cpu")).fit(request)
    later = StoreContext(store, torch.device("cpu"))
    later.fit(request)
    assert later.backends == {"reference"}


def every_epoch(made, epochs=3):
    request = request_of(made)
    return replace(request, every_epoch=True, recipe=replace(request.recipe, epochs=epochs))


def same_weights(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_key_of_a_fit_that_keeps_its_last_weights_is_as_before(made):
    request = request_of(made)
    assert "every_epoch" not in fits._plain(request)
    assert fit_key(replace(request, every_epoch=True)) != fit_key(request)


def test_every_epoch_is_kept_as_a_run_that_stopped_there_left_it(made, store):
    request = every_epoch(made)
    kept = StoreContext(store, torch.device("cpu")).fit(request)
    for epochs in (1, 2, 3):
        stopped = replace(request, every_epoch=False, recipe=replace(request.recipe, epochs=epochs))
        alone = StoreContext(store, torch.device("cpu")).fit(stopped)
        assert same_weights(kept.weights_after(epochs), alone.network.state_dict())
        with pytest.raises(LookupError, match="every_epoch=True"):
            alone.weights_after(epochs)
    assert same_weights(kept.network.state_dict(), kept.weights_after(3))
    assert not same_weights(kept.weights_after(1), kept.weights_after(2))


@pytest.mark.parametrize("moment", ["before the checkpoint", "in the next epoch"])
def test_a_run_that_is_killed_and_goes_on_has_every_epoch(made, store, monkeypatch, moment):
    request = every_epoch(made)
    whole = StoreContext(store, torch.device("cpu")).fit(request)
    expected = [dict(whole.weights_after(epoch)) for epoch in (1, 2, 3)]
    shutil.rmtree(store.path / "fits" / fit_key(request))

    class Killed(BaseException):
        pass

    def stop(stage):
        if moment == "in the next epoch" and stage.share > 2 / 3:
            raise Killed

    def write_and_die(file, weights, write=fits.write_tensors):
        write(file, weights)
        if moment == "before the checkpoint" and file.name == "epoch-0002.safetensors":
            raise Killed

    killed = StoreContext(store, torch.device("cpu"), stop)
    with monkeypatch.context() as patch:
        patch.setattr(fits, "write_tensors", write_and_die)
        with pytest.raises(Killed):
            killed.fit(request)
    told = []
    again = StoreContext(store, torch.device("cpu"), told.append).fit(request)
    assert min(stage.share for stage in told) > (
        0.3 if moment == "before the checkpoint" else 0.6
    )  # it went on, and did not start anew
    assert all(same_weights(again.weights_after(epoch), expected[epoch - 1]) for epoch in (1, 2, 3))


def test_test_accuracies_are_those_of_what_every_epoch_left(made, store):
    kept = every_epoch(made)
    context = StoreContext(store, torch.device("cpu"))
    of_weights, test = context.fit(kept), load(kept.data).test
    accuracies = []
    for epoch in (1, 2, 3):
        of_weights.network.load_state_dict(of_weights.weights_after(epoch))
        accuracies.append(evaluate(of_weights.network, test, kept.recipe, context.device).accuracy)
    tested = context.fit(replace(kept, every_epoch=False, tested=True))
    assert list(tested.test_accuracy) == accuracies
    assert same_weights(tested.network.state_dict(), of_weights.weights_after(3))
    assert fit_key(replace(kept, tested=True)) != fit_key(kept)


def test_a_fit_whose_test_accuracies_are_lost_is_trained_again(made, store):
    request = replace(request_of(made), tested=True)
    context = StoreContext(store, torch.device("cpu"))
    first = context.fit(request).test_accuracy
    (store.path / "fits" / fit_key(request) / fits.TESTED).write_text("{")
    assert context.fit(request).test_accuracy == first


def test_a_fit_whose_epochs_are_lost_or_damaged_is_trained_again(made, store):
    request = every_epoch(made, epochs=2)
    expected = dict(StoreContext(store, torch.device("cpu")).fit(request).weights_after(1))
    file = store.path / "fits" / fit_key(request) / "epoch-0001.safetensors"
    for damage in (file.unlink, lambda: file.write_bytes(file.read_bytes()[:-9])):
        damage()
        assert same_weights(StoreContext(store, torch.device("cpu")).fit(request).weights_after(1), expected)


@pytest.mark.parametrize("name", ["weights.safetensors", "fit.json"])
def test_weights_that_are_not_what_was_written_are_trained_again(made, store, name):
    request, told = request_of(made), []
    first = StoreContext(store, torch.device("cpu")).fit(request).network.state_dict()
    file = store.path / "fits" / fit_key(request) / name
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    context = StoreContext(store, torch.device("cpu"), told.append)
    assert same_weights(context.fit(request).network.state_dict(), first)
    assert told
    (warning,) = store.warnings
    assert warning.startswith(f"fits/{fit_key(request)}/{name} ")
    assert [*context.files] == [f"fits/{fit_key(request)}/weights.safetensors"]


@pytest.mark.parametrize("name", ["weights.safetensors", "fit.json", "epoch-0001.safetensors", "tested.json"])
@pytest.mark.parametrize("damage", ["bit", "cut", "gone"])
def test_damage_of_a_fit_is_found_by_verifying(made, store, name, damage):
    request = replace(every_epoch(made, epochs=2), tested=True)
    StoreContext(store, torch.device("cpu")).fit(request)
    assert (store.verify(), store.warnings) == ((0, 0), [])
    file = store.path / "fits" / fit_key(request) / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes({"bit": bytes(content), "cut": bytes(content[:-9]), "gone": b""}[damage])
    if damage == "gone":
        file.unlink()
    store.verify()
    if (name, damage) != ("fit.json", "gone"):  # there is no fit then
        (warning,) = store.warnings
        assert warning.startswith(f"fits/{fit_key(request)}/{name} ")
        assert ("is not there" in warning) == (damage == "gone")


def test_a_fit_of_before_there_were_checksums_is_used(made, store):
    request, told = request_of(made), []
    StoreContext(store, torch.device("cpu")).fit(request)
    file = store.path / "fits" / fit_key(request) / "fit.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({key: content[key] for key in ("request", "epochs", "finished")}))
    StoreContext(store, torch.device("cpu"), told.append).fit(request)
    assert told == []


@pytest.mark.skipif(" " in sys.prefix, reason="torch's compiler does not quote the paths of its libraries")
def test_a_compiled_network_learns_what_the_plain_one_does(parts, store, program, suite_file, tmp_path):
    """In a process of its own: the compiler cannot trace through the checks of shapes that tests switch on.

    All images are one batch, for each number of images in a batch is compiled anew.
    """
    file = suite_file("accuracy")
    file.write_text(file.read_text().replace("epochs = 1", "epochs = 3, batch_size = 200"))
    (cell,) = [
        planned
        for planned in plan(load_suite(str(file)), "quick", Choices()).cells
        if (planned.label, planned.identity.iterations, planned.identity.seed) == ("dynamic", 2, 0)
    ]
    plain, key = StoreContext(store, torch.device("cpu")).fit(cell.request()), cell.key
    assert len(plain.epochs) == 3 and plain.epochs[2].train_loss < plain.epochs[0].train_loss
    command = ("suite", "small.toml", "--plugin", PARTS, "--threads", 1, "--run", key)
    done = program(*command, "--compile", "--results", "compiled")
    assert (done.returncode, done.stderr) == (0, "")
    results = Store(tmp_path / "compiled")
    (found,) = results.records()
    assert found.provenance["compiled"]
    compiled = StoreContext(results, torch.device("cpu")).load(cell.request(), fit_key(cell.request()))
    assert [epoch.train_loss for epoch in compiled.epochs] == pytest.approx(
        [epoch.train_loss for epoch in plain.epochs], rel=1e-4
    )


def test_a_compiled_network_that_says_something_else_is_refused(monkeypatch):
    network = torch.nn.Linear(4, 3)
    monkeypatch.setattr(network, "compile", lambda: network.weight.data.mul_(1.01))
    monkeypatch.setattr(network, "forward", lambda images: SimpleNamespace(logits=images.flatten(1) @ network.weight.T))
    with pytest.raises(UserError, match=r"--compile: the compiled network's logits are 0\.01 off"):
        fits.compile_checked(network, (torch.ones(2, 1, 2, 2),))


def test_a_damaged_checkpoint_is_told_in_the_record_and_training_starts_anew(made, store):
    request = request_of(made)
    folder = store.path / "fits" / fit_key(request)
    folder.mkdir(parents=True)
    (folder / "checkpoint.safetensors").write_bytes(b"junk")
    StoreContext(store, torch.device("cpu")).fit(request)
    (warning,) = store.warnings
    assert warning.startswith("training starts anew, because")
    assert "checkpoint.safetensors.damaged" in warning


def test_weights_of_another_type_are_trained_again(made, store):
    request = request_of(made)
    StoreContext(store, torch.device("cpu")).fit(request)
    folder = store.path / "fits" / fit_key(request)
    notes = json.loads((folder / "fit.json").read_text())
    (folder / "fit.json").write_text(json.dumps({"epochs": notes["epochs"]}))
    whole = {name: value.long() for name, value in load_file(folder / "weights.safetensors").items()}
    save_file(whole, folder / "weights.safetensors")
    assert StoreContext(store, torch.device("cpu")).load(request, folder.name) is None
    assert any("weights.safetensors could not be read" in told for told in store.warnings)


@pytest.mark.parametrize("closed", ["weights.safetensors", "."])
def test_a_network_that_may_not_be_looked_at_stays(made, store, monkeypatch, closed):
    """It is as it was written, as far as anybody knows: nobody trains for hours to have it again."""
    request = request_of(made)
    StoreContext(store, torch.device("cpu")).fit(request)
    folder = store.path / "fits" / fit_key(request)
    known = {file: file.stat() for file in folder.iterdir()}

    def refuse(looks):
        def refused(path, *others, **more):
            if not isinstance(path, int) and Path(path) == folder / closed:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return looks(path, *others, **more)

        return refused

    monkeypatch.setattr(os, "open", refuse(os.open))
    monkeypatch.setattr(os, "scandir", refuse(os.scandir))
    with pytest.raises(UserError, match=rf"{folder.name}.* \(Permission denied\); make it readable"):
        StoreContext(store, torch.device("cpu")).fit(request)
    monkeypatch.undo()
    assert ({file: file.stat() for file in folder.iterdir()}, store.warnings) == (known, [])


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_of_a_fit_is_named(made, store, kind):
    folder = store.path / "fits" / fit_key(request_of(made))
    folder.mkdir(parents=True)
    file = folder / "weights.safetensors"
    {"link": lambda: file.symlink_to("elsewhere"), "pipe": lambda: os.mkfifo(file), "folder": file.mkdir}[kind]()
    with pytest.raises(UserError, match=f"fits/{folder.name}/weights.safetensors cannot be read"):
        StoreContext(store, torch.device("cpu")).load(request_of(made), folder.name)
