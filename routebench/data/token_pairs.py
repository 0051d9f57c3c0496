"""Sequences of tokens with a known answer: the class whose two tokens agree."""

import numpy as np
import torch

from routebench.data.dataset import Dataset, facts, fingerprint
from routebench.data.tokens import Tokens
from routebench.errors import UserError
from routebench.registry import datasets

CLASSES, ELEMENTS = 10, 8
MOST = 2 * 8
"""Tokens of the longest item."""
SHORT, LONG = (3, 5), (6, 8)
"""The fewest and the most pairs of an item, in training and of the longer test part."""
NOISE = 0.3
"""Standard deviation of what is added to each element, of unit vectors times the root of their elements."""
TRAIN, HELD_OUT, TEST = 3_600, 400, 1_000
"""Items of each part."""
EXPECTED = {"token-pairs": "33b1b5b0d3c016d4", "token-pairs-longer": "7eff0dec1f520898"}


@datasets.register("token-pairs")
@facts(train=TRAIN, held_out=HELD_OUT, test=TEST, shape=(MOST, CLASSES * ELEMENTS), classes=CLASSES)
def token_pairs() -> Dataset[Tokens]:
    """Three to five pairs of tokens in random order. The two of one pair agree, and its class is the answer.

    A token is a vector of 8 in the block of its class, of 10 blocks, with noise. The two tokens of every other class
    are independent, so that numbers of tokens tell nothing beyond which classes are there: that alone gives 26 %. Items
    are padded to 16 tokens, with a mask.
    """
    return _drawn("token-pairs", SHORT)


@datasets.register("token-pairs-longer")
@facts(train=TRAIN, held_out=HELD_OUT, test=TEST, shape=(MOST, CLASSES * ELEMENTS), classes=CLASSES)
def token_pairs_longer() -> Dataset[Tokens]:
    """`token-pairs`, tested on items of six to eight pairs, longer than any that were trained on (15 % by chance)."""
    return _drawn("token-pairs-longer", LONG)


def _drawn(name: str, tested: tuple[int, int]) -> Dataset[Tokens]:
    train, held_out, test = map(_part, range(3), (TRAIN, HELD_OUT, TEST), (SHORT, SHORT, tested))
    found = fingerprint(train, held_out, test)
    if found != EXPECTED[name]:
        raise UserError(f"{name}: expected the fingerprint {EXPECTED[name]}, got {found}; please report it")
    classes = tuple(str(number) for number in range(CLASSES))
    return Dataset(name, classes, train, held_out, test, found, "drawn, the same everywhere")


def _part(seed: int, count: int, pairs: tuple[int, int]) -> Tokens:
    random = np.random.RandomState(seed)  # its stream never changes (NEP 19)
    values = np.zeros((count, MOST, CLASSES, ELEMENTS), np.float32)
    mask, labels = np.zeros((count, MOST), bool), np.zeros(count, np.int64)
    for item in range(count):
        chosen = random.permutation(CLASSES)[: random.randint(pairs[0], pairs[1] + 1)]
        labels[item] = chosen[0]
        vectors = random.randn(len(chosen), 2, ELEMENTS)
        vectors[0, 1] = vectors[0, 0]
        vectors /= np.sqrt((vectors**2).mean(axis=2, keepdims=True))
        vectors += NOISE * random.randn(*vectors.shape)
        order = random.permutation(2 * len(chosen))
        values[item, order, np.repeat(chosen, 2)] = vectors.reshape(-1, ELEMENTS)
        mask[item, : 2 * len(chosen)] = True
    rounded = np.round(values * 64) / 64  # exact in 16 bits, so that no library's last bit changes the fingerprint
    tokens = torch.from_numpy(rounded.reshape(count, MOST, -1)).to(torch.float16)
    return Tokens(tokens, torch.from_numpy(labels), torch.from_numpy(mask))
