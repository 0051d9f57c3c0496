"""Trained models on disk: trained once, used by every run that asks for them."""

import contextlib
import importlib
import json
import logging
import math
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from routebench import kernels
from routebench.atomic import told_when_full
from routebench.checkpoint import are_alike
from routebench.data import load, sealed_test_images
from routebench.data_names import unfolded
from routebench.engine.results import (
    CHANGED,
    Store,
    checksum,
    digest,
    distinct,
    existing,
    is_packed,
    write_tensors,
    write_text,
)
from routebench.engine.running._changed import ANEW, Changed
from routebench.engine.running._config import Stage
from routebench.engine.running._sealing import seal
from routebench.engine.suites import NamedParts, cell_of
from routebench.errors import UserError
from routebench.given import checked, several
from routebench.losses import OWN
from routebench.models import build
from routebench.protocols.base import Fit, FitRequest, none_kept
from routebench.received import expect_folders, from_json, open_plain, permitted, read_plain
from routebench.registry import load_plugin
from routebench.training import Epoch, evaluate, fit

AfterEpoch = Callable[[int, Mapping[str, Tensor]], None]
CHECKED, ALIKE = 8, 1e-3
"""Images that a compiled network is checked with, and the most by which its logits may be off, relatively."""
EDITED = f"code or images were edited while the network was trained; {ANEW}"
STARTS_ANEW = "training starts anew"
"""The beginning of the warning of a damaged checkpoint."""
TESTED = "tested.json"
"""The file beside a fit with test accuracy after every epoch, if a protocol asked for it."""


