"""MESH, from the code of Zhang et al. 2023, with votes as keys and values; one lane at a time, scalings as factors."""

import torch

from tests.references.inverted_attention import layer_norm
from tests.references.slot_attention import _renewed

OPTIONS = [
    {"steps": 0},
    {"steps": 1},
    {"rate": 2.5},
    {"rounds": 1},
    {"rounds": 3, "steps": 2, "detach": False},
    {"noise": 0.1},
    {"detach": False},
    {"start": "learned"},
    {"start": "zeros", "steps": 0},
    {"hidden": 5},
]
SMOOTH = {"detach": False}, {"steps": 0}


def mesh(
    V,
    a,
    learned,
    *,
    x,
    iterations=3,
    steps=4,
    rate=8.0,
    rounds=5,
    noise=1e-3,
    detach=True,
    start="random",
    hidden=128,
    first=None,
    drawn=None,
):
    """Poses of the slots, from votes V (lane, child, parent, pose) and poses x of children.

    `first` and `drawn` are what a random start and the noise draw in training: (lane, parent, pose), (lane, child,
    parent).
    """
    found = []
    for lane, votes in enumerate(V):
        rows = [torch.zeros_like(vote) for vote in votes[0]]
        if start == "learned":
            rows = list(learned["slots"])
        if start == "random":
            rows = [learned["mean"] for _ in rows]
        if first is not None:
            rows = [row + torch.exp(learned["log_std"]) * number for row, number in zip(rows, first[lane], strict=True)]
        offers = torch.stack([masses(pose, "supply", learned) for pose in x[lane]]).exp()
        offers = len(rows) * offers / offers.sum()
        for _ in range(iterations):
            normal = [layer_norm(row, learned["norm.weight"], learned["norm.bias"]) for row in rows]
            demands = torch.stack([masses(row, "demand", learned) for row in normal]).exp()
            demands = len(rows) * demands / demands.sum()
            queries = [learned["project.weight"] @ row for row in normal]
            costs = torch.stack(
                [torch.stack([distance(*pair) for pair in zip(v, queries, strict=True)]) for v in votes]
            )
            if drawn is not None:
                costs = costs + noise * drawn[lane]
            P = of_low_entropy(costs, offers, demands, steps, rate, rounds, detach)
            won = [(P[:, j, None] * votes[:, j]).sum(dim=0) for j in range(len(rows))]
            rows = [_renewed(row, one, learned, "gru") for row, one in zip(rows, won, strict=True)]
        found.append(torch.stack(rows))
    return torch.stack(found), None


def masses(pose, name, learned):
    """A perceptron's number, whose exponential is a mass."""
    inner = (learned[f"{name}.0.weight"] @ pose + learned[f"{name}.0.bias"]).clamp(min=0)
    return (learned[f"{name}.2.weight"] @ inner)[0]


def distance(vote, query):
    """|V_ij - q_j|."""
    return ((vote - query) ** 2).sum().sqrt()


def of_low_entropy(C, offers, demands, steps, rate, rounds, detach):
    """The plan at costs that gradient steps on its entropy have changed; each goes on at the last scaling."""
    scaling = torch.ones_like(demands)
    for _ in range(steps):
        P, scaling = plan(C, offers, demands, scaling, rounds)
        (slope,) = torch.autograd.grad(entropy(P), C, retain_graph=True, create_graph=not detach)
        C = C - rate * slope / torch.linalg.vector_norm(slope).clamp(min=1e-12)
    return plan(C, offers, demands, scaling, rounds)[0]


def plan(C, offers, demands, scaling, rounds):
    """exp(-C), scaled in turn so that children give what they offer and parents get what they ask for."""
    K = torch.exp(-C)
    for _ in range(rounds):
        of_children = offers / (K * scaling).sum(dim=1)
        scaling = demands / (of_children[:, None] * K).sum(dim=0)
    return of_children[:, None] * K * scaling, scaling


def entropy(P):
    """The mean of -P log P."""
    inside = P.clamp(1e-20, 1)
    return -(inside * inside.log()).sum() / P.numel()
