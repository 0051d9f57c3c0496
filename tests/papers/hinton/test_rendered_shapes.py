"""Rendered toys: the same pixels everywhere, and what the conditions say is what the pictures show."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from routebench.papers.hinton.data import rendered_shapes
from routebench.papers.hinton.data.rendered_shapes import (
    AZIMUTHS,
    ELEVATIONS,
    INSTANCES,
    PARTS,
    SMALL,
    Series,
    digest_of,
    views_of,
)
from routebench.papers.hinton.data.rendering import LIGHTINGS, WINDOW, Camera, render
from routebench.papers.hinton.data.shapes import TOYS, fitted, toy
from routebench.papers.hinton.data.solids import Solid, cosine, dot, turned


def seen(kind="plane", instance=0, azimuth=60, elevation=40, side=24, lightings=range(6)):
    return render(toy(kind, instance), Camera(azimuth, elevation), side, lightings)


def about_z(solid, degrees):
    """A solid turned about the upright axis."""
    frame = turned(yaw=degrees)
    turn = lambda v: tuple(sum(v[j] * frame[j][k] for j in range(3)) for k in range(3))  # noqa: E731
    return Solid(solid.kind, turn(solid.centre), solid.half, tuple(map(turn, solid.axes)), solid.taper)


def test_some_pictures_are_the_same_on_every_machine():
    pictures = [
        seen(kind, instance, 20 * instance, 30 + 5 * number)
        for number, kind in enumerate(TOYS)
        for instance in (0, 7, 14)
    ]
    assert digest_of(np.stack(pictures)) == "af5cc9fc6ec74c71"


def test_eighteen_turns_of_20_degrees_come_back():
    assert np.array_equal(seen(azimuth=18 * 20), seen(azimuth=0))
    pictures = [seen(azimuth=azimuth) for azimuth in AZIMUTHS]
    assert len({picture.tobytes() for picture in pictures}) == 18


@pytest.mark.parametrize("kind", TOYS)
def test_turning_the_camera_is_turning_the_object_and_its_lamps_stand_still(kind):
    solids = toy(kind, 3)
    turned_object = render([about_z(solid, -40) for solid in solids], Camera(0, 50), 24)
    moved_camera = render(solids, Camera(40, 50), 24)
    assert np.abs(turned_object.astype(int) - moved_camera).max() <= 60  # where rays touch an edge
    assert np.abs(turned_object.astype(int) - moved_camera).mean() < 0.1


def test_a_lighting_changes_the_shades_and_keeps_the_silhouette():
    pictures = seen("car", 1)
    assert len({picture.tobytes() for picture in pictures}) == len(LIGHTINGS)
    assert all(np.array_equal(picture > 0, pictures[0] > 0) for picture in pictures)
    assert np.array_equal(seen("car", 1, lightings=[4])[0], pictures[4])


def test_the_picture_of_a_ball_is_a_disc_shaded_by_lamberts_law():
    (picture,) = render([Solid("ellipsoid", (0, 0, 0), (1, 1, 1))], Camera(30, 40), 96, [0])
    share = (picture > 0).mean()
    assert share == pytest.approx(math.pi / (2 * WINDOW) ** 2, abs=0.03)
    camera = Camera(30, 40)
    lamp = camera.lamps()[0]
    facing = np.unravel_index(picture.argmax(), picture.shape)
    right = (facing[1] + 0.5) / 48 * WINDOW - WINDOW
    up = WINDOW - (facing[0] + 0.5) / 48 * WINDOW
    assert (right, up) == pytest.approx((dot(lamp, camera.right), dot(lamp, camera.up)), abs=0.1)
    assert picture.max() == pytest.approx(255 * (0.15 + 0.6), abs=2)


def test_a_box_hides_what_is_behind_it():
    near, far = Solid("box", (0.5, 0, 0), (0.1, 0.4, 0.4)), Solid("ellipsoid", (-0.5, 0, 0), (0.2, 0.2, 0.2))
    front, back = Camera(0, 0), Camera(180, 0)
    assert np.array_equal(render([near, far], front, 24), render([near], front, 24))
    assert np.array_equal(render([near, far], front, 24), render([far, near], front, 24))
    assert not np.array_equal(render([near, far], back, 24), render([near], back, 24))


def test_a_taper_leaves_a_pyramid():
    (picture,) = render([Solid("box", (0, 0, 0), (0.7, 0.7, 0.7), taper=(0, 0))], Camera(0, 0), 40, [2])
    widths = (picture > 0).sum(axis=1)
    widths = widths[widths > 0]
    assert widths[0] <= 3
    assert (np.diff(widths) >= 0).all()


@pytest.mark.parametrize("kind", TOYS)
def test_toys_fill_the_unit_ball_and_differ(kind):
    made = [toy(kind, instance) for instance in INSTANCES]
    for solids in made:
        farthest = max(math.sqrt(dot(corner, corner)) for solid in solids for corner in solid.corners())
        assert farthest == pytest.approx(1)
    assert len({tuple(solids) for solids in made}) == len(INSTANCES)
    assert fitted(made[0])[0].half == pytest.approx(made[0][0].half)


def test_axes_are_at_right_angles():
    frame = turned(yaw=33, pitch=-20, roll=70)
    assert [dot(one, other) for one in frame for other in frame] == pytest.approx(np.eye(3).ravel().tolist(), abs=1e-8)
    assert cosine(60) == 0.5


def made_small(patch):
    """Two classes, two elevations and all 18 azimuths, so that whole data sets are rendered in a moment."""
    patch.setattr(rendered_shapes, "TOYS", {name: TOYS[name] for name in ("figure", "table")})
    patch.setattr(rendered_shapes, "ELEVATIONS", (40, 45))
    patch.setattr(rendered_shapes, "PARTS", ((0, 1), (2,), (3,)))
    patch.setattr(rendered_shapes, "INSTANCES", (0, 1, 2, 3))


@pytest.fixture(scope="module")
def tiny_pixels():
    """Rendered once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        made_small(patch)
        return rendered_shapes.rendered(Series("tiny", 6, all_lightings=False, digest=""))


