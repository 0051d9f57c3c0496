"""Digits to train with, and two kinds to test with: such digits, and the same test digits changed as none of them."""

import numpy as np
import torch

from routebench.data import CANVAS, VARIANTS, Dataset, Images, facts, fingerprint, load, place
from routebench.registry import datasets

SEED = 2  # of the places of test digits; 0 and 1 are those of `affnist-synthetic`


@datasets.register("affine-digits", version=1)
@facts(train=54_000, held_out=6_000, test=10_000 * (1 + VARIANTS), shape=(1, CANVAS, CANVAS), classes=10)
def affine_digits() -> Dataset:
    """`affnist-synthetic`, whose test part has each digit as training digits are, placed at random, as well.

    The task of Sabour, Frosst and Hinton 2017, section 5.2: generalise from moved to affinely transformed digits, at
    equal accuracy on moved ones. Condition `familiar` says which test digits are only moved.

    Raises:
        UserError: MNIST's files are missing.
    """
    return _affine("affine-digits", load("affnist-synthetic"), load("mnist"))


@datasets.register("affine-digits5k", version=1)
@facts(train=3600, held_out=400, test=1000 * (1 + VARIANTS), shape=(1, CANVAS, CANVAS), classes=10)
def affine_digits5k() -> Dataset:
    """`mnist5k` in the manner of `affine-digits`."""
    return _affine("affine-digits5k", load("affnist5k-synthetic"), load("mnist5k"))


@datasets.register("turned-digits", version=1)
@facts(train=54_000, held_out=6_000, test=20_000, shape=(1, 28, 28), classes=10)
def turned_digits() -> Dataset:
    """`rotated-mnist`, whose test part has each digit upright as well; condition `familiar` says which are upright.

    Raises:
        UserError: MNIST's files are missing.
    """
    return _tested_on_both("turned-digits", load("mnist").test, load("rotated-mnist"))


@datasets.register("turned-digits5k", version=1)
@facts(train=3600, held_out=400, test=2000, shape=(1, 28, 28), classes=10)
def turned_digits5k() -> Dataset:
    """`mnist5k` in the manner of `turned-digits`."""
    return _tested_on_both("turned-digits5k", load("mnist5k").test, load("rotated-mnist5k"))


def _affine(name: str, changed: Dataset, base: Dataset) -> Dataset:
    random = np.random.RandomState(SEED)  # its stream never changes (NEP 19)
    return _tested_on_both(name, place(base.test, random), changed)


def _tested_on_both(name: str, familiar: Images, changed: Dataset) -> Dataset:
    """The data set `changed`, tested on images like those that it trains with as well; these come first."""
    test = familiar.joined(changed.test)
    parts = (changed.train, changed.held_out, test)
    source = f"{changed.source}; tested on unchanged digits as well"
    is_familiar = torch.arange(len(test)) < len(familiar)
    return Dataset(
        name, changed.classes, *parts, fingerprint=fingerprint(*parts), source=source,
        conditions={"familiar": is_familiar},
    )  # fmt: skip
