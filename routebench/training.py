"""Training one network: the loop, its checkpoints, and predictions."""

import copy
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from routebench.augmentations import augmented
from routebench.checkpoint import Checkpoint, DamagedCheckpoint, are_alike
from routebench.data import Images, Tokens, TrainingData
from routebench.errors import Diverged, UserError
from routebench.losses import OWN, Labels, loss_at_end, loss_named, reconstruction
from routebench.models.network import Output, set_progress, trained_parts
from routebench.optimizers import make_optimizer
from routebench.received import from_json
from routebench.recipe import Moment, Recipe

PLAIN = (bool, int, float, str, type(None))
"""Types of what an optimizer may keep beside tensors."""
EVALUATION_BATCH = 250
"""Images per forward pass outside training."""


@dataclass(frozen=True)
class Epoch:
    """The results of one epoch. Losses are means over images; accuracies are in per cent, NaN without labels.

    Both are NaN for the held-out part where it was trained on. `added_loss` is the part of the training loss that
    routing methods added.
    """

    epoch: int
    train_loss: float
    train_accuracy: float
    held_out_loss: float
    held_out_accuracy: float
    learning_rate: float
    seconds: float
    added_loss: float = 0.0

    @property
    def has_held_out(self) -> bool:
        """Tells whether images were held out."""
        return not (math.isnan(self.held_out_loss) and math.isnan(self.held_out_accuracy))


def fit(
    network: nn.Module,
    data: TrainingData[Any],
    recipe: Recipe,
    *,
    seed: int,
    device: torch.device,
    checkpoint: Path | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
    after_epoch: Callable[[int, Mapping[str, Tensor]], None] = lambda _epoch, _weights: None,
) -> list[Epoch]:
    """Trains a network in place and leaves it on the device, in evaluation mode.

    Batches, augmentation and images composed for the epoch are drawn from generators seeded by (seed, epoch), and so is
    torch's own, for layers that draw numbers in training: a training run that is interrupted and goes on gives the same
    weights as one that is not.

    With the loss `own`, labels are not looked at, and `network.objective(images, generator)` is made small; its
    generator is another of those seeded by (seed, epoch). On the held-out part it is the same in every epoch.

    Args:
        network: with freshly drawn weights.
        data: images to train on, and those held out of them.
        recipe: loss, optimizer, schedule and length.
        seed: what generators are seeded by, with the epoch.
        device: where it trains.
        checkpoint: a file that is written after every epoch, and read first if it is there. One that cannot be read
            is renamed to `.damaged`, with a warning, and the run starts anew.
        on_progress: called with the share of the run that is done.
        after_epoch: called with the number of each epoch, from 1, and the weights that it left, which the next one
            overwrites. It is called before the checkpoint is written: of an interrupted run every epoch has been seen.

    Returns:
        the epochs, in order.

    Raises:
        Diverged: the loss was not finite, and the step is named; or answers to held-out images were not.
        UserError: the loss does not suit the network, it has no decoder where one is needed, or held-out images are to
            be trained on of a data set whose training images are made anew for every epoch.
    """
    expect_suited(type(network).__name__, trained_parts(network), recipe.loss, recipe.reconstruction)
    if recipe.reconstruction > 0 and data.train.multi_label:
        raise UserError(
            f"training: reconstruction decodes the capsule of one class, and images of {data.name!r} may show several; "
            "set reconstruction to 0"
        )
    loop = _Loop(network, data.whole() if recipe.train_on == "all" else data, recipe, seed, device)
    epochs = loop.resume(checkpoint)
    for epoch in range(len(epochs), recipe.epochs):
        epochs.append(loop.run_epoch(epoch, on_progress))
        loop.keep_best(epochs)
        after_epoch(len(epochs), network.state_dict())
        if checkpoint is not None:
            loop.save(checkpoint, epochs)
    loop.finish()
    return epochs


def expect_suited(network: str, parts: Collection[str], loss: str, reconstruction: float) -> None:
    """Raises UserError for settings of a recipe that a network cannot be trained with.

    Args:
        network: its name.
        parts: as `routebench.models.network.trained_parts` gives them.
        loss, reconstruction: settings of the recipe.
    """
    if (loss == OWN) != ("objective" in parts):
        suited = OWN if "objective" in parts else "one on labels"
        raise UserError(f"training: expected loss to be {suited} for {network}, got {loss!r}")
    if reconstruction > 0 and "decoder" not in parts:
        raise UserError(
            f"training: reconstruction above 0 needs a model with a decoder, such as capsnet-reconstruction, and "
            f"{network} has none"
        )


