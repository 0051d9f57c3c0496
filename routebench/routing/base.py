"""Base of every routing method: votes and child activations in, parents out."""

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Count, checked
from routebench.capsules import Activations, Poses, Sizes, Votes, is_transformed
from routebench.capsules.equilibrium import NO_EQUATION
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim


class RoutingError(ValueError):
    """A routing method was called with, or returned, something that is not what the contract says."""


class NotFinite(RoutingError):
    """A routing method returned something that is not finite."""


@dataclass(frozen=True)
class Routed:
    """Parents, as one routing pass or one iteration leaves them.

    Args:
        poses: the parents' poses.
        activations: presence probability of each parent; None where the method has none.
        logits: log odds of the activations, for a method that computes them first; saves a loss from saturation.
        coupling: coupling coefficients for analyses, where the method made them itself.
        iteration: how many iterations led here.
        memory: whatever else the next iteration needs.
        loss: a loss of the method's own for each lane, such as one that balances coupling. In training, its mean over
            lanes is added to the loss, for every layer; a weight of it is a hyperparameter of the method. Networks that
            train by an objective of their own, the loss `own`, leave it out.
    """

    poses: Poses
    activations: Float[Tensor, "lane parent"] | None = None
    logits: Float[Tensor, "lane parent"] | None = None
    coupling: Float[Tensor, "lane child parent"] | None = None
    iteration: int = 1
    memory: tuple[Tensor, ...] = field(default=(), repr=False)
    loss: Float[Tensor, " lane"] | None = None


