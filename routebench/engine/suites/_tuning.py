"""Fair tuning: the space of settings, the points that every configuration tries, and their runs."""

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from routebench.arguments import Among, Count, Legal, Names, Range, legal_values
from routebench.data_names import FOLD, whole_name
from routebench.engine.results import Identity
from routebench.engine.suites._toml import Place, by_key, expect, expect_known, in_todays_words
from routebench.errors import UserError, nearest
from routebench.recipe import LEGAL, NOW, STORED_AS
from routebench.registry import models, routing
from routebench.routing import hyperparameters_of

MOST = 16
"""Dimensions of the Sobol sequence, always drawn: a configuration's points do not depend on what others set."""
OF_MODEL, OF_METHOD = "model.", "method."
"""Beginnings of the names of hyperparameters that are arguments of the network, and of those of the method."""
FIRST_SEED = 1_000
"""The first seed of trials; those of final runs count from 0, and those of each repeat from so many further on."""

Hyperparameter = Range | Among


def _is_hyperparameter(value: Any) -> bool:
    if isinstance(value, list):
        return True
    return isinstance(value, Mapping) and {*value} <= {"low", "high", "scale"} and {*value} >= {"low", "high"}


def hyperparameter(value: Any, place: Place) -> Hyperparameter:
    """A range or a list of values from a suite's file."""
    expect("{ low, high, scale } or a list of values", _is_hyperparameter)(value, place)
    try:
        return Among(tuple(value)) if isinstance(value, list) else Range(**value)
    except (ValueError, TypeError) as error:
        raise place.wrong(str(error)) from error


_RECIPE = {*LEGAL} - {"train_on"}  # trials leave out what they are scored by


def _recipe_hyperparameters(value: Any, place: Place) -> dict[str, Hyperparameter]:
    """Hyperparameters of the recipe, each of which a recipe has and takes."""
    table = expect_known(in_todays_words(value, place, NOW), place, {NOW.get(key, key) for key in _RECIPE})
    found = {}
    for key, one in table.items():
        setting = STORED_AS.get(key, key)
        read = hyperparameter(one, place.below(key))
        _expect_legal(read, LEGAL[setting], place.below(key))
        found[setting] = _in_one_form(read, LEGAL[setting], place.below(key))
    return found


def _expect_legal(one: Hyperparameter, legal: Legal, place: Place) -> None:
    for value in one.values if isinstance(one, Among) else (one.low, one.high):
        if told := legal.fault(value):
            raise place.wrong(told)


def _in_one_form(one: Hyperparameter, legal: Legal, place: Place) -> Hyperparameter:
    """The same, with names of registered functions as results have them: `focal[gamma=2]` is `focal` by default."""
    if not (isinstance(one, Among) and isinstance(legal.choices, Names)):
        return one
    return hyperparameter([legal.take(place.path, value) for value in one.values], place)


