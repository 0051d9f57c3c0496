"""Generative capsules so small that every number of them can be followed."""

import torch

from routebench.papers.smith.models.probabilistic.encoders import ObjectEncoder, PartEncoder
from routebench.papers.smith.models.probabilistic.model import GenerativeCapsules
from routebench.papers.smith.models.probabilistic.part_whole import PartWhole
from routebench.papers.smith.models.probabilistic.sprites import Sprites

OBJECTS, PARTS = 3, 4


def small(seed=0, *, images=2, posterior="delta", delta_until=0.5, sprites=None, whole=None, objects=None, **model):
    torch.manual_seed(seed)
    network = GenerativeCapsules(
        Sprites(PARTS, 1, size=5, **(sprites or {})),
        PartWhole(OBJECTS, PARTS, **(whole or {})),
        PartEncoder(1, PARTS, width=4, full=posterior == "full"),
        ObjectEncoder(
            OBJECTS,
            PARTS,
            width=8,
            heads=2,
            blocks=1,
            code=4,
            hidden=6,
            full=posterior != "delta",
            **(objects or {}),
        ),
        posterior=posterior,
        delta_until=delta_until,
        **model,
    ).double()
    for parameter in network.part_whole.parameters():  # away from where they start all alike
        parameter.data += 0.3 * torch.randn_like(parameter)
    return network, torch.rand(images, 1, 9, 8, dtype=torch.float64)
