"""Predicts how long a run takes, from finished runs or from steps that were counted."""

from collections.abc import Iterable

from routebench.engine.results import Identity


class Times:
    """Seconds that finished runs took.

    Runs that differ in nothing but the seed take about the same time; where none of those has finished, the mean of the
    next wider kind stands in: the method with other settings, what is foretold, any method on the same work, then any
    run of the same protocol.
    """

    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}
        self._foretold: dict[str, list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self._taken)

    def add(self, identity: Identity, seconds: float) -> None:
        """Records a finished run."""
        for kind in kinds(identity):
            self._taken.setdefault(kind, []).append(seconds)

    def expected(self, identity: Identity) -> float | None:
        """Seconds; None where nothing like it has finished."""
        exact, method, work, protocol = kinds(identity)
        of = self._taken.get
        foretold = [self._foretold.get(kind) for kind in (exact, method, work)]
        taken = next(filter(None, (of(exact), of(method), *foretold, of(work), of(protocol))), None)
        return None if taken is None else sum(taken) / len(taken)

    def knows(self, identity: Identity) -> bool:
        """Tells whether the method has finished on the same work, or its time was foretold with these settings."""
        exact, method, *_ = kinds(identity)
        return bool(self._taken.get(method) or self._foretold.get(exact))

    def foretell(self, identity: Identity, seconds: float) -> None:
        """Takes note of what a run is reckoned to take."""
        for kind in kinds(identity)[:3]:
            self._foretold.setdefault(kind, []).append(seconds)

    @property
    def is_foretold(self) -> bool:
        """Tells whether something was foretold."""
        return bool(self._foretold)

    def total(self, identities: Iterable[Identity], jobs: int = 1) -> float | None:
        """Seconds of several runs, so many at a time, and no less than the longest takes; None if one is unknown."""
        each = [self.expected(identity) for identity in identities]
        known = [seconds for seconds in each if seconds is not None]
        return max(sum(known) / jobs, *known, 0.0) if len(known) == len(each) else None


def kinds(identity: Identity) -> list[str]:
    """The kinds that a run belongs to, the narrowest first. Tuned settings are assumed not to change the time."""
    tuned = (identity.tuning or {}).get("point", {})
    training = {name: value for name, value in identity.training.items() if name not in tuned}
    params = {name: value for name, value in identity.method_params.items() if f"method.{name}" not in tuned}
    options = {} if identity.is_trial else identity.options
    work = f"{identity.protocol} {identity.model} {identity.data} {training} {options}"
    return [
        f"{work} {identity.method} {params} {identity.iterations}",
        f"{work} {identity.method}",
        work,
        identity.protocol,
    ]
