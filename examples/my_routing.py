"""A routing method of your own: a child follows the parents whose direction its vote shares."""

from torch import Tensor
from torch.nn.functional import cosine_similarity

from routebench import routing
from routebench.capsules import Sizes, Votes
from routebench.ops import length, squash


@routing.register("cosine")
class CosineRouting(routing.RoutingMethod):
    """Couples by the angle between vote and parent, where `dynamic` also looks at their lengths."""

    def __init__(self, sizes: Sizes, *, iterations: int = 3, sharpness: float = 4.0):
        super().__init__(sizes)
        self.iterations, self.sharpness = iterations, sharpness

    def route(self, votes: Votes, activations: Tensor) -> routing.Routed:
        parents = squash(votes.sweep().first)  # first iteration: every parent gets the same share of a child
        for _ in range(self.iterations - 1):
            cosine = cosine_similarity(votes.dense(), parents[:, None], dim=-1)  # lane, child, parent
            parents = squash(votes.aggregate(votes.competition.couple(self.sharpness * cosine)))
        return routing.Routed(parents, length(parents))
