"""A routing method of your own: a child follows the parents whose mean vote its own vote agrees with."""

from torch import Tensor

from routebench import routing
from routebench.capsules import Sizes, Votes
from routebench.ops import length, squash


@routing.register("mean-agreement")
class MeanAgreement(routing.RoutingMethod):
    """Couples by the dot product of a child's vote and the mean vote for the parent."""

    def __init__(self, sizes: Sizes, *, iterations: int = 3, sharpness: float = 1.0):
        super().__init__(sizes)
        self.iterations, self.sharpness = iterations, sharpness

    def route(self, votes: Votes, activations: Tensor) -> routing.Routed:
        mass, total, _ = votes.sweep()  # uniform coupling
        for _ in range(self.iterations - 1):
            mean = total / (mass[..., None] + 1e-9)  # a parent may get no child at all
            mass, total, _ = votes.sweep(self.sharpness * mean)
        parents = squash(total)
        return routing.Routed(parents, length(parents))
