"""Routing methods with the mistakes of public code, one each, as a plug-in; the comment names where the mistake is.

    python -m routebench check broken-softmax-axis --plugin tests/conformance/broken_methods.py

Each one claims what its author believes. They are dynamic routing but for the mistake, unless it needs another method.
"""

import itertools
import random

import torch
from torch import nn

from routebench import routing
from routebench.claims import Claim
from routebench.ops import length, log_normaliser, squash
from routebench.routing import Routed, RoutingMethod

BELIEVED = (Claim.CHILD_ORDER, Claim.PARENT_ORDER, Claim.MASS_CONSERVATION)


class Broken(RoutingMethod):
    """Dynamic routing, in steps that a mistake can replace."""

    claims = BELIEVED

    def __init__(self, sizes, *, iterations: int = 3):
        super().__init__(sizes)
        self.iterations = iterations

    def route(self, votes, activations):
        dense = self.seen(votes)
        logits = self.start(dense)
        for _ in range(self.passes()):
            coupling = self.couple(logits)
            poses = squash(torch.einsum("bij,bijd->bjd", coupling, dense))
            logits = logits + self.agreement(dense, poses)
        return Routed(poses, length(poses), coupling=coupling)

    def seen(self, votes):
        return votes.dense()

    def start(self, dense):
        return torch.zeros_like(dense[..., 0])

    def passes(self):
        return self.iterations

    def couple(self, logits):
        return logits.softmax(dim=2)

    def agreement(self, dense, poses):
        return torch.einsum("bijd,bjd->bij", dense, poses)


@routing.register("broken-nothing")
class NothingBroken(Broken):
    """The control: without a mistake, it conforms."""


@routing.register("broken-softmax-axis")
class SoftmaxOverChildren(Broken):
    """1. The softmax of gram-ai's code and five others: over the children."""

    def couple(self, logits):
        return logits.softmax(dim=1)


@routing.register("broken-softmax-axis-unclaimed")
class SoftmaxOverChildrenUnclaimed(SoftmaxOverChildren):
    """The same by an author who claims nothing."""

    claims = ()


@routing.register("broken-batch")
class OneLogitForTheBatch(Broken):
    """2. Agreements are averaged over the batch, so that all images share their logits."""

    def agreement(self, dense, poses):
        return super().agreement(dense, poses).mean(dim=0, keepdim=True)


@routing.register("broken-detached")
class DetachedVotes(Broken):
    """3. Votes are detached in the last pass, too: nothing below can learn."""

    def seen(self, votes):
        return votes.dense().detach()


@routing.register("broken-iterations")
class ThreeIterations(Broken):
    """4. The flag for iterations is parsed and ignored, as in XifengGuo's code."""

    def passes(self):
        return 3


@routing.register("broken-variance")
class NoVarianceFloor(RoutingMethod):
    """5. EM without a floor under the variance: one child per parent, or short poses, and it is gone."""

    claims = BELIEVED
    gives_activations = False

    def __init__(self, sizes, *, iterations: int = 2):
        super().__init__(sizes)
        self.iterations = iterations

    def route(self, votes, activations):
        dense = votes.dense()
        logits = torch.zeros_like(dense[..., 0])
        for _ in range(self.iterations):
            coupling = logits.softmax(dim=2)
            share = (coupling / coupling.sum(dim=1, keepdim=True))[..., None]
            mean = (share * dense).sum(dim=1, keepdim=True)
            variance = (share * (dense - mean).square()).sum(dim=1, keepdim=True)
            logits = log_normaliser(variance) - 0.5 * ((dense - mean).square() / variance).sum(dim=-1)
        return Routed(mean[:, 0], coupling=coupling)


@routing.register("broken-squeeze")
class Squeezed(Broken):
    """6. squeeze() without an axis drops the batch of one, as in the code of variational Bayes routing."""

    def route(self, votes, activations):
        routed = super().route(votes, activations)
        return Routed(routed.poses[:, None].squeeze(), routed.activations[:, None].squeeze(), coupling=routed.coupling)


