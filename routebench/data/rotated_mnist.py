"""MNIST with upright digits to train with, and turned ones to test with."""

import numpy as np
import torch

from routebench.data._load import load
from routebench.data.dataset import Dataset, Images, facts
from routebench.data.pinning import pinned
from routebench.data.warp import warp
from routebench.registry import datasets

SEED = 0
FINGERPRINTS = {"rotated-mnist": "4bae25e24a11af32", "rotated-mnist5k": "5fe615a2d9fe5c8f"}


@datasets.register("rotated-mnist")
@facts(train=54_000, held_out=6_000, test=10_000, shape=(1, 28, 28), classes=10)
def rotated_mnist() -> Dataset:
    """`mnist`, whose test digits are each turned by an angle of their own, uniform in [-180, 180] degrees.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", table 1, last rotation: the paper leaves open
    whether 180 degrees are the angle or the largest angle; the text of its section 5.2 says the latter. This is not
    the "rotated MNIST" of Larochelle et al. 2007, whose training digits are turned too.

    Raises:
        UserError: MNIST's files are missing.
    """
    return _rotated("rotated-mnist", load("mnist"))


@datasets.register("rotated-mnist5k")
@facts(train=3600, held_out=400, test=1000, shape=(1, 28, 28), classes=10)
def rotated_mnist5k() -> Dataset:
    """`mnist5k`, whose test digits are each turned by an angle of their own, uniform in [-180, 180] degrees."""
    return _rotated("rotated-mnist5k", load("mnist5k"))


def _rotated(name: str, upright: Dataset) -> Dataset:
    angles = np.random.RandomState(SEED).uniform(-np.pi, np.pi, len(upright.test))  # its stream never changes (NEP 19)
    cosine, sine, zero = np.cos(angles), np.sin(angles), np.zeros_like(angles)
    maps = np.stack([np.stack([cosine, -sine, zero], axis=1), np.stack([sine, cosine, zero], axis=1)], axis=1)
    turned = warp(upright.test.pixels[:, 0].numpy(), maps, upright.test.shape[1])
    test = Images(torch.from_numpy(turned[:, None]), upright.test.labels)
    source = f"{upright.source}; test digits turned by up to 180 degrees"
    return pinned(name, upright, (upright.train, upright.held_out, test), source, FINGERPRINTS[name])