@pytest.fixture
def tiny(tiny_pixels, monkeypatch, tmp_path):
    """A small series, and an empty folder of data sets."""
    made_small(monkeypatch)
    monkeypatch.setattr(rendered_shapes, "rendered", lambda _: tiny_pixels)
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    return Series("tiny", 6, all_lightings=False, digest=digest_of(tiny_pixels))


@pytest.mark.parametrize(("axis", "share"), [("azimuth", 6 / 18), ("elevation", 1 / 2), (None, 1)])
def test_training_has_familiar_viewpoints_of_its_own_objects(tiny, axis, share):
    data = rendered_shapes._dataset(tiny, axis)
    assert (len(data.train), len(data.held_out), len(data.test)) == (144 * share, 72 * share, 72)
    assert set(data.conditions["instance"].tolist()) == {3}
    pixels = rendered_shapes.rendered(tiny)
    views = views_of(tiny, pixels)
    kept = torch.isin(views.conditions["instance"], torch.tensor([0, 1]))
    if axis == "azimuth":
        kept &= torch.isin(views.conditions["azimuth"], torch.tensor([300, 320, 340, 0, 20, 40]))
    if axis == "elevation":
        kept &= views.conditions["elevation"] == 40
    assert torch.equal(data.train.pixels, views.images.pixels[kept])
    assert ("familiar" in data.conditions) == (axis is not None)
    if axis is not None:
        assert float(data.conditions["familiar"].double().mean()) == pytest.approx(share)


def test_the_views_of_a_test_object_stand_in_a_row(tiny):
    data = rendered_shapes._dataset(tiny, None)
    objects = (len(data.classes) * data.conditions["instance"] + data.test.labels).view(len(data.classes), -1)
    assert bool((objects == objects[:, :1]).all())
    for loader in (rendered_shapes.rendered_shapes, rendered_shapes.rendered_shapes_small_azimuth):
        assert loader.facts["test"] == loader.facts["views"] * len(TOYS) * len(PARTS[2])


def test_an_image_is_what_its_conditions_say(tiny):
    data = rendered_shapes._dataset(tiny, "azimuth")
    for place in (5, 40, 71):
        known = {name: int(values[place]) for name, values in data.conditions.items()}
        kind = data.classes[int(data.test.labels[place])]
        (expected,) = render(
            toy(kind, known["instance"]), Camera(known["azimuth"], known["elevation"]), 6, [known["lighting"]]
        )
        assert np.array_equal(data.test.pixels[place, 0].numpy(), expected)


def test_what_was_rendered_is_kept_and_a_damaged_file_is_not_used(tiny, tmp_path, monkeypatch):
    first = rendered_shapes._pixels(tiny)
    (file,) = (tmp_path / "rendered-shapes").glob("*.raw")
    monkeypatch.setattr(rendered_shapes, "rendered", lambda series: pytest.fail("rendered again"))
    assert np.array_equal(rendered_shapes._pixels(tiny), first)
    assert rendered_shapes._kept(tiny, file.parent) is not None
    file.write_bytes(file.read_bytes()[:-1])
    assert rendered_shapes._kept(tiny, file.parent) is None


def test_other_pixels_than_those_published_are_told(tiny):
    with pytest.warns(UserWarning, match="renders other pixels"):
        rendered_shapes._pixels(replace(tiny, digest="0" * 16))


@pytest.mark.parametrize("obstacle", ["a file", "no lock"])
def test_a_folder_that_cannot_be_written_is_no_obstacle(tiny, tmp_path, monkeypatch, obstacle):
    """The cache folder keeps what is rendered then; images that lie in the closed folder are read from it."""
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "cache"))
    folder, made = tmp_path / "rendered-shapes", []
    monkeypatch.setattr(
        rendered_shapes, "rendered", lambda one, first=rendered_shapes.rendered: made.append(one) or first(one)
    )
    if obstacle == "a file":
        folder.write_text("in the way")
    else:
        (folder / ".tiny.lock").mkdir(parents=True)
    for _ in range(2):
        assert digest_of(rendered_shapes._pixels(tiny)) == tiny.digest
    assert len(made) == 1
    (file,) = (tmp_path / "cache" / "rendered-shapes").iterdir()
    if obstacle != "a file":
        content = file.read_bytes().partition(b"\n")[2]
        file.unlink()
        (folder / f"tiny-{rendered_shapes._generator_hash()}-{tiny.digest}.raw").write_bytes(content)
        assert digest_of(rendered_shapes._pixels(tiny)) == tiny.digest
        assert len(made) == 1 and not file.exists()
    else:
        file.write_bytes(file.read_bytes()[:-1])
        assert digest_of(rendered_shapes._pixels(tiny)) == tiny.digest
        assert len(made) == 2, "what is damaged is rendered again"


def test_lightings_take_turns_over_familiar_viewpoints():
    used = [
        SMALL.lightings(0, azimuth, elevation) for azimuth in (300, 320, 340, 0, 20, 40) for elevation in ELEVATIONS
    ]
    assert all(used.count((number,)) == 9 for number in range(6))
    assert [len(part) for part in PARTS] == [5, 5, 5]
