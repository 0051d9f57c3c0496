"""Protocols: the identity of a run in, measurements out."""

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from routebench.data import Dataset
from routebench.declared import measure_of
from routebench.errors import UserError
from routebench.recipe import Recipe
from routebench.training import Epoch


@dataclass(frozen=True)
class Metric:
    """One number: of a declared measure, by `Metric.of`, or any other, with its unit and direction.

    Args:
        metric: what it is, such as `accuracy`.
        split: part of the data set: train, held-out or test; empty where none applies.
        unit: `%`, `s`, `count`; empty for a pure number.
        higher_is_better: its direction; None where neither is better.
        test_iterations: how many iterations routing had when it was measured, if that can differ from training.
        epoch: counted from 1, for a point of a curve.
        where: further coordinates of the protocol's own, such as the batch size. `load_results` makes a column of each,
            so that none is named as a column of all results, such as `data`.
    """

    metric: str
    split: str
    value: float
    unit: str = ""
    higher_is_better: bool | None = None
    test_iterations: int | None = None
    epoch: int | None = None
    where: Mapping[str, int | str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        measure: str,
        split: str,
        value: float,
        *,
        test_iterations: int | None = None,
        epoch: int | None = None,
        where: Mapping[str, int | str] = MappingProxyType({}),
        undirected: str = "",
    ) -> "Metric":
        """A value of a declared measure, whose unit and direction it has.

        Args:
            measure: its name.
            split, value, test_iterations, epoch, where: as above.
            undirected: why neither direction is better here although the measure has one; empty where it has.

        Raises:
            UserError: nobody has declared the measure.
        """
        known = measure_of(measure)
        better = None if undirected else known.higher_is_better
        return cls(measure, split, value, known.unit, better, test_iterations, epoch, dict(where))


@dataclass(frozen=True)
class Measurement:
    """Results of a protocol: numbers, and raw outputs by name, per test image where that makes sense."""

    metrics: list[Metric]
    arrays: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class FitRequest:
    """A trained model that a protocol asks for. Equal requests give the same fit, which is trained once.

    Args:
        model, model_params: the network.
        method, method_params: its routing, `iterations` apart; None for a network without capsules.
        iterations: number that it is trained with; None where the method has none.
        data: name of the data set.
        recipe: the training recipe.
        seed: seed of the initial weights, the order of batches and the augmentation.
        every_epoch: keep what every epoch left, not the last weights alone. It is a fit of its own, of equal weights.
        tested: note the test accuracy after every epoch, which training does not see. It is a fit of its own, too.
    """

    model: str
    data: str
    recipe: Recipe
    seed: int
    method: str | None = None
    method_params: Mapping[str, Any] = field(default_factory=dict)
    iterations: int | None = None
    model_params: Mapping[str, Any] = field(default_factory=dict)
    every_epoch: bool = False
    tested: bool = False


def none_kept(epoch: int) -> Mapping[str, Tensor]:
    """Raises an error: the fit kept its last weights alone.

    Args:
        epoch: number of the epoch that was asked for, from 1.

    Raises:
        LookupError: always.
    """
    raise LookupError(f"the weights of epoch {epoch} were not kept; ask for a fit with every_epoch=True")


@dataclass(frozen=True)
class Fit:
    """A trained model.

    Args:
        network: the network on the context's device, in evaluation mode.
        epochs: its training curves.
        seconds: time that training took, in all.
        weights_after: the number of an epoch, from 1, to the weights that it left, as `state_dict` has them; where the
            request was for `every_epoch`.
        test_accuracy: in per cent after each epoch, in order, where the request was for `tested`.
    """

    network: nn.Module
    epochs: list[Epoch]
    seconds: float
    weights_after: Callable[[int], Mapping[str, Tensor]] = none_kept
    test_accuracy: tuple[float, ...] = ()


