"""Short real fits, shared by the tests of training and of its checkpoints."""

from dataclasses import asdict, replace

import torch
from torch.nn import functional

from routebench.data import Images, TrainingData, load
from routebench.models import build
from routebench.recipe import Recipe
from routebench.training import fit

CPU = torch.device("cpu")
SHORT = Recipe(epochs=3, batch_size=24)
RECIPES = {
    "adam": SHORT,
    "sgd": replace(SHORT, optimiser="sgd", learning_rate=0.5),
    "sgd without momentum": replace(SHORT, optimiser="sgd", learning_rate=0.5, momentum=0.0),
    "rmsprop": replace(SHORT, optimiser="rmsprop", learning_rate=1e-4),
    "held-out": replace(SHORT, selection="held-out"),
    "augmented and decaying": replace(SHORT, augmentation="shift2", schedule="exponential", decay=0.5, decay_steps=2),
    "sgd with milestones in bfloat16": replace(
        SHORT,
        optimiser="sgd",
        learning_rate=0.5,
        schedule="milestones",
        decay=0.1,
        milestones=(1, 2),
        precision="bfloat16",
    ),
    "spread": replace(SHORT, loss="spread"),
}


def sixty_digits():
    """60 digits to train with, three batches an incomplete one among them, and 20 held out; all classes, half size."""
    digits = load("mnist5k").for_training()
    train, held_out = digits.train.at(torch.arange(0, 3600, 60)), digits.held_out.at(torch.arange(0, 400, 20))
    return TrainingData(digits.name, digits.classes, halved(train), halved(held_out), "")


def halved(images):
    return Images(functional.avg_pool2d(images.pixels.float(), 2).to(torch.uint8), images.labels)


def network_of(method="dynamic", seed=0, model="capsnet-small", **params):
    torch.manual_seed(seed)
    return build(model, shape=(1, 14, 14), classes=10, method=method, method_params=params)


def with_decoder():
    torch.manual_seed(0)
    return build("capsnet-small", shape=(1, 14, 14), classes=10, method="dynamic", decoder=True)


def trained(data, recipe=SHORT, seed=0, network=None, **more):
    network = network_of(seed=seed) if network is None else network
    return network, fit(network, data, recipe, seed=seed, device=CPU, **more)


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def curves(epochs):
    """Without the wall-clock time, which nobody promises."""
    return [{**asdict(epoch), "seconds": 0} for epoch in epochs]