@routing.register("broken-state")
class RemembersLogits(Broken):
    """Logits stay on the object, so that a call starts where the last one ended."""

    before = None

    def start(self, dense):
        fresh = super().start(dense)
        return fresh if self.before is None else fresh + self.before

    def couple(self, logits):
        self.before = logits.detach().mean(dim=(0, 1))
        return super().couple(logits)


@routing.register("broken-activations")
class CancelledActivations(Broken):
    """Activations weight the coupling, which is then divided by its sum over parents (yl-1993): they cancel."""

    def route(self, votes, activations):
        dense = votes.dense()
        logits = self.start(dense)
        for _ in range(self.iterations):
            weighted = self.couple(logits) * activations[..., None]
            coupling = weighted / (weighted.sum(dim=2, keepdim=True) + 1e-8)
            poses = squash(torch.einsum("bij,bijd->bjd", coupling, dense))
            logits = logits + self.agreement(dense, poses)
        return Routed(poses, length(poses), coupling=coupling)


@routing.register("broken-child-number")
class FirstChildCounts(Broken):
    """A bias by a child's number, which a permutation of children shows."""

    def start(self, dense):
        return super().start(dense) + torch.linspace(0, 1, dense.shape[1]).to(dense)[:, None] * dense[..., 0].sign()


@routing.register("broken-child-weight")
class LearnedChildWeight(Broken):
    """A weight for each child, all of them one until something has been learned."""

    def __init__(self, sizes, *, iterations: int = 3):
        super().__init__(sizes, iterations=iterations)
        self.weight = nn.Parameter(torch.ones(sizes.children))

    def seen(self, votes):
        return votes.dense() * self.weight[:, None, None]


@routing.register("broken-parent-number")
class LearnedParentNumber(Broken):
    """A learned bias for each parent, which the parent at the other end gets."""

    def __init__(self, sizes, *, iterations: int = 3):
        super().__init__(sizes, iterations=iterations)
        self.bias = nn.Parameter(torch.zeros(sizes.parents))

    def couple(self, logits):
        return super().couple(logits + self.bias.flip(0))


@routing.register("broken-random")
class OtherRandomNumbers(Broken):
    """Starts from noise of Python's generator, which the seed of the run does not set."""

    def start(self, dense):
        return super().start(dense) + 0.1 * torch.tensor(
            [[random.random() for _ in range(dense.shape[2])] for _ in range(dense.shape[1])]
        ).to(dense)


@routing.register("broken-noise")
class NoiseInEvaluation(Broken):
    """Starts from noise of torch's generator, when it is tested as well."""

    def start(self, dense):
        return super().start(dense) + 0.1 * torch.randn(dense.shape[1:3]).to(dense)


@routing.register("broken-option")
class UnusedOption(Broken):
    """An option that is stored and not read."""

    def __init__(self, sizes, *, iterations: int = 3, sharpness: float = 1.0):
        super().__init__(sizes, iterations=iterations)
        self.sharpness = sharpness


@routing.register("broken-precision")
class AlwaysSingle(Broken):
    """Parents are cast to single precision."""

    def route(self, votes, activations):
        routed = super().route(votes, activations)
        return Routed(routed.poses.float(), routed.activations.float(), coupling=routed.coupling)


@routing.register("broken-call")
class Raises(Broken):
    """Raises an error of its own, on every shape."""

    def route(self, votes, activations):
        return next(itertools.islice([votes.shape], 1))


@routing.register("broken-overwrites")
class OverwritesPoses(Broken):
    """Scales the children's poses in place, without telling autograd."""

    def route(self, votes, activations):
        with torch.no_grad():
            votes.poses_below.mul_(0.5)
        return super().route(votes, activations)


@routing.register("broken-overwrites-activations")
class OverwritesActivations(Broken):
    """Clears the children's activations once it has read them."""

    def route(self, votes, activations):
        routed = super().route(votes, activations * 1)
        activations.data.zero_()
        return routed


@routing.register("broken-first-is")
class FirstIsAnother(Broken):
    """Says that one iteration is another method, which it is not: coupling begins uneven."""

    first_is = "uniform"

    def start(self, dense):
        return dense[..., 0]


@routing.register("broken-first-is-unknown")
class FirstIsUnknown(Broken):
    """Names a method that is not there."""

    first_is = "unifrom"