class RoutingMethod(nn.Module, ABC):
    """Decides how much each child capsule contributes to each parent capsule.

    A method defines `route`, and takes its hyperparameters as keyword-only arguments of `__init__`, with the paper's
    values as defaults. Their annotations say what is legal, and are checked: see `routebench.arguments`. One called
    `iterations` makes the method iterative: suites then run it over their grid of iterations.

    Args:
        sizes: sizes of the routing problem, given by the network.
    """

    source: ClassVar[str] = ""
    """The publication that defines the method, with its procedure or equation."""
    title: ClassVar[str] = ""
    """Name in tables; empty for its registered name with a capital."""
    colour: ClassVar[str] = ""
    """Its colour in figures, a name of `routebench.analysis.palette`; empty for one that is free."""
    first_is: ClassVar[str] = ""
    """The method that one iteration of it is, to the last bit; empty if there is none."""
    note: ClassVar[str] = ""
    """A few words that a reader of its results needs, beside its name on the first screen of a report; or empty."""
    claims: tuple[Claim, ...] = ()
    """Claims that `python -m routebench check` measures; hyperparameters that break one take it out of an instance."""

    competition: str = "types"
    """Axis over which the votes' own coupling sums to one; see `routebench.capsules.AXES`."""
    orphan: bool = False
    """Tells whether a parent with logit 0 and no output competes as well."""
    gives_activations: bool = True
    """Tells whether `Routed.activations` is set. If not, one shared linear unit reads class scores off poses."""
    uses_activations: bool = False
    """Tells whether it weights children by their activations, which networks with layer-normalised primary capsules
    learn: lengths say nothing there."""
    schedule: str = "sequential"
    """The order in which several layers iterate; see `routebench.capsules.schedules.SCHEDULES`. An iterative method
    takes it as a hyperparameter if it has one of this name."""
    progress: float = 1.0
    """Part of the training run that has passed, 0 to 1; the trainer sets it. 1 outside training."""
    layer: int = 0
    """The place of its layer among the network's capsule layers, from 0; the network sets it after `__init__`."""
    layers: int = 1
    """The number of the network's capsule layers; the network sets it after `__init__`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.sizes = sizes
        self._trusted = False

    @abstractmethod
    def route(self, votes: Votes, activations: Activations) -> Routed:
        """Parents from votes and child activations.

        Args:
            votes: the children's votes for the parents, (lane, child, parent, pose).
            activations: those of the children, (lane, child).
        """

    @final  # type: ignore[misc]  # torch declares forward as an attribute
    def forward(self, votes: Votes, activations: Activations) -> Routed:
        """Calls `route` and checks what goes in and what comes out; finiteness is checked on the first call only.

        Raises:
            RoutingError: a shape is wrong, or the first output is not finite.
        """
        expected = (self.sizes.children, self.sizes.parents, self.sizes.pose)
        found = (votes.children, votes.parents, votes.pose)
        if expected != found:
            raise RoutingError(f"{self.name}: expected votes of {expected} (child, parent, pose), got {found}")
        _expect_shape(self.name, "activations", activations, (votes.lanes, self.sizes.children))
        routed = self.route(votes, activations)
        self._check(routed, votes.lanes)
        return routed

    @property
    def masks(self) -> bool:
        """Tells whether it claims that children which are not there change nothing; without, layers refuse masks.

        `Votes` leaves such children out of every sum that it makes. A method that adds up children itself asks
        `votes.present` and `votes.there`.
        """
        return Claim.PADDING in self.claims

    @property
    def name(self) -> str:
        """The class name, for messages."""
        return type(self).__name__

    def _check(self, routed: Routed, lanes: int) -> None:
        if not isinstance(routed, Routed):
            raise RoutingError(f"{self.name}: route must return a Routed, got {type(routed).__name__}")
        _expect_shape(self.name, "poses", routed.poses, (lanes, self.sizes.parents, self.sizes.pose))
        if (routed.activations is not None) != self.gives_activations:
            found = "none" if routed.activations is None else "some"
            raise RoutingError(
                f"{self.name}: gives_activations is {self.gives_activations}, but route returned {found}; "
                "return activations, or set gives_activations = False"
            )
        for what in ("activations", "logits"):
            if getattr(routed, what) is not None:
                _expect_shape(self.name, what, getattr(routed, what), (lanes, self.sizes.parents))
        if routed.loss is not None:
            _expect_shape(self.name, "loss", routed.loss, (lanes,))
        if not self._trusted and not is_transformed():
            for what in ("poses", "activations", "logits", "loss"):
                value = getattr(routed, what)
                if value is not None and not bool(torch.isfinite(value).all()):
                    raise NotFinite(f"{self.name}: returned {what} that are not finite")
            self._trusted = True

    def extra_repr(self) -> str:
        """Sizes and hyperparameters, for `repr`."""
        set_to = (f"{key}={getattr(self, key, '?')!r}" for key in hyperparameters(type(self)))
        return ", ".join([str(self.sizes), *set_to])


class IterativeRouting(RoutingMethod):
    """A method that repeats one update. Schedules can interleave the updates of several layers."""

    iterations: int
    settles: bool = True
    """Tells whether its state can stay the same from one iteration to the next. If not, as where it sums something over
    iterations, equilibrium schedules take plain steps, and the implicit gradient is refused."""

    def __init__(self, sizes: Sizes, *, iterations: Count, schedule: ScheduleName = "sequential"):
        super().__init__(sizes)
        if schedule == "equilibrium-implicit" and not self.settles:
            raise ValueError(NO_EQUATION)
        self.iterations, self.schedule = iterations, schedule

    @abstractmethod
    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """One iteration, from what the last one left; `previous` is None in the first.

        Args:
            votes, activations: as for `route`.
            previous: what the last iteration returned.
        """

    @final
    def route(self, votes: Votes, activations: Activations) -> Routed:
        """`iterations` updates in a row."""
        routed = self.iterate(votes, activations, None)
        for _ in range(self.iterations - 1):
            routed = self.iterate(votes, activations, routed)
        return routed


def hyperparameters(method: type[RoutingMethod]) -> dict[str, Any]:
    """The hyperparameters of a method with their defaults: the keyword-only arguments of its `__init__`."""
    arguments = inspect.signature(method.__init__).parameters.values()
    return {argument.name: argument.default for argument in arguments if argument.kind is argument.KEYWORD_ONLY}


def _expect_shape(owner: str, what: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Raises RoutingError unless `value` is a tensor of this shape."""
    if not isinstance(value, Tensor):
        raise RoutingError(f"{owner}: expected {what} to be a tensor, got {type(value).__name__}")
    if tuple(value.shape) != shape:
        raise RoutingError(f"{owner}: expected {what} of shape {shape}, got {tuple(value.shape)}")
