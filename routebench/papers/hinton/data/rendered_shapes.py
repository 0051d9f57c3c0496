"""Rendered toys from known viewpoints: what smallNORB is for, where its files are not at hand. It is no smallNORB.

Like there: five classes, five instances of each for training and five others for the test; 18 azimuths, 9 elevations
and 6 lightings. Unlike there: five further instances to hold out; computed toys, one grey image per view and no stereo
pair, a black background, no shadows.
"""

import contextlib
import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from routebench.atomic import StoreFull, write_bytes
from routebench.cache import keep_bytes, kept_bytes
from routebench.data import Dataset, Images, data_root, facts
from routebench.registry import datasets

from .rendering import LIGHTINGS, Camera, render
from .shapes import TOYS, toy
from .viewpoints import CONDITIONS, Views, dataset_of_views

AZIMUTHS = tuple(range(0, 360, 20))
ELEVATIONS = tuple(range(30, 75, 5))
PARTS = ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (10, 11, 12, 13, 14))
"""Instances of every class for training, held out, and for the test."""
INSTANCES = sum(PARTS, ())
GENERATOR = tuple(
    Path(__file__).with_name(f"{part}.py") for part in ("solids", "shapes", "rendering", "rendered_shapes")
)


@dataclass(frozen=True)
class Series:
    """A size in which the toys are rendered.

    Args:
        name: name of the data set that has all viewpoints.
        side: width of an image, in pixels.
        all_lightings: six images per view; else one, and lightings take turns.
        digest: digest of the pixels, as `digest_of` has it; pinned.
    """

    name: str
    side: int
    all_lightings: bool
    digest: str

    def lightings(self, instance: int, azimuth: int, elevation: int) -> tuple[int, ...]:
        """The numbers of the lightings in which a view is rendered.

        Args:
            instance: number of the toy in its class.
            azimuth, elevation: direction of the view in degrees, from `AZIMUTHS` and `ELEVATIONS`.
        """
        if self.all_lightings:
            return tuple(range(len(LIGHTINGS)))
        turn = instance + AZIMUTHS.index(azimuth) + ELEVATIONS.index(elevation)
        return (turn % len(LIGHTINGS),)


WHOLE = Series("rendered-shapes", 48, all_lightings=True, digest="202424b30f05e101")
SMALL = Series("rendered-shapes-small", 32, all_lightings=False, digest="dd255683d0ca15a6")


@datasets.register("rendered-shapes", version=1)
@facts(train=24_300, held_out=24_300, test=24_300, shape=(1, 48, 48), classes=5, views=972)
def rendered_shapes() -> Dataset:
    """Rendered toys of five classes, grey, 48x48: 75 objects, 162 views, 6 lightings; no object is in two parts."""
    return _dataset(WHOLE, None)


@datasets.register("rendered-shapes-azimuth", version=1)
@facts(train=8_100, held_out=8_100, test=24_300, shape=(1, 48, 48), classes=5, views=972)
def rendered_shapes_azimuth() -> Dataset:
    """`rendered-shapes`, trained on 6 of 18 azimuths (300 to 40 degrees), tested on all."""
    return _dataset(WHOLE, "azimuth")


@datasets.register("rendered-shapes-elevation", version=1)
@facts(train=8_100, held_out=8_100, test=24_300, shape=(1, 48, 48), classes=5, views=972)
def rendered_shapes_elevation() -> Dataset:
    """`rendered-shapes`, trained on 3 of 9 elevations (30 to 40 degrees), tested on all."""
    return _dataset(WHOLE, "elevation")


@datasets.register("rendered-shapes-small", version=1)
@facts(train=4_050, held_out=4_050, test=4_050, shape=(1, 32, 32), classes=5, views=162)
def rendered_shapes_small() -> Dataset:
    """The toys of `rendered-shapes` at 32x32, from the same viewpoints, each in one of the 6 lightings."""
    return _dataset(SMALL, None)


@datasets.register("rendered-shapes-small-azimuth", version=1)
@facts(train=1_350, held_out=1_350, test=4_050, shape=(1, 32, 32), classes=5, views=162)
def rendered_shapes_small_azimuth() -> Dataset:
    """`rendered-shapes-small`, trained on 6 of 18 azimuths (300 to 40 degrees), tested on all."""
    return _dataset(SMALL, "azimuth")


