"""Coupling that is normalised on both sides: over parents for each child, and over children for each parent."""

from jaxtyping import Float
from torch import Tensor

from routebench.ops.competition import Competition

FLOOR = 1e-20
"""Number added to a parent's mass before its logarithm, so that a parent which gets nothing stays finite."""


def sinkhorn(
    logits: Float[Tensor, "lane child parent"], competition: Competition, rounds: int
) -> Float[Tensor, "lane child parent"]:
    """Exponentials of the logits, scaled by child and by parent in turn: entropic optimal transport.

    Half a round scales children, so that the coupling of each sums to one over its competition axis: the ordinary
    softmax, which is what `rounds = 0` gives. Every further round scales parents to equal mass and then children again.
    Children come last, so that their sums are exact after any number of rounds; those of parents become equal as rounds
    go on. In a dense layer that mass is children / parents; by how much logits of a parent are raised is only known up
    to a constant of all parents, which the children's half divides out, so that it need not be said.

    Warning: equal mass is wrong where objects differ in size, or where one is absent. A parent of few parts then takes
    children that belong to others, and a parent that is not there takes as many as one that is.

    Source: Cuturi, NeurIPS 2013, algorithm 1, with the scalings as potentials beside the logits.

    Args:
        logits: agreement divided by the temperature.
        competition: how parents compete; any axis but `children`, over which the second half would change nothing.
        rounds: number of rounds after the first half.
    """
    coupling = competition.couple(logits)
    potential = logits.new_zeros(logits.shape[0], logits.shape[2])
    for _ in range(rounds):
        potential = potential - (coupling.sum(dim=1) + FLOOR).log()  # parents
        coupling = competition.couple(logits + potential[:, None])  # children
    return coupling
