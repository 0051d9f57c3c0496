"""Folds of the training part of a data set, so that settings are chosen without its test images."""

import numpy as np
import torch

from routebench.data._load import FOLD, load
from routebench.data.dataset import SPLIT_SEED, Dataset
from routebench.data.taking import whole_name
from routebench.errors import UserError
from routebench.registry import datasets


@datasets.register("fold:PATH")
def fold(path: str) -> Dataset:
    """One of several equal parts of another set's training images to test on, the others to train on: `fold:1/3:mnist`.

    None of that set's test images is in it. Every class gives its share to each part; a tenth of what is trained on is
    held out, as of other sets.

    Raises:
        UserError: the name is another, there is no such set, or its training images are made anew for every epoch.
    """
    part, colon, name = path.partition(":")
    number, slash, count = part.partition("/")
    fits = colon and slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) > 1
    if not fits or FOLD in name:
        raise UserError(f"{FOLD}{path}: expected {FOLD}NUMBER/COUNT:NAME, such as {FOLD}1/3:mnist")
    data = load(name)
    if data.compose is not None:
        raise UserError(
            f"{FOLD}{path}: expected a data set with fixed training images, got {name}, which makes new ones for every "
            "epoch"
        )
    kept, tested = _split(data.train.labels, data.held_out.labels, int(number), int(count))
    whole = data.train.joined(data.held_out)
    source = f"training images of these, fold {number} of {count} to test on: {data.source}"
    return Dataset.of(f"{FOLD}{path}", data.classes, whole.at(kept), whole.at(tested), source)


def _split(train: torch.Tensor, held_out: torch.Tensor, number: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The places of what is trained on, and of the fold, in the two parts one after the other."""
    from sklearn.model_selection import StratifiedKFold  # half a second, which others need not wait for

    labels = torch.cat([train, held_out]).numpy()
    groups = labels if labels.ndim == 1 else np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    folds = StratifiedKFold(count, shuffle=True, random_state=SPLIT_SEED).split(np.zeros(len(groups)), groups)
    kept, tested = list(folds)[number - 1]
    return torch.from_numpy(np.sort(kept)), torch.from_numpy(np.sort(tested))


def unfolded(name: str) -> str:
    """The data set that a name takes a fold of, or some images; the name itself where it takes all."""
    whole = whole_name(name)
    return whole.removeprefix(FOLD).partition(":")[2] if whole.startswith(FOLD) else whole