@datasets.register("rendered-shapes-small-elevation", version=1)
@facts(train=1_350, held_out=1_350, test=4_050, shape=(1, 32, 32), classes=5, views=162)
def rendered_shapes_small_elevation() -> Dataset:
    """`rendered-shapes-small`, trained on 3 of 9 elevations (30 to 40 degrees), tested on all."""
    return _dataset(SMALL, "elevation")


def views_of(series: Series, pixels: NDArray[np.uint8]) -> Views:
    """The images of a series with their labels and conditions, in the order in which `rendered` makes them.

    Args:
        series: the series that was rendered.
        pixels: its images, (n, side, side), as `rendered` returns them.
    """
    rows = [
        (label, instance, azimuth, elevation, lighting)
        for label, _, instance, azimuth, elevation in _grid()
        for lighting in series.lightings(instance, azimuth, elevation)
    ]
    labels, *conditions = torch.tensor(rows, dtype=torch.int64).unbind(dim=1)
    images = Images(torch.from_numpy(pixels[:, None]), labels.contiguous())
    return Views(images, dict(zip(CONDITIONS, (values.contiguous() for values in conditions), strict=True)))


def rendered(series: Series) -> NDArray[np.uint8]:
    """Every image of a series, (n, side, side): the same on every machine, see `solids`."""
    toys = {(kind, instance): toy(kind, instance) for kind in TOYS for instance in INSTANCES}
    views = [
        render(
            toys[kind, instance],
            Camera(azimuth, elevation),
            series.side,
            series.lightings(instance, azimuth, elevation),
        )
        for _, kind, instance, azimuth, elevation in _grid()
    ]
    return np.concatenate(views)


def digest_of(pixels: NDArray[np.uint8]) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of the pixels."""
    return hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()[:16]


def _grid() -> Iterator[tuple[int, str, int, int, int]]:
    """Label, class, instance, azimuth and elevation of every view."""
    for label, kind in enumerate(TOYS):
        for instance in INSTANCES:
            for elevation in ELEVATIONS:
                for azimuth in AZIMUTHS:
                    yield label, kind, instance, azimuth, elevation


def _dataset(series: Series, axis: str | None) -> Dataset:
    views = views_of(series, _pixels(series))
    train, held_out, test = (
        views.where(torch.isin(views.conditions["instance"], torch.tensor(part))) for part in PARTS
    )
    name = series.name if axis is None else f"{series.name}-{axis}"
    source = "rendered by routebench from shapes of its own"
    return dataset_of_views(name, tuple(TOYS), (train, held_out, test), source=source, axis=axis)


def _pixels(series: Series) -> NDArray[np.uint8]:
    """Pixels from the folder of data sets, or rendered and put there; else as `_without_writing` has them."""
    folder = data_root() / "rendered-shapes"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{series.name}.lock"):
            found = _kept(series, folder)
            if found is None:
                found = rendered(series)
                file = folder / f"{series.name}-{_generator_hash()}-{digest_of(found)}.raw"
                write_bytes(file, np.ascontiguousarray(found).tobytes())
    except (OSError, StoreFull):
        found = _without_writing(series, folder)
    if digest_of(found) != series.digest:
        warnings.warn(
            f"{series.name}: this machine renders other pixels ({digest_of(found)}) than those of published results "
            f"({series.digest}): compare results of this machine with its own only",
            stacklevel=3,
        )
    return found


def _without_writing(series: Series, folder: Path) -> NDArray[np.uint8]:
    """Pixels from a folder that cannot be written, else from the cache folder, or rendered and put there."""
    with contextlib.suppress(OSError):
        if (found := _kept(series, folder)) is not None:
            return found
    name = f"{series.name}-{_generator_hash()}.raw"
    kept = kept_bytes("rendered-shapes", name)
    if kept is not None:
        return np.frombuffer(bytearray(kept), np.uint8).reshape(-1, series.side, series.side)
    made = rendered(series)
    keep_bytes("rendered-shapes", name, made.tobytes())
    return made


def _kept(series: Series, folder: Path) -> NDArray[np.uint8] | None:
    """Pixels that this generator rendered before; None where there are none, or not as they were written."""
    for file in folder.glob(f"{series.name}-{_generator_hash()}-*.raw"):
        pixels = np.frombuffer(file.read_bytes(), np.uint8)
        if digest_of(pixels) == file.stem.rpartition("-")[2]:
            return pixels.reshape(-1, series.side, series.side).copy()
    return None


def _generator_hash() -> str:
    """Eight hexadecimal digits of the code that renders: another code never serves old pixels."""
    return hashlib.sha256(b"\n".join(file.read_bytes() for file in GENERATOR)).hexdigest()[:8]