class StoreContext:
    """Gives a protocol fits from the store, and trains missing ones.

    Args:
        store: the folder that keeps fits.
        device: the device that networks run on.
        on_progress: is called with the progress of a run.
        compiled: whether networks are compiled for training.
    """

    def __init__(
        self,
        store: Store,
        device: torch.device,
        on_progress: Callable[[Stage], None] = lambda _: None,
        *,
        compiled: bool = False,
    ):
        self.store = store
        self.device = device
        self.on_progress = on_progress
        self.compiled = compiled
        self.backends: set[str] = set()
        """Training facts of the fits given so far; empty for old fits without them."""
        self.files: dict[str, str] = {}
        """The weights given so far, by path in the store, with checksums."""
        self.given: tuple[FitRequest, nn.Module] | None = None
        """The last fit that was given."""

    def progress(self, share: float) -> None:
        """Reports the progress of the run after training."""
        self.on_progress(Stage(share, "measuring"))

    def fit(self, request: FitRequest) -> Fit:
        """Returns the trained model; waits for another process that trains the same."""
        key = fit_key(request)
        with self.store.lock("fit", key):
            found = self.load(request, key)
            if found is None:
                self._train(request, key)
                found = self.load(request, key)
        if found is None:
            raise OSError(f"{self._folder(key)} cannot be read back after it was written")
        self.given = request, found.network
        return found

    def _folder(self, key: str) -> Path:
        """The folder of a fit, with nothing in it but files of its own that can be read.

        Raises:
            UserError: it is a link, or what should be a file of it cannot be read, as it is a link, a folder, a pipe or
                a device, or the system refuses: nobody knows whether it is whole.
        """
        folder = self.store.files / "fits" / key
        expect_folders(self.store.files, [f"fits/{key}"], "results folder")
        for file in permitted(folder).glob("*"):
            try:
                open_plain(file).close()
            except FileNotFoundError:
                continue  # another process has just replaced it
            except OSError as error:
                name, why = file.relative_to(self.store.files), error.strerror
                told = f"{name} cannot be read ({why}); make it readable, or remove it"
                raise UserError(f"{str(self.store.path)!r}: {told}") from error
        return folder

    def _train(self, request: FitRequest, key: str) -> None:
        folder = self._folder(key)
        with told_when_full(folder):
            folder.mkdir(parents=True, exist_ok=True)
        checkpoint = folder / "checkpoint.safetensors"
        network, data = untrained(request), load(request.data).for_training()
        watch = self._after_epoch(request, network, folder)
        _expect_key(request, key)  # code and images have been loaded
        with kernels.noting() as used:
            if not self.compiled:  # the compiler takes no such hooks
                seal(network, unfolded(request.data))
            elif request.recipe.loss != OWN:
                compile_checked(network.to(self.device), data.train.inputs(slice(CHECKED), self.device))
            with self._noting_damage():
                epochs = fit(
                    network, data, request.recipe, seed=request.seed, device=self.device, checkpoint=checkpoint,
                    on_progress=self._trains(request, checkpoint), after_epoch=watch,
                )  # fmt: skip
        try:
            _expect_key(request, key)  # all code that trains has been loaded
        except Changed:
            checkpoint.unlink(missing_ok=True)
            raise
        write_tensors(folder / "weights.safetensors", network.state_dict())
        notes = {"request": _plain(request), "epochs": [asdict(epoch) for epoch in epochs], "finished": time.time()}
        notes |= {
            "backends": sorted(used),
            "files": {file.name: checksum.of_file(file) for file in _results_in(folder)},
        }
        write_text(folder / "fit.json", checksum.sealed(notes))
        checkpoint.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _noting_damage(self) -> Iterator[None]:
        """Adds the warning of a damaged checkpoint to the store's, where whoever reads the record hears of it."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.filterwarnings("always", STARTS_ANEW)
            yield
        for one in heard:
            if str(one.message).startswith(STARTS_ANEW):
                self.store.warnings.append(str(one.message))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

    def _trains(self, request: FitRequest, checkpoint: Path) -> Callable[[float], None]:
        """Reports the current epoch, with the loss of the one before."""
        epochs, before, loss = request.recipe.epochs, -1, ""

        def told(share: float) -> None:
            nonlocal before, loss
            done = max(math.ceil(share * epochs - 1e-6) - 1, 0)
            if done != before:
                before, loss = done, _last_loss(checkpoint)
            self.on_progress(Stage(share, f"epoch {done + 1} of {epochs}{loss}"))

        return told

    def _after_epoch(self, request: FitRequest, network: nn.Module, folder: Path) -> AfterEpoch:
        """Keeps each epoch's weights and records its test accuracy, both or neither.

        An epoch on images that were overwritten leaves nothing, nor a checkpoint for when they are put back: the arrays
        of a file are read from it as they are needed.
        """
        images = load(request.data).fingerprint
        watchers = [_keeper(folder)] if request.every_epoch else []
        if request.tested:
            watchers.append(_tester(folder, network, request, self.device))

        def watch(epoch: int, weights: Mapping[str, Tensor]) -> None:
            if load(request.data).fingerprint != images:
                raise Changed(EDITED)
            for watcher in watchers:
                watcher(epoch, weights)

        return watch

    def load(self, request: FitRequest, key: str) -> Fit | None:
        """The fit on disk. None if there is none. Damaged or changed files are set aside first.

        Args:
            request: what was trained.
            key: its key, as `fit_key` gives it.
        """
        weights = self._folder(key) / "weights.safetensors"
        content = self.store.fit_notes(key)
        if content is None or not self._unchanged(weights.parent, content.get("files", {})):
            return None
        network, backends = untrained(request), content.get("backends", [])
        try:
            epochs = [Epoch(**epoch) for epoch in content["epochs"]]
        except TypeError:  # other facts than those of an epoch
            self.store.set_aside(weights.with_name("fit.json"))
            return None
        try:
            saved = load_file(weights)
        except (OSError, SafetensorError):
            saved = {}
        if not are_alike(saved, network.state_dict()):
            if weights.exists():
                self.store.set_aside(weights)
            return None
        network.load_state_dict(saved)
        if request.every_epoch and not self._all_epochs(weights.parent, len(epochs)):
            return None
        tested = _tested(weights.parent) if request.tested else {}
        if request.tested and sorted(tested) != [epoch.epoch for epoch in epochs]:
            return None
        self.backends |= set(backends)
        self.files |= {
            f"fits/{key}/{name}": known for name, known in content.get("files", {}).items() if name == weights.name
        }
        seal(network, unfolded(request.data))
        after = partial(_kept, weights.parent) if request.every_epoch else none_kept
        accuracies = tuple(tested[epoch] for epoch in sorted(tested))
        return Fit(network.to(self.device).eval(), epochs, sum(epoch.seconds for epoch in epochs), after, accuracies)

    def _unchanged(self, folder: Path, sums: Mapping[str, str]) -> bool:
        """Tells whether the files of a fit are unchanged. A changed one is set aside."""
        for name, known in sums.items():
            file = folder / name
            if file.exists() and checksum.of_file(file) != known:
                self.store.set_aside(file, CHANGED)
                return False
        return True

    def _all_epochs(self, folder: Path, epochs: int) -> bool:
        """Tells whether the weights of every epoch can be read. A file that cannot is set aside."""
        for epoch in range(1, epochs + 1):
            file = _epoch_file(folder, epoch)
            try:
                with safe_open(file, framework="pt"):  # reads the header, which says how long the file is
                    pass
            except (OSError, SafetensorError):
                if file.exists():
                    self.store.set_aside(file)
                return False
        return True


def untrained(request: FitRequest) -> nn.Module:
    """The network of a fit, with the initial weights that the seed gives."""
    data = load(request.data)
    trained_with = {} if request.iterations is None else {"iterations": request.iterations}
    torch.manual_seed(request.seed)
    with sealed_test_images(unfolded(request.data)):
        return build(
            request.model,
            shape=data.train.shape,
            classes=len(data.classes),
            method=request.method,
            method_params={**request.method_params, **trained_with},
            **request.model_params,
        )


@torch.no_grad()
def compile_checked(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Compiles a network in place, by `torch.compile`; what it computes without compilation is the reference.

    Its weights and their names stay. Routing kernels are left as they are: the compiler takes what is around them.

    Raises:
        UserError: logits of the batch differ by more than rounding.
    """
    network.eval()
    expected = network(*inputs).logits
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # it would tell of every kernel that it leaves as it is
    warnings.filterwarnings("ignore", module="torch._dynamo")
    importlib.import_module("torch._inductor.config").compile_threads = 1  # type: ignore[attr-defined]  # other runs have the other cores
    network.compile()
    found = network(*inputs).logits
    network.train()
    apart = float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
    if not apart <= ALIKE:
        raise UserError(f"--compile: the compiled network's logits are {apart:.1g} off, relatively; leave it out")


