"""Scenes are what their truth says, and names are what they say."""

import pytest
import torch

from routebench.data import load
from routebench.errors import UserError
from routebench.studies.parts.constellations import (
    ABSENT,
    CLUTTER,
    KINDS,
    PARTS,
    STEP,
    Constellation,
    arrangements,
    decoded,
    draw,
    encoded,
    homogeneous,
)

EXACT = Constellation(objects=3, clutter=2, noise=0.0)


def test_votes_by_the_true_matrices_coincide_at_the_pose_of_the_object():
    scenes = draw(EXACT, 50, 0)
    places = (scenes.parents >= 0).nonzero()
    assert len(places) == PARTS * int(scenes.shown.sum())
    for scene, part, slot in places.tolist():
        kind = int(scenes.parents[scene, part, slot])
        vote = homogeneous(scenes.poses[scene, part, slot]) @ torch.linalg.inv(arrangements()[kind, part])
        torch.testing.assert_close(vote[:2], scenes.objects[scene, kind], rtol=0, atol=1e-12)


def test_each_object_has_each_part_once_and_the_rest_is_clutter_or_empty():
    scenes = draw(EXACT, 50, 0)
    for kind in range(KINDS):
        assert torch.equal((scenes.parents == kind).sum(dim=2), scenes.shown[:, kind, None].expand(-1, PARTS).long())
    assert ((scenes.parents == CLUTTER).sum(dim=(1, 2)) == 2).all()
    assert not scenes.poses[scenes.parents == ABSENT].any()
    assert not scenes.objects[~scenes.shown].any()


def test_parts_of_objects_stand_in_any_place():
    present = draw(EXACT, 500, 0).present.double().mean(dim=(0, 1))
    assert float(present.max() - present.min()) < 0.1


def test_numbers_of_objects_are_equally_likely_or_as_asked():
    many = draw(EXACT, 3000, 0).shown.sum(dim=1).bincount()
    assert many[0] == 0
    assert (many[1:] - 1000).abs().max() < 100
    assert (draw(EXACT, 20, 0, exactly=4).shown.sum(dim=1) == 4).all()


def test_the_same_seed_gives_the_same_and_another_gives_others():
    one, again, other = draw(EXACT, 20, 0), draw(EXACT, 20, 0), draw(EXACT, 20, 1)
    assert torch.equal(one.poses, again.poses) and torch.equal(one.parents, again.parents)
    assert not torch.equal(one.poses, other.poses)


def test_noise_is_that_of_pose_elements():
    exact, noisy = (draw(Constellation(noise=noise), 500, 0) for noise in (0.0, 0.05))
    apart = (noisy.poses - exact.poses)[exact.present]
    assert float(apart.std()) == pytest.approx(0.05, rel=0.05)


def test_poses_come_back_from_bytes_up_to_rounding():
    scenes = draw(Constellation(), 200, 0)
    images = encoded(scenes)
    assert images.dtype == torch.uint8 and tuple(images.shape) == (200, 7, PARTS, 8)
    poses, present = decoded(images.double() / 255)
    assert torch.equal(present > 0, scenes.present)
    assert float((poses - scenes.poses).abs().max()) <= STEP / 2 + 1e-9


def test_a_name_sets_numbers():
    assert Constellation.of("objects=3&clutter=2&noise=0.05") == Constellation(3, 2, 0.05)
    assert Constellation.of("clutter=2") == Constellation(clutter=2)


@pytest.mark.parametrize("text", ["", "objects", "objects=two", "kinds=3", "objects=1.5", "clutter=1&clutter=2"])
def test_another_name_is_refused(text):
    with pytest.raises(UserError, match=r"expected some of objects, clutter, noise, as in constellations:objects=3"):
        Constellation.of(text)


@pytest.mark.parametrize("numbers", [{"objects": 0}, {"objects": 5, "clutter": 4}])
def test_more_than_there_is_room_for_is_refused(numbers):
    with pytest.raises(UserError, match="no more than 8 objects and clutter together"):
        Constellation(**numbers)


def test_noise_that_would_leave_the_range_is_refused():
    with pytest.raises(UserError, match=r"expected noise from 0 to 0\.2"):
        Constellation(noise=0.3)


def test_the_data_set_has_these_scenes_and_options_change_them():
    data = load("constellations")
    scenes = draw(Constellation(), 2000, 2)
    assert torch.equal(data.test.pixels, encoded(scenes)) and torch.equal(data.test.labels, scenes.shown)
    assert (len(data.train), len(data.held_out), len(data.test)) == (18_000, 2_000, 2_000)
    assert set(data.test.labels.sum(dim=1).tolist()) == {1, 2}
    other = load("constellations:objects=3&clutter=1")
    assert set(other.test.labels.sum(dim=1).tolist()) == {1, 2, 3}
    assert other.fingerprint != data.fingerprint
    assert torch.equal(other.test.pixels[:, -1].gt(0).sum(dim=(1, 2)), 5 * other.test.labels.sum(dim=1) + 1)
