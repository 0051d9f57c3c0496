"""How far something is from what it should be, at one input."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """A difference, what of it is allowed, and where it was seen.

    Args:
        size: as a share of the largest value.
        allowed: of it.
        words: what was seen, with the number.
        at: the input.
    """

    size: float
    allowed: float
    words: str
    at: str

    @property
    def excess(self) -> float:
        """Size in units of what is allowed."""
        return self.size / self.allowed

    @property
    def wrong(self) -> bool:
        """Whether it is more than allowed."""
        return not self.size <= self.allowed