@checked
def load_fit(
    results: Path | str, cell: str, *, device: str = "cpu", plugins: str | Path | Sequence[str | Path] = ()
) -> nn.Module:
    """The trained network of a run, in evaluation mode.

    Args:
        results: a results folder.
        cell: a value of the column `cell` of `load_results`.
        device: the device to put the network on.
        plugins: files with models and methods of your own that the run was trained with; they are imported here.

    Raises:
        UserError: the folder has no record of this run, or its network is not there, as in a pack without networks.
    """
    for plugin in several(plugins):
        load_plugin(plugin)
    store = existing(results)
    record = store.record(cell)
    if record is None:
        store.tell()
        raise UserError(f"results folder {str(results)!r} holds no record of a run {cell!r}")
    again = f"`python -m routebench reproduce {cell} --results {shlex.quote(str(results))}` says how to train it again"
    if is_packed(store.path) and not (store.files / "fits").is_dir():
        raise UserError(f"results folder {str(results)!r} is a pack without trained networks; {again}")
    request = cell_of(record.identity).request()
    context = StoreContext(store, torch.device(device))
    known = next(filter(None, (context.load(request, key) for key in _keys_of(request, record.files or {}))), None)
    store.tell()
    if known is not None:
        return known.network
    raise UserError(
        f"results folder {str(results)!r} holds no network of run {cell} that this code has trained; {again}"
    )