@typing.runtime_checkable
class Context(typing.Protocol):
    """Services that the engine lends a protocol while it measures."""

    device: torch.device

    def fit(self, request: FitRequest) -> Fit:
        """The trained model, from the store if it is there.

        Args:
            request: the model that is asked for.

        Returns:
            its network, on the context's device and in evaluation mode, and how training went.
        """

    def progress(self, share: float) -> None:
        """Tells how much of the run is done, 0 to 1.

        Args:
            share: the share of the run that is done, 0 to 1.
        """


class Protocol(ABC):
    """One kind of measurement. `request` says which fit a run stands on, `measure` does the work."""

    options: typing.ClassVar[dict[str, Any]] = {}
    """Keys that a suite's preset may set for this protocol, each with what is legal, such as `list[Count]`."""
    alone: typing.ClassVar[bool] = False
    """Tells whether nothing else may run beside a run, because time is measured. It then has all cores."""

    chooses: typing.ClassVar[str] = ""
    """Name of what is chosen by held-out images, in words; a network that was trained on them is refused then."""

    trains: typing.ClassVar[bool] = True
    """Tells whether what is measured was trained; else weights are random, and nothing is tested."""

    unsupervised: typing.ClassVar[bool] = False
    """Tells whether every registered model that learns without labels is measured too."""

    takes: typing.ClassVar[tuple[str, ...]] = ("images",)
    """The kinds of items that it measures: `images`, `tokens`. Data of another kind are refused by the plan."""

    preload: typing.ClassVar[tuple[str, ...]] = ()
    """Modules that take long to import and that every run needs: imported once where runs are processes."""

    part_versions: typing.ClassVar[Mapping[str, Mapping[str, int]]] = {}
    """Versions of parts that options name, by kind and name, where numbers have changed since results were published;
    all others have version 1. The option of a kind is its plural."""

    def expect(self, data: Dataset[typing.Any]) -> None:  # noqa: B027  # most take any data
        """Looks whether a data set is one that this can be measured on; asked before anything is trained.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: it is not, with what was expected, what came, and what to do.
        """

    def fits(self, request: FitRequest, options: Mapping[str, Any]) -> Iterable[FitRequest]:
        """Lists all that a run trains: dry runs foretell how long that takes, and keys hold versions of the parts.

        Args:
            request: the run's fit.
            options: the suite's settings for this protocol, keys as in `options`.
        """
        return (request,)

    def versions(self, options: Mapping[str, Any]) -> Mapping[str, int]:  # most name no parts
        """Versions of the parts that options name, such as attacks, of those that have another than 1.

        Args:
            options: the suite's settings for this protocol, keys as in `options`.

        Returns:
            version by `kind name`, such as `corruption pixelate`.
        """
        return {}

    @abstractmethod
    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Measures everything that is to be known of one run.

        Args:
            request: the run's fit.
            options: the suite's settings for this protocol, keys as in `options`.
            context: gives fits, and is told of progress.

        Returns:
            its numbers, and its raw outputs by name.
        """


def expect_measured(name: str, protocol: Protocol, data: Dataset[Any]) -> None:
    """Refuses data of a kind that a protocol does not measure.

    Args:
        name: name of the protocol, for the message.
        protocol: the protocol.
        data: the data set that it would be measured on.

    Raises:
        UserError: its items are of another kind.
    """
    if data.train.kind not in protocol.takes:
        found = f"{data.train.kind} of {' x '.join(map(str, data.train.shape))}"
        wanted = " or ".join(protocol.takes)
        raise UserError(f"protocol {name}: expected a data set of {wanted}, got {data.name}, of {found}")


def expect_one_label(protocol: str, data: Dataset[Any]) -> None:
    """Refuses data of several labels, for a protocol that asks which class an image shows.

    Args:
        protocol: name of the protocol, for the message.
        data: the data set that it would be measured on.

    Raises:
        UserError: images may show several.
    """
    if data.test.multi_label:
        raise UserError(
            f"protocol {protocol}: expected a data set with one class per image, such as mnist5k, got {data.name}, "
            "whose images may show several; choose another data set"
        )