class _Loop:
    """The state of a training run."""

    def __init__(self, network: nn.Module, data: TrainingData[Any], recipe: Recipe, seed: int, device: torch.device):
        self.device, self.recipe, self.seed, self.data = device, recipe, seed, data
        layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.network = network.to(device).to(memory_format=layout)  # type: ignore[call-overload]
        self.layout = layout
        self.optimiser = make_optimizer(network, recipe)
        self.train: Images | Tokens = data.train.to(device)
        self.steps = math.ceil(len(self.train) / recipe.batch_size)
        self.best: dict[str, Tensor] = {}

    def run_epoch(self, epoch: int, on_progress: Callable[[float], None]) -> Epoch:
        """One pass over the training part, and a look at the held-out part."""
        started = time.perf_counter()
        recipe, train = self.recipe, self.train
        order = torch.randperm(len(train), generator=_generator("cpu", self.seed, epoch, 0)).to(self.device)
        noise = _generator(self.device, self.seed, epoch, 1)
        draws = _generator(self.device, self.seed, epoch, 4)
        torch.manual_seed(_mixed(self.seed, epoch, 5))  # for what layers draw themselves
        if self.data.compose is not None:
            train = self.data.composed(_generator(self.device, self.seed, epoch, 2))
        totals = torch.zeros(3, device=self.device)
        watch = _DivergenceWatch(self.device)
        self.network.train()
        for batch, chosen in enumerate(torch.split(order, recipe.batch_size)):
            step = epoch * self.steps + batch
            moment = Moment(step, step / (recipe.epochs * self.steps), epoch)
            set_progress(self.network, moment.progress)
            for group in self.optimiser.param_groups:
                group["lr"] = recipe.rate_at(moment)
            loss, right, added = training_step(
                self.network, self.optimiser, self._batch(train, chosen, noise), train.labels[chosen],
                recipe=recipe, moment=moment, draws=draws,
            )  # fmt: skip
            totals += torch.stack([loss * len(chosen), right, added * len(chosen)])
            watch.see(loss, step)
            on_progress((step + 1) / (recipe.epochs * self.steps))
        watch.raise_if_bad()
        set_progress(self.network, (epoch + 1) / recipe.epochs)
        mean_loss, accuracy, mean_added = (totals / len(train)).tolist()
        held_out = (
            None if self.data.held_out is None else evaluate(self.network, self.data.held_out, recipe, self.device)
        )
        return Epoch(
            epoch=epoch + 1,
            train_loss=mean_loss,
            train_accuracy=100 * accuracy,
            held_out_loss=math.nan if held_out is None else held_out.loss,
            held_out_accuracy=math.nan if held_out is None else held_out.accuracy,
            learning_rate=self.optimiser.param_groups[0]["lr"],
            seconds=time.perf_counter() - started,
            added_loss=mean_added,
        )

    def _batch(self, train: Images | Tokens, chosen: Tensor, noise: torch.Generator) -> tuple[Tensor, ...]:
        """Inputs of a step; pictures are augmented, and lie in memory as the recipe says."""
        inputs = train.inputs(chosen, self.device)
        if isinstance(train, Tokens):
            return inputs
        images = inputs[0].contiguous(memory_format=self.layout)
        return (augmented(self.recipe.augmentation, images, noise),)

    def keep_best(self, epochs: list[Epoch]) -> None:
        """Remembers the best epoch's weights, if the held-out part selects; ties go to the earlier epoch."""
        by_loss = self.recipe.loss == OWN
        best = max(epochs, key=lambda epoch: -epoch.held_out_loss if by_loss else epoch.held_out_accuracy)
        if self.recipe.selection == "held-out" and best is epochs[-1]:
            self.best = {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def finish(self) -> None:
        """Puts the selected weights in place."""
        if self.best:
            self.network.load_state_dict(self.best)
        set_progress(self.network, 1.0)
        self.network.eval()

    def save(self, file: Path, epochs: list[Epoch]) -> None:
        """Writes everything that the next epoch needs."""
        notes = {
            "epochs": json.dumps([asdict(epoch) for epoch in epochs]),
            "optimizer": type(self.optimiser).__name__,
        }
        if not _is_known(self.optimiser):
            if (numbers := _numbers(self.optimiser)) is None:  # a run that stops begins again
                return
            notes["numbers"] = numbers
        Checkpoint(self.network.state_dict(), _moments(self.optimiser), self.best, notes).write(file)

    def resume(self, file: Path | None) -> list[Epoch]:
        """Goes on from a checkpoint, if there is one. A damaged one is set aside, and the run starts anew."""
        if file is None or not file.exists():
            return []
        try:
            found = Checkpoint.read(file)
            epochs = _epochs_of(found, self.network, self.recipe)
            _expect_optimizer(found, self.optimiser)
            numbers = {} if _is_known(self.optimiser) else _numbers_of(found)
        except DamagedCheckpoint as error:
            aside = file.with_name(f"{file.name}.damaged")
            os.replace(file, aside)
            warnings.warn(f"training starts anew, because {error}; the file is now {aside.name}", stacklevel=3)
            return []
        self.network.load_state_dict(found.weights)
        _restore_moments(self.optimiser, found.optimiser, numbers)
        self.best = {name: value.to(self.device) for name, value in found.best.items()}
        return epochs


def training_step(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    inputs: tuple[Tensor, ...],
    labels: Labels,
    *,
    recipe: Recipe,
    moment: Moment,
    draws: torch.Generator | None = None,
) -> tuple[Float[Tensor, ""], Tensor, Float[Tensor, ""]]:
    """Takes one step of the optimizer.

    Args:
        network: the network, in training mode.
        optimiser: the optimizer of its parameters.
        inputs: arguments of the network: a batch of images; or of tokens, and their mask if they have one.
        labels: labels of the batch.
        recipe: the recipe, for loss and precision.
        moment: how far training has come.
        draws: for the random numbers of a network's own objective.

    Returns:
        the loss before it; how many images were classified rightly, NaN with the network's own objective, which draws
        its random numbers from `draws`; and the part of the loss that routing methods added.
    """
    if recipe.loss == OWN:
        with _precision(recipe, inputs[0].device):
            loss = network.objective(inputs[0], draws).float()  # type: ignore[operator]  # `fit` looks for it
        _descend(optimiser, loss, recipe)
        loss = loss.detach()
        return loss, torch.full_like(loss, math.nan), torch.zeros_like(loss)
    with _precision(recipe, inputs[0].device):
        output = network(*inputs)
        decoded = network.reconstruct(output, labels) if recipe.reconstruction > 0 else None  # type: ignore[operator]  # a network with a decoder has it
    output = Output(output.logits.float(), output.scores.float(), output.layers)
    loss = loss_named(recipe.loss, recipe.label_smoothing)(output, labels, moment)
    if decoded is not None:
        loss = loss + recipe.reconstruction * reconstruction(inputs[0], decoded.float())
    added = output.added_loss
    if added is not None:
        loss = loss + added
    _descend(optimiser, loss, recipe)
    right = is_right(answers(output.scores.detach(), labels), labels).sum()
    return loss.detach(), right, torch.zeros_like(loss) if added is None else added.detach()


def _descend(optimiser: torch.optim.Optimizer, loss: Float[Tensor, ""], recipe: Recipe) -> None:
    """One step; a gradient whose norm is larger than `clip_norm`, if that is not 0, is scaled down to it.

    Raises:
        UserError: no parameter has a gradient.
    """
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    parameters = [one for group in optimiser.param_groups for one in group["params"]]
    if all(one.grad is None for one in parameters):
        raise UserError(
            f"loss {recipe.loss!r}: expected one that depends on the network, got {loss!r:.80}, which gives no "
            "parameter a gradient"
        )
    if recipe.clip_norm:
        nn.utils.clip_grad_norm_(parameters, recipe.clip_norm)
    optimiser.step()


def answers(scores: Float[Tensor, "batch classes"], labels: Labels) -> Labels:
    """The answers of scores, in the form of the labels: the highest class, or as many as an image shows if several.

    So no threshold decides: one would compare at which height losses put scores, and that moves while a network learns.

    Args:
        scores: one for each class, (batch, classes).
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
    """
    return scores.argmax(dim=1) if labels.ndim == 1 else highest(scores, labels.sum(dim=1))


def highest(scores: Float[Tensor, "batch classes"], counts: Int[Tensor, " batch"]) -> Bool[Tensor, "batch classes"]:
    """Marks as many of the highest scores of each image as `counts` says; of equal scores, the earlier classes.

    Args:
        scores: one for each class, (batch, classes).
        counts: one for each image, (batch,).
    """
    order = scores.argsort(dim=1, descending=True, stable=True)
    return order.argsort(dim=1, stable=True) < counts[:, None]


def is_right(answered: Labels, labels: Labels) -> Bool[Tensor, " batch"]:
    """Tells whether the answer to an image is right; where it may show several classes, all of them and no other.

    Args:
        answered: as `answers` gives them.
        labels: the right ones, in the same form.
    """
    same = answered == labels
    return same if labels.ndim == 1 else same.all(dim=1)


@dataclass(frozen=True)
class Evaluation:
    """A network's answers to a set of images.

    Args:
        predicted: the class with the highest score; where an image may show several, the highest ones, see `answers`;
            empty for a network that names no class.
        correct: whether that is right, see `is_right`; empty for such a network.
        loss: mean over images.
        accuracy: per cent; NaN for a network that says no class.
        scores: scores of the classes, in [0, 1]; empty for such a network.
    """

    predicted: Int[Tensor, " image"] | Bool[Tensor, "image classes"]
    correct: Bool[Tensor, " image"]
    loss: float
    accuracy: float
    scores: Float[Tensor, "image classes"]


@torch.no_grad()
def evaluate(network: nn.Module, images: Images | Tokens, recipe: Recipe, device: torch.device) -> Evaluation:
    """The answers of a network, in evaluation mode, and the loss that it was trained with.

    Args:
        network: the network; it is left in the mode that it was in.
        images: what is answered, with labels.
        recipe: names the loss.
        device: where the network is.

    Raises:
        Diverged: a score is not finite.
    """
    if recipe.loss == OWN:
        return _objective_of(network, images, recipe, device)
    was_training = network.training
    network.eval()
    scores, losses = [], []
    for start in range(0, len(images.labels), EVALUATION_BATCH):
        labels = images.labels[start : start + EVALUATION_BATCH].to(device)
        inputs = images.inputs(slice(start, start + EVALUATION_BATCH), device)
        with _precision(recipe, device):
            output = network(*inputs)
        output = Output(output.logits.float(), output.scores.float(), output.layers)
        scores.append(output.scores)
        loss, added = loss_at_end(recipe.loss, recipe.label_smoothing)(output, labels), output.added_loss
        losses.append((loss if added is None else loss + added) * len(labels))
    network.train(was_training)
    found = torch.cat(scores).cpu()
    if not bool(found.isfinite().all()):  # of which the first class would be the highest
        raise Diverged(None)
    predicted = answers(found, images.labels)
    correct = is_right(predicted, images.labels)
    total = float(torch.stack(losses).sum())
    return Evaluation(predicted, correct, total / len(correct), 100 * float(correct.double().mean()), found)


def _objective_of(network: nn.Module, images: Images | Tokens, recipe: Recipe, device: torch.device) -> Evaluation:
    """The mean of a network's own objective, in evaluation mode, with the same random numbers for whoever asks.

    Raises:
        Diverged: it is not finite.
    """
    was_training = network.training
    network.eval()
    draws, losses = _generator(device, 0, 0, 3), []
    for start in range(0, len(images), EVALUATION_BATCH):
        pixels, *_ = images.inputs(slice(start, start + EVALUATION_BATCH), device)
        with _precision(recipe, device):
            losses.append(network.objective(pixels, draws).float() * len(pixels))  # type: ignore[operator]
    network.train(was_training)
    nothing = torch.empty(0, dtype=torch.long)
    mean = float(torch.stack(losses).sum()) / len(images)
    if not math.isfinite(mean):
        raise Diverged(None)
    return Evaluation(nothing, nothing.bool(), mean, math.nan, torch.empty(0, 0))


class _DivergenceWatch:
    """Remembers the first step whose loss was not finite, without waiting for the device at every step."""

    def __init__(self, device: torch.device):
        self.first_bad = torch.full((), -1, dtype=torch.long, device=device)
        self.every = 1 if device.type == "cpu" else 50  # reading the tensor makes a GPU wait

    def see(self, loss: Float[Tensor, ""], step: int) -> None:
        new = (self.first_bad < 0) & ~torch.isfinite(loss)
        self.first_bad = torch.where(new, step, self.first_bad)
        if step % self.every == 0:
            self.raise_if_bad()

    def raise_if_bad(self) -> None:
        if (step := int(self.first_bad)) >= 0:
            raise Diverged(step)


def _epochs_of(found: Checkpoint, network: nn.Module, recipe: Recipe) -> list[Epoch]:
    """The epochs that a checkpoint of this network has behind it."""
    known = network.state_dict()
    if not are_alike(found.weights, known) or (found.best and not are_alike(found.best, known)):
        raise DamagedCheckpoint("the checkpoint is of another network")
    try:
        epochs = [Epoch(**epoch) for epoch in from_json(found.notes["epochs"])]
        numbers = [float(value) for epoch in epochs for value in asdict(epoch).values()]
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise DamagedCheckpoint(f"the checkpoint has no readable epochs: {error!r:.200}") from error
    wanted = [*range(1, min(len(epochs), recipe.epochs) + 1)]
    if not numbers or [epoch.epoch for epoch in epochs] != wanted:
        raise DamagedCheckpoint(f"the checkpoint has other epochs than the first of {recipe.epochs}")
    return epochs


def _expect_optimizer(found: Checkpoint, optimiser: torch.optim.Optimizer) -> None:
    """Raises DamagedCheckpoint for another optimizer's state, or a part; 0.1.0 named none, and had torch's RMSProp."""
    name = type(optimiser).__name__
    saved = found.notes.get("optimizer", "RMSprop" if name == "TensorFlowRMSProp" else name)
    if saved != name:
        raise DamagedCheckpoint(f"the checkpoint is of the optimizer {saved}, not {name}")
    if not _is_known(optimiser):
        return  # the state of a user's may grow with every step
    wanted = _moments_of_a_step(optimiser)
    of_number = {key: key.partition(".")[0] for key in {*found.optimiser, *wanted}}
    there = {of_number[key] for key in found.optimiser}
    # a parameter that no loss reaches has no state
    expected = {key: value for key, value in wanted.items() if of_number[key] in there}
    if not are_alike(found.optimiser, expected) or (wanted and not there):
        raise DamagedCheckpoint(f"the checkpoint has another state of {name} than its parameters have")


def _generator(device: torch.device | str, seed: int, epoch: int, stream: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(_mixed(seed, epoch, stream))


def _mixed(seed: int, epoch: int, stream: int) -> int:
    return (seed * 1_000_003 + epoch) * 7 + stream  # distinct for all seeds and epochs below 1,000,003


@contextmanager
def _precision(recipe: Recipe, device: torch.device) -> Iterator[None]:
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=recipe.precision == "bfloat16"):
        yield


def _moments(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of the optimizer's state, by parameter number and name."""
    state = optimiser.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, entries in state.items()
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }


def _moments_of_a_step(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state as a step of all parameters leaves it, of a copy."""
    twin = copy.deepcopy(optimiser)
    for group in twin.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    twin.step()
    return _moments(twin)


def _is_known(optimiser: torch.optim.Optimizer) -> bool:
    """Tells whether an optimizer is of torch or routebench, whose state is in tensors alone."""
    return type(optimiser).__module__.startswith(("torch.", "routebench."))


def _numbers(optimiser: torch.optim.Optimizer) -> str | None:
    """Numbers and texts that an optimizer of the user's keeps beside tensors, as JSON; None where it keeps more."""
    known = optimiser.state_dict()
    state, groups = known["state"], [{**group, "params": None} for group in known["param_groups"]]
    if not all(isinstance(entries, dict) for entries in state.values()):
        return None
    numbers = {
        number: {name: value for name, value in entries.items() if not isinstance(value, Tensor)}
        for number, entries in state.items()
    }
    in_groups = [
        one for group in groups for value in group.values() for one in (value if isinstance(value, tuple) else [value])
    ]
    if all(isinstance(one, PLAIN) for one in [*in_groups, *(one for own in numbers.values() for one in own.values())]):
        return json.dumps({"state": numbers, "groups": groups})
    return None


def _numbers_of(found: Checkpoint) -> dict[str, Any]:
    """Numbers and texts of an optimizer, as a checkpoint has them."""
    if "numbers" not in found.notes:
        raise DamagedCheckpoint("the checkpoint lacks numbers of the optimizer")
    numbers: dict[str, Any] = from_json(found.notes["numbers"])
    return numbers


def _restore_moments(
    optimiser: torch.optim.Optimizer, moments: Mapping[str, Tensor], numbers: Mapping[str, Any]
) -> None:
    state = optimiser.state_dict()
    state["state"] = {int(number): entries for number, entries in numbers.get("state", {}).items()}
    for key, value in moments.items():
        number, name = key.split(".", 1)
        state["state"].setdefault(int(number), {})[name] = value
    for group, known in zip(state["param_groups"], numbers.get("groups", []), strict=False):
        found = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
        group.update({**found, "params": group["params"]})
    optimiser.load_state_dict(state)
