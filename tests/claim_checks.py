"""How each claim of a routing method is measured: on random votes, in double precision.

A measurement raises AssertionError where the claim does not hold. Every parameter of the method is first moved by the
same amount, so that a claim does not hold only where nothing has been learned yet.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from routebench.capsules import Competition, Sizes, Votes, Windows
from routebench.claims import Claim
from routebench.routing import Routed, RoutingMethod

SIZES = Sizes(children=6, parents=4, pose=5)
GRID = Windows(height=4, width=5, kernel=3, stride=1, types=2)
GRID_SIZES = Sizes(children=18, parents=4, pose=5)
IMAGES = 3

Make = Callable[[Sizes], RoutingMethod]
"""Makes a fresh method for a routing problem."""


@dataclass(frozen=True)
class Scene:
    """What a method is given: poses (image, cell, 3), activations (lane, child), weights, and an offset of votes."""

    poses: Tensor
    activations: Tensor
    weight: Tensor
    offset: Tensor | None = None
    windows: Windows | None = None

    def given_to(self, method: RoutingMethod) -> tuple[Votes, Tensor]:
        """The votes, as a layer would make them for this method, and the activations."""
        competition = Competition(method.competition, windows=self.windows, orphan=method.orphan)
        return Votes(self.poses, self.weight, competition, offset=self.offset), self.activations


def dense_scene() -> Scene:
    """Every parent sees every child."""
    return Scene(
        poses=torch.randn(IMAGES, SIZES.children, 3, dtype=torch.float64),
        activations=0.1 + 0.9 * torch.rand(IMAGES, SIZES.children, dtype=torch.float64),
        weight=torch.randn(SIZES.children, SIZES.parents, 3, SIZES.pose, dtype=torch.float64),
    )


def grid_scene() -> Scene:
    """Each parent position sees the children of its window."""
    poses = torch.randn(IMAGES, GRID.cells, 3, dtype=torch.float64)
    activations = 0.1 + 0.9 * torch.rand(IMAGES, GRID.cells, dtype=torch.float64)
    weight = torch.randn(GRID_SIZES.children, GRID_SIZES.parents, 3, GRID_SIZES.pose, dtype=torch.float64)
    return Scene(poses, activations[:, GRID.index].flatten(0, 1), weight, windows=GRID)


@torch.no_grad()
def prepared(make: Make, sizes: Sizes = SIZES) -> RoutingMethod:
    """A method in double precision, its parameters moved."""
    method = make(sizes).double().eval()
    for parameter in method.parameters():
        parameter.add_(0.3)
    return method


def run(method: RoutingMethod, scene: Scene) -> Routed:
    """The parents of a scene."""
    with torch.no_grad():
        return method(*scene.given_to(method))


def coupling_of(method: RoutingMethod, scene: Scene) -> list[Tensor]:
    """Every coupling (lane, child, parent) that the method used: those of its sweeps, and the one that it returns."""
    votes, activations = scene.given_to(method)
    seen: list[Tensor] = []
    votes.watch = seen.append
    with torch.no_grad():
        routed = method(votes, activations)
    found = seen if routed.coupling is None else [*seen, routed.coupling]
    assert found, "no coupling to look at: use votes.sweep or votes.aggregate, or return Routed(coupling=...)"
    return found


def expect_equal(found: Tensor | None, expected: Tensor | None, what: str) -> None:
    """Equal up to rounding."""
    if found is None or expected is None:
        assert found is expected, f"{what} are there only sometimes"
        return
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7, msg=lambda text: f"{what} differ: {text}")


def expect_same_parents(found: Routed, poses: Tensor, activations: Tensor | None) -> None:
    """Poses and activations are the expected ones."""
    expect_equal(found.poses, poses, "poses")
    expect_equal(found.activations, activations, "activations")


def child_order(make: Make) -> None:
    """Children in another order."""
    method, scene = prepared(make), dense_scene()
    order = torch.tensor([2, 0, 3, 1, 5, 4])
    shuffled = Scene(scene.poses[:, order], scene.activations[:, order], scene.weight[order])
    before = run(method, scene)
    expect_same_parents(run(method, shuffled), before.poses, before.activations)


def parent_order(make: Make) -> None:
    """Parents in another order."""
    method, scene = prepared(make), dense_scene()
    order = torch.tensor([2, 0, 3, 1])
    before = run(method, scene)
    activations = None if before.activations is None else before.activations[:, order]
    expect_same_parents(run(method, replace(scene, weight=scene.weight[:, order])), before.poses[:, order], activations)


def batch_independence(make: Make) -> None:
    """Each image alone, and all of them together; on a grid, an image is several lanes."""
    for scene, sizes in ((dense_scene(), SIZES), (grid_scene(), GRID_SIZES)):
        method = prepared(make, sizes)
        together = run(method, scene)
        lanes = 1 if scene.windows is None else scene.windows.positions
        for image in range(IMAGES):
            own = slice(image * lanes, (image + 1) * lanes)
            one = slice(image, image + 1)
            alone = run(method, replace(scene, poses=scene.poses[one], activations=scene.activations[own]))
            activations = None if together.activations is None else together.activations[own]
            expect_same_parents(alone, together.poses[own], activations)


def mass_conservation(make: Make) -> None:
    """What each child hands out over the method's competition axis, densely and on a grid."""
    method = prepared(make)
    for coupling in coupling_of(method, dense_scene()):
        total = coupling.sum(dim=1) if method.competition == "children" else coupling.sum(dim=2)
        expect_equal(total, torch.ones_like(total), "coupling and a distribution")
    method = prepared(make, GRID_SIZES)
    for coupling in coupling_of(method, grid_scene()):
        total = _handed_out_on_grid(coupling, method.competition)
        expect_equal(total, torch.ones_like(total), "coupling on a grid and a distribution")


