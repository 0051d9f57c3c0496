"""The claims that a routing method may make. `routebench check` measures them; `tests/test_claims.py` does for ours."""

from enum import Enum


class Claim(Enum):
    """A property of a routing method. The value is its name for people."""

    CHILD_ORDER = "the order of children does not matter"
    PARENT_ORDER = "parents in another order come out in that order, otherwise unchanged"
    BATCH_INDEPENDENCE = "images in a batch do not influence each other"
    MASS_CONSERVATION = "coupling sums to one over the competition axis"
    POSE_ROTATION = "turning all votes by one rotation turns the parents by it"
    POSE_TRANSLATION = "moving all votes by one vector moves the parents by it"
    POSE_SIGNED_PERMUTATION = "exchanging pose elements, or their signs, does the same to the parents"
    PADDING = "children that are not there change nothing"
    UNIFORM_FIRST = "one iteration gives uniform coupling"
