"""Images drawn from a small generative capsule model each of whose parts belongs to one object, and who knows it."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from routebench.papers.smith.models.probabilistic import sprites
from routebench.papers.smith.models.probabilistic.encoders import ObjectEncoder, PartEncoder
from routebench.papers.smith.models.probabilistic.model import GenerativeCapsules, Scene
from routebench.papers.smith.models.probabilistic.part_whole import Layer, PartWhole, as_deviation
from routebench.papers.smith.models.probabilistic.sprites import Sprites

OBJECTS, PARTS, SIZE = 3, 6, (16, 16)
SURE = 12.0
"""Logit of a presence that is drawn on; minus that is off."""
OWNER = torch.arange(PARTS) // 2


def network(seed, *, posterior="delta", **whole):
    """Three objects with two parts each, at most; where the truth is known, each object is on in half of all images."""
    torch.manual_seed(seed)
    return GenerativeCapsules(
        Sprites(PARTS, 1, size=6),
        PartWhole(OBJECTS, PARTS, **whole),
        PartEncoder(1, PARTS, width=16),
        ObjectEncoder(
            OBJECTS, PARTS, width=32, heads=2, blocks=1, points=0, code=16, hidden=32, full=posterior != "delta"
        ),
        object_probability=0.5,
        object_deviation=0.2,
        posterior=posterior,
        delta_until=0.0,
    )


@torch.no_grad()
def tell(network):
    """Gives a network the true model: what a part looks like, whose it is, where it is in it, that it is there."""
    whole, own = network.part_whole, torch.nn.functional.one_hot(OWNER, OBJECTS).T.bool()
    middle = torch.tensor([[-1.3, -1.3], [1.3, -1.3], [0.0, 1.3]])  # of objects, in halves of a template
    place = middle[:, None] + torch.tensor([[-0.6, 0.0], [0.6, 0.0]])[torch.arange(PARTS) % 2]
    linear = 0.6 * torch.eye(2).expand(OBJECTS, PARTS, 2, 2)
    whole.raw_offsets.copy_(as_deviation(torch.cat([linear, place[..., None]], dim=-1)))
    whole.raw_affinity.copy_(torch.where(own, 10.0, -7.0))
    whole.raw_log_odds.copy_(torch.cat([torch.full((1, PARTS), -4.0), torch.where(own, 3.0, -4.0)]))
    whole.raw_deviation.fill_(-6.0)
    pattern = torch.rand(PARTS, 1, 3, 3, generator=torch.Generator().manual_seed(5)) < 0.6
    opaque = pattern.float().repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    network.sprites.raw_colours.fill_(3 / sprites.SPEED)
    network.sprites.raw_alphas.copy_((8 * opaque - 4) / sprites.SPEED)


@torch.no_grad()
def drawn(network, count, seed):
    """Scenes of a network that was told, each capsule on or off, and their images."""
    draws = torch.Generator().manual_seed(seed)
    there = torch.where(torch.rand(count, OBJECTS, generator=draws) < 0.5, SURE, -SURE)
    objects = Layer(there, network.object_deviation * torch.randn(count, OBJECTS, 6, generator=draws))
    poses = network.part_whole.sample(objects, draws).poses
    parts = Layer(there[:, OWNER], poses)
    return Scene(objects, parts), network.sprites.draw(parts, SIZE).clamp(0, 1)


def teach(network, scene, images, steps, seed):
    """Has the encoders say what is true: likely presences, and poses of what is there."""
    draws = torch.Generator().manual_seed(seed)
    encoders = [*network.part_encoder.parameters(), *network.object_encoder.parameters()]
    optimiser = torch.optim.Adam(encoders, lr=3e-3)
    for _ in range(steps):
        few = torch.randint(0, len(images), (32,), generator=draws)
        objects, parts = (Layer(layer.presences[few], layer.poses[few]) for layer in (scene.objects, scene.parts))
        seen = Layer(parts.presences.sign() * 4 + torch.randn(parts.presences.shape, generator=draws), parts.poses)
        loss = torch.zeros(())
        for said, true in ((network.part_encoder(images[few]), parts), (network.object_encoder(seen), objects)):
            there = (true.presences > 0).float()
            wrong = binary_cross_entropy_with_logits(said.log_odds, there, reduction="none")
            away = (said.poses - true.poses).square().sum(dim=-1)
            loss = loss + (wrong + 10 * there * away).sum(dim=1).mean()
        step(optimiser, loss)


def train(network, images, steps, seed):
    """By the bound."""
    draws = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(steps):
        few = torch.randint(0, len(images), (32,), generator=draws)
        step(optimiser, network.objective(images[few], draws))


def step(optimiser, loss):
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    optimiser.step()