def _keys_of(request: FitRequest, files: Mapping[str, str]) -> Iterator[str]:
    """The fits that a run may use, limited to those that its record names, if any."""
    lent = {name.split("/")[1] for name in files if name.startswith("fits/")}
    for tested, every_epoch in product((False, True), repeat=2):
        key = fit_key(replace(request, tested=tested, every_epoch=every_epoch))
        if not lent or key in lent:
            yield key


def fit_key(request: FitRequest) -> str:
    """16 hex digits of everything that can change the trained weights; what has its default is left out."""
    return key_of_fit(_plain(request), load(request.data).fingerprint)


def key_of_fit(request: Mapping[str, Any], fingerprint: str) -> str:
    """The same as `fit_key`, for a request as its file has it.

    Args:
        request: as a fit's file has it.
        fingerprint: that of the data set.
    """
    known = {**request, "training": request["recipe"], "fingerprint": fingerprint}
    del known["recipe"]
    parts = NamedParts(**{name: known[name] for name in ("model", "data", "method", "model_params", "training")})
    told = {"versions": parts.versions(), "source": parts.source()}
    known |= {name: value for name, value in told.items() if value}
    return digest(distinct({**known, "defaults": parts.defaults()}))


def _expect_key(request: FitRequest, key: str) -> None:
    """Raises Changed if a fit would not be the one that its key stands for."""
    if fit_key(request) != key:
        raise Changed(EDITED)


def _last_loss(checkpoint: Path) -> str:
    """`, loss 0.12` of the training part, of the last epoch of a checkpoint; empty where there is none."""
    try:
        with safe_open(checkpoint, framework="pt") as opened:
            loss = from_json((opened.metadata() or {})["epochs"])[-1]["train_loss"]
    except (OSError, SafetensorError, ValueError, LookupError, TypeError):
        return ""
    return f", loss {loss:.3g}"


def _results_in(folder: Path) -> list[Path]:
    """The final files of training."""
    return sorted([*folder.glob("epoch-*.safetensors"), *folder.glob("weights.safetensors"), *folder.glob(TESTED)])


def _epoch_file(folder: Path, epoch: int) -> Path:
    return folder / f"epoch-{epoch:04d}.safetensors"


def _keeper(folder: Path) -> AfterEpoch:
    """Writes each epoch's weights beside the fit."""

    def keep(epoch: int, weights: Mapping[str, Tensor]) -> None:
        write_tensors(_epoch_file(folder, epoch), weights)

    return keep


def _tester(folder: Path, network: nn.Module, request: FitRequest, device: torch.device) -> AfterEpoch:
    """Records test accuracy per epoch beside the fit; training never sees it."""
    test = load(request.data).test

    def look(epoch: int, weights: Mapping[str, Tensor]) -> None:  # noqa: ARG001  # the network has them
        found = {**_tested(folder), epoch: evaluate(network, test, request.recipe, device).accuracy}
        write_text(folder / TESTED, json.dumps(found))

    return look


def _tested(folder: Path) -> dict[int, float]:
    """Test accuracies by epoch; none if the file is missing or damaged."""
    try:
        found = from_json(read_plain(folder / TESTED)[0])
        return {int(epoch): float(accuracy) for epoch, accuracy in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _kept(folder: Path, epoch: int) -> Mapping[str, Tensor]:
    return load_file(_epoch_file(folder, epoch))


def _plain(request: FitRequest) -> dict[str, Any]:
    known = {**asdict(request), "recipe": request.recipe.settings}
    for choice in ("every_epoch", "tested"):
        if not known[choice]:
            del known[choice]  # so that fits from before there was a choice keep their keys
    known["method_params"], known["model_params"] = dict(request.method_params), dict(request.model_params)
    return dict(json.loads(json.dumps(known)))