def _handed_out_on_grid(coupling: Tensor, axis: str) -> Tensor:
    """Sums of coupling over the axis of competition, each of which ought to be one."""
    if axis in ("types", "children"):
        return coupling.sum(dim=2 if axis == "types" else 1)
    by_cell = coupling.new_zeros(IMAGES, GRID.cells, coupling.shape[2])
    for lane in range(coupling.shape[0]):
        image, position = divmod(lane, GRID.positions)
        for number, cell in enumerate(GRID.index[position].tolist()):
            by_cell[image, cell] += coupling[lane, number]
    return by_cell.sum(dim=2) if axis == "types+positions" else by_cell


def pose_rotation(make: Make) -> None:
    """All votes turned by one random rotation."""
    turn, triangle = torch.linalg.qr(torch.randn(SIZES.pose, SIZES.pose, dtype=torch.float64))
    turn = turn * triangle.diagonal().sign()
    turn[:, 0] *= torch.linalg.det(turn).sign()
    _turned(make, turn)


def pose_signed_permutation(make: Make) -> None:
    """Elements of all votes exchanged, some with their signs changed."""
    exchange = torch.zeros(SIZES.pose, SIZES.pose, dtype=torch.float64)
    exchange[torch.arange(5), torch.tensor([3, 0, 4, 1, 2])] = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0]).double()
    _turned(make, exchange)


def _turned(make: Make, matrix: Tensor) -> None:
    method, scene = prepared(make), dense_scene()
    before = run(method, scene)
    after = run(method, replace(scene, weight=scene.weight @ matrix))
    expect_same_parents(after, before.poses @ matrix, before.activations)


def pose_translation(make: Make) -> None:
    """All votes moved by one vector."""
    method, scene = prepared(make), dense_scene()
    move = torch.randn(SIZES.pose, dtype=torch.float64)
    before = run(method, scene)
    after = run(method, replace(scene, offset=move.repeat(SIZES.children, 1)))
    expect_same_parents(after, before.poses + move, before.activations)


def uniform_first(make: Make) -> None:
    """The coupling of one iteration; a method without iterations is one."""
    method = prepared(make)
    if hasattr(method, "iterations"):
        method.iterations = 1
    for coupling in coupling_of(method, dense_scene()):
        expect_equal(coupling, torch.full_like(coupling, 1 / SIZES.parents), "coupling and an equal share")


CHECKS: dict[Claim, Callable[[Make], None]] = {
    Claim.CHILD_ORDER: child_order,
    Claim.PARENT_ORDER: parent_order,
    Claim.BATCH_INDEPENDENCE: batch_independence,
    Claim.MASS_CONSERVATION: mass_conservation,
    Claim.POSE_ROTATION: pose_rotation,
    Claim.POSE_TRANSLATION: pose_translation,
    Claim.POSE_SIGNED_PERMUTATION: pose_signed_permutation,
    Claim.UNIFORM_FIRST: uniform_first,
}


def check(make: Make, claim: Claim) -> None:
    """Raises AssertionError if the method does not have the property."""
    CHECKS[claim](make)