@dataclass(frozen=True)
class FairTuning:
    """The table `[tuning]` of a suite: one budget for every configuration, and one space.

    Args:
        trials: settings that are tried for every configuration, whatever it has to set.
        studies: the number of independent scrambles of a Sobol sequence that they are taken from, in equal parts.
        folds: number of folds of the training part.
        scored: the number of folds on which every setting is tried.
        finalists: the number of best trials of every configuration that are repeated before one is chosen.
        repeats: the number of further seeds of each.
        take: the most images that are used of a fold's data set.
        training: hyperparameters of the recipe, shared by all configurations.
        model: hyperparameters of the network, shared by all configurations whose network has them.
        methods: further hyperparameters by method. They cost no further trials. A method that is not named here has
            those that its class declares, in the annotations of its hyperparameters.
    """

    trials: Count
    studies: Count = 1
    folds: Annotated[int, Ge(2)] = 3
    scored: Count = 1
    finalists: Count = 1
    repeats: Count = 1
    take: Count | None = None
    training: Annotated[Mapping[str, Hyperparameter], _recipe_hyperparameters] = field(default_factory=dict)
    model: Annotated[Mapping[str, Hyperparameter], by_key(hyperparameter)] = field(default_factory=dict)
    methods: Annotated[Mapping[str, Mapping[str, Hyperparameter]], by_key(by_key(hyperparameter))] = field(
        default_factory=dict
    )

    @property
    def shared(self) -> dict[str, Hyperparameter]:
        """The hyperparameters of all configurations, by name."""
        return {**self.training, **{f"{OF_MODEL}{name}": one for name, one in self.model.items()}}

    def own(self, method: str) -> dict[str, Hyperparameter]:
        """The hyperparameters of a method's own, by name: the suite's, or those that its class declares."""
        known = self.methods.get(method)
        if known is None and method in routing:
            legal = legal_values(routing[method].__init__)
            known = {name: one.tuned for name, one in legal.items() if one.tuned is not None}
        return {f"{OF_METHOD}{name}": one for name, one in (known or {}).items()}

    def data(self, name: str, fold: int) -> str:
        """The data set on which a setting is tried, folds counted from 0."""
        return f"{FOLD}{fold + 1}/{self.folds}:{whole_name(name)}"

    def study(self, trial: int) -> int:
        """The study that a trial belongs to."""
        return trial // (self.trials // self.studies)

    def expect_whole(self, place: Place) -> None:
        """Raises UserError where numbers do not fit together."""
        if self.trials % self.studies:
            raise place.below("trials").wrong(
                f"expected a multiple of the {self.studies} studies, which have as many trials each, got {self.trials}"
            )
        if self.trials > FIRST_SEED:
            raise place.below("trials").wrong(f"expected at most {FIRST_SEED:,}, got {self.trials}")
        if self.finalists > self.trials:
            raise place.below("finalists").wrong(
                f"expected at most the number of trials, {self.trials}, got {self.finalists}"
            )
        if self.repeats > 1 and self.finalists == 1:
            raise place.below("repeats").wrong("expected finalists of 2 or more, among which repeats choose, got 1")
        if self.scored > self.folds:
            raise place.below("scored").wrong(f"expected at most the number of folds, {self.folds}, got {self.scored}")
        most = max(map(len, self.methods.values()), default=0)
        if len(self.shared) + most > MOST:
            raise place.wrong(
                f"expected at most {MOST} hyperparameters of one configuration, got {len(self.shared) + most}"
            )

    def expect_known(self, identities: Collection[Identity], place: Place) -> None:
        """Raises UserError for a hyperparameter that no configuration has, or that a method lacks or refuses."""
        for name, one in self.model.items():
            at, having = place.below("model").below(name), [it for it in identities if _has(it, f"{OF_MODEL}{name}")]
            if not having:
                raise at.wrong("no network of this preset has such an argument")
            for model in {identity.model: None for identity in having}:
                _expect_legal(one, legal_values(models[model])[name], at)
        for identity in identities:
            if not identity.routed:
                continue
            legal = legal_values(routing[identity.method].__init__)
            known = hyperparameters_of(identity.method)
            for full, one in self.own(identity.method).items():
                name = full.removeprefix(OF_METHOD)
                at = place.below("methods").below(identity.method).below(name)
                if name not in known:
                    raise at.wrong(f"method {identity.method!r} has no such hyperparameter{nearest(name, known)}")
                _expect_legal(one, legal[name], at)

    def point(self, identity: Identity, trial: int, fixed: Collection[str] = ()) -> dict[str, Any]:
        """The point that a configuration tries: the value of each of its hyperparameters, by name.

        The values of shared ones are the same for all configurations, and those of own ones for all numbers of
        iterations.

        Args:
            identity: identity of the configuration.
            trial: its number, from 0.
            fixed: names of hyperparameters that are not tuned, because the suite or the user sets them.

        Raises:
            UserError: the method has too many hyperparameters.
        """
        names = {**self.shared, **self.own(identity.method)}
        if len(names) > MOST:
            raise UserError(f"{identity.method}: expected at most {MOST} hyperparameters to be tuned, got {len(names)}")
        each = self.trials // self.studies
        shares = _sobol(self.study(trial), each)[trial % each]
        found = {name: one.at(float(share)) for (name, one), share in zip(names.items(), shares, strict=False)}
        return {name: value for name, value in found.items() if name not in fixed and _has(identity, name)}


def _has(identity: Identity, name: str) -> bool:
    """Tells whether a configuration has a hyperparameter: networks without capsules have no transformation matrices."""
    if not name.startswith(OF_MODEL):
        return True
    parameters = inspect.signature(models[identity.model]).parameters
    return name.removeprefix(OF_MODEL) in parameters


@cache
def _sobol(study: int, count: int) -> NDArray[np.float64]:
    """Points [count, MOST] in [0, 1). A number of trials that is no power of two takes the first of the next."""
    from scipy.stats import qmc

    power = int(np.ceil(np.log2(count)))
    points: NDArray[np.float64] = qmc.Sobol(MOST, scramble=True, rng=study).random_base2(power)[:count]
    return points


def settled(identity: Identity, point: Mapping[str, Any]) -> Identity:
    """The identity with the values of a point in their places.

    Args:
        identity: the identity.
        point: values by name, as a tuning table names them.
    """
    training, model_params = dict(identity.training), dict(identity.model_params)
    method_params = dict(identity.method_params)
    for name, value in point.items():
        if name.startswith(OF_MODEL):
            model_params[name.removeprefix(OF_MODEL)] = value
        elif name.startswith(OF_METHOD):
            method_params[name.removeprefix(OF_METHOD)] = value
        else:
            training[name] = value
    return replace(identity, training=training, model_params=model_params, method_params=method_params)


def values(identity: Identity, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The names of hyperparameters, each with its value in an identity."""
    held = {
        **identity.training,
        **{f"{OF_MODEL}{name}": value for name, value in identity.model_params.items()},
        **{f"{OF_METHOD}{name}": value for name, value in identity.method_params.items()},
    }
    yield from ((name, held[name]) for name in names if name in held)


def trials_of(tuning: FairTuning, identity: Identity, fixed: Collection[str]) -> Iterator[Identity]:
    """The trials of one configuration on one fold, in order; `fixed` as for `FairTuning.point`."""
    for trial in range(tuning.trials):
        point = tuning.point(identity, trial, fixed)
        options = {"study": tuning.study(trial), "trial": trial}
        yield replace(settled(identity, point), options=options, tuning={"point": point}, seed=FIRST_SEED + trial)
