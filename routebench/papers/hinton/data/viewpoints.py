"""Pictures of objects from known viewpoints, as data sets of all viewpoints or of a few familiar ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from routebench.data import Dataset, Images, fingerprint
from routebench.errors import UserError

CONDITIONS = ("instance", "azimuth", "elevation", "lighting")
FAMILIAR: Mapping[str, tuple[int, ...]] = {
    "azimuth": (300, 320, 340, 0, 20, 40),
    "elevation": (30, 35, 40),
}
"""Viewpoints that are trained on, in degrees. Source: Hinton, Sabour and Frosst, ICLR 2018, section 5.1."""


@dataclass(frozen=True)
class Views:
    """Pictures, and how each was taken.

    Args:
        images: pictures of objects of several classes.
        conditions: int64, (n,) each: `instance`, the number of the object in its class; `azimuth` and `elevation` of
            the camera in degrees; `lighting`, a number.
    """

    images: Images
    conditions: Mapping[str, Tensor]

    def where(self, chosen: Tensor) -> "Views":
        """The pictures for which `chosen`, bool (n,), is true."""
        places = chosen.nonzero()[:, 0]
        return Views(self.images.at(places), {name: values[places] for name, values in self.conditions.items()})

    def familiar(self, axis: str) -> Tensor:
        """Tells whether each picture's viewpoint is one that is trained on: bool, (n,)."""
        return torch.isin(self.conditions[axis], torch.tensor(FAMILIAR[axis]))


def dataset_of_views(
    name: str, classes: tuple[str, ...], parts: tuple[Views, Views, Views], *, source: str, axis: str | None
) -> Dataset:
    """A data set whose parts share no object.

    Args:
        name, classes, source: as in `Dataset`.
        parts: training, held-out and test part: pictures of different objects.
        axis: `azimuth` or `elevation`: training and held-out part have only the familiar viewpoints of it, and the
            test part's conditions say which pictures are `familiar`; None takes all viewpoints into all parts.
    """
    train, held_out, test = parts
    conditions = dict(test.conditions)
    if axis is not None:
        train, held_out = (views.where(views.familiar(axis)) for views in (train, held_out))
        conditions["familiar"] = test.familiar(axis)
    images = (train.images, held_out.images, test.images)
    objects = torch.cat(
        [views.conditions["instance"] * len(classes) + views.images.labels for views in (train, held_out)]
    )
    return Dataset(name, classes, *images, fingerprint(*images), source=source, conditions=conditions, objects=objects)


def hold_out_last_instance(train: Views) -> tuple[Views, Views]:
    """The pictures of all training objects but one per class, and those of the last instance of every class.

    A tenth of the pictures, as other data sets hold out, would have near copies in the training part, and say nothing
    about objects never seen, which is what the test part has. Whole objects do; of five this costs a fifth of the
    training part, and what is held out is a single object per class, so that its accuracy is a rough guide.

    Raises:
        UserError: there are no two training instances.
    """
    instances = torch.unique(train.conditions["instance"])
    if len(instances) < 2:
        raise UserError(f"expected at least two training instances per class to hold one out, got {len(instances)}")
    last = train.conditions["instance"] == instances.max()
    return train.where(~last), train.where(last)
