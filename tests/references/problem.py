"""Random routing problems in double precision, for a method and for its transcription."""

from dataclasses import dataclass

import torch

from routebench.capsules import Competition, Sizes, Votes, Windows
from tests.references.votes import every_vote


@dataclass
class Problem:
    """Children (image, cell, pose), their activations (image, cell), and weights (child, parent, ...).

    In a dense problem every cell is a child. On a grid, each parent position sees the cells of its window.
    """

    children: torch.Tensor
    activations: torch.Tensor
    weight: torch.Tensor
    windows: Windows | None = None

    def __post_init__(self):
        for leaf in self.leaves():
            leaf.requires_grad_()

    def leaves(self):
        """What gradients are compared for."""
        return [self.children, self.activations, self.weight]

    @property
    def sizes(self):
        """Of the routing problem."""
        side = self.weight.shape[3]
        is_matrix = self.weight.shape[2] != self.children.shape[2]
        pose = side**2 if is_matrix else side
        return Sizes(*self.weight.shape[:2], pose, self.children.shape[2])

    def in_lanes(self):
        """Poses and activations as each lane sees them."""
        if self.windows is None:
            return self.children, self.activations
        index = self.windows.index
        return self.children[:, index].flatten(0, 1), self.activations[:, index].flatten(0, 1)

    def given_to(self, method):
        """The votes, as a layer would make them for this method, and the activations."""
        competition = Competition(method.competition, windows=self.windows, orphan=method.orphan)
        return Votes(self.children, self.weight, competition), self.in_lanes()[1]

    def written_out(self):
        """Every vote (lane, child, parent, pose), and the activations."""
        poses, activations = self.in_lanes()
        return every_vote(poses, self.weight), activations


def dense(images=2, children=5, parents=3, pose_in=4, pose=6):
    """Vector poses; every parent sees every child."""
    return Problem(
        torch.randn(images, children, pose_in, dtype=torch.float64),
        torch.rand(images, children, dtype=torch.float64),
        0.7 * torch.randn(children, parents, pose_in, pose, dtype=torch.float64),
    )


def dense_matrices(images=2, children=5, parents=3, side=3):
    """Matrix poses."""
    return Problem(
        torch.randn(images, children, side * side, dtype=torch.float64),
        torch.rand(images, children, dtype=torch.float64),
        0.7 * torch.randn(children, parents, side, side, dtype=torch.float64),
    )


def on_grid(images=2, height=4, width=5, kernel=3, stride=1, types=2, parents=3, pose_in=4, pose=4):
    """Vector poses on a grid."""
    return Problem(
        torch.randn(images, height * width * types, pose_in, dtype=torch.float64),
        torch.rand(images, height * width * types, dtype=torch.float64),
        0.7 * torch.randn(kernel * kernel * types, parents, pose_in, pose, dtype=torch.float64),
        Windows(height, width, kernel, stride, types),
    )


def disturb(module):
    """Moves every parameter away from where it starts, so that none can be left out unseen."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def routed_by(method, problem):
    """The parents of a problem."""
    return method(*problem.given_to(method))


def gradients(outputs, leaves):
    """Of a fixed random weighting of the outputs, so that each element counts; zero where nothing depends on a leaf."""
    draw = torch.Generator().manual_seed(1)
    total = sum((o * torch.randn(o.shape, generator=draw, dtype=o.dtype)).sum() for o in outputs if o is not None)
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def assert_close(found, expected, rtol=1e-9, atol=1e-11):
    """Two tensors, or lists of them, are equal up to rounding."""
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
