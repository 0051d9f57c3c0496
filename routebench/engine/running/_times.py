"""Predicts how long a cell takes, from finished cells."""

from collections.abc import Iterable

from routebench.engine.results import Identity


class Times:
    """Seconds that finished cells took.

    Cells that differ only in the seed take about the same time. If none of those has finished, the mean of the next
    wider kind is used: any method on the same work, then any cell of the same protocol.
    """

    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self._taken)

    def add(self, identity: Identity, seconds: float) -> None:
        """Records a finished cell."""
        for kind in kinds(identity):
            self._taken.setdefault(kind, []).append(seconds)

    def expected(self, identity: Identity) -> float | None:
        """Expected seconds; None if nothing similar has finished."""
        for kind in kinds(identity):
            if taken := self._taken.get(kind):
                return sum(taken) / len(taken)
        return None

    def total(self, identities: Iterable[Identity]) -> float | None:
        """Seconds of several cells one after the other; None if one is unknown."""
        each = [self.expected(identity) for identity in identities]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known) if len(known) == len(each) else None


def kinds(identity: Identity) -> list[str]:
    """The kinds that a cell belongs to, the narrowest first. Tuned settings are assumed not to change the time."""
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
