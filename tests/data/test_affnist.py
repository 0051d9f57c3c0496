"""Digits on a canvas: the official reader on files in its format, and the synthetic set, fixed for ever."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.io import savemat

from routebench.data import affnist, load, rotated_mnist
from routebench.data.affnist import CANVAS, VARIANTS, affnist_is_there, read_affnist
from routebench.data.warp import warp
from routebench.errors import UserError


def write(file, count=5, seed=0, side=CANVAS, digits=None):
    """A tiny file in the official format; its images and labels."""
    random = np.random.default_rng(seed)
    image = random.integers(0, 256, (side * side, count), np.uint8)
    labels = random.integers(0, 10, (1, count)).astype(np.uint8) if digits is None else np.array([digits], np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    savemat(file, {"affNISTdata": {"image": image, "label_int": labels, "label_one_of_n": np.eye(10)}})
    return image, labels[0]


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    return tmp_path


class TestOfficial:
    def test_columns_are_images_row_by_row(self, tmp_path):
        image, labels = write(tmp_path / "test.mat")
        found = read_affnist([tmp_path / "test.mat"])
        assert found.shape == (1, CANVAS, CANVAS)
        assert found.labels.tolist() == labels.tolist()
        assert found.pixels[3, 0, 7, 11] == image[7 * CANVAS + 11, 3]

    def test_batches_are_read_in_the_order_of_their_numbers(self, root):
        assert not affnist_is_there()
        for number in (10, 2, 1):
            write(root / f"affNIST/transformed/test_batches/{number}.mat", count=number, seed=number)
        assert affnist_is_there()
        files = affnist.official_test_files()
        assert [file.name for file in files] == ["1.mat", "2.mat", "10.mat"]
        assert len(read_affnist(files)) == 13

    def test_it_is_tested_on_official_images_and_trained_on_placed_ones(self, root, monkeypatch):
        image, labels = write(root / "affNIST/transformed/test.mat", count=7)
        counts = np.bincount(labels, minlength=10).tolist()
        monkeypatch.setattr(affnist, "TEST_DIGITS", counts)
        monkeypatch.setattr(affnist, "OFFICIAL_VERSIONS", 1)
        monkeypatch.setattr(affnist, "load", lambda _: load("mnist5k"))
        data = affnist.affnist()
        assert (data.name, data.left_out) == ("affnist", "")
        write(root / "affNIST/transformed/test_batches/1.mat")
        assert affnist.affnist().left_out == "Not used of affnist: 1 further files (such as 1.mat)."
        assert data.test.labels.tolist() == labels.tolist()
        assert data.test.pixels.flatten(1).numpy().tolist() == image.T.tolist()
        assert data.train.pixels.equal(load("affnist5k-synthetic").train.pixels)

    def test_the_whole_test_part_is_320_000_images(self):
        assert affnist.OFFICIAL_VERSIONS * sum(affnist.TEST_DIGITS) == affnist.affnist.facts["test"] == 320_000

    @pytest.mark.parametrize(
        ("batches", "told"),
        [
            ([(1, range(10)), (2, range(10))], "expected 30 test images, got 20; take all test images"),
            ([(seed, range(10)) for seed in range(4)], "expected 30 test images, got 40"),
            ([(1, range(10)), (2, range(10)), (1, range(10))], "expected 30 different images, got 20: some lie there"),
            (
                [(1, range(10)), (2, range(10)), (3, [0] * 10)],
                "expected 3 images of the digit 0, .*, got 12: .* another",
            ),
        ],
        ids=["some", "more", "twice", "training"],
    )
    def test_a_part_of_the_official_images_is_refused(self, root, monkeypatch, batches, told):
        monkeypatch.setattr(affnist, "TEST_DIGITS", (1,) * 10)
        monkeypatch.setattr(affnist, "OFFICIAL_VERSIONS", 3)
        for number, (seed, digits) in enumerate(batches):
            write(root / f"affNIST/transformed/test_batches/{number}.mat", 10, seed, digits=[*digits])
        with pytest.raises(UserError, match=f"^affnist: .*test_batches: {told}"):
            load("affnist")

    @pytest.mark.parametrize(
        ("lies", "told"),
        [
            ("affnist/transformed/test.mat", "'affnist' lies there, a name that differs only in capitals"),
            ("affNIST/Transformed/test.mat", "'Transformed' lies there, a name that differs only in capitals"),
            ("affNIST/transformed/test.mat.zip", "'test.mat.zip' lies there"),
            ("affNIST/test.mat", "affNIST/test.mat lies elsewhere, move it there"),
        ],
    )
    def test_what_lies_near_is_named(self, root, lies, told):
        (root / lies).parent.mkdir(parents=True)
        (root / lies).touch()
        with pytest.raises(UserError, match=f"no official test file below {root}; .*{told}; fetch"):
            load("affnist")

    def test_missing_files_are_told_with_what_to_fetch_and_where_to_put_it(self, root):
        with pytest.raises(UserError, match=r"fetch test\.mat .*affNIST/transformed/test\.mat.*affnist-synthetic"):
            load("affnist")

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda file: file.write_bytes(b"MATLAB 5.0 MAT-file"),
            lambda file: file.write_bytes(file.read_bytes()[:3000]),
            lambda file: savemat(file, {"other": 1}),
        ],
        ids=["header", "cut", "other"],
    )
    def test_damaged_files_are_told_by_name(self, tmp_path, spoil):
        file = tmp_path / "test.mat"
        write(file)
        spoil(file)
        with pytest.raises(UserError, match=r"cannot read .*test\.mat"):
            read_affnist([file])

    def test_images_of_another_size_are_refused(self, tmp_path):
        write(tmp_path / "test.mat", side=28)
        with pytest.raises(UserError, match=r"expected image as uint8 \(1600, n\).*\(784, 5\)"):
            read_affnist([tmp_path / "test.mat"])


class TestSynthetic:
    def test_its_fingerprint_never_changes(self):
        assert load("affnist5k-synthetic").fingerprint == "c4fc4be55af6ceeb"

    def test_it_does_not_pass_for_affnist(self):
        data = load("affnist5k-synthetic")
        assert data.name == "affnist5k-synthetic"
        assert "not affNIST" in data.source

    def test_training_digits_are_whole_and_at_every_place(self):
        base, data = load("mnist5k"), load("affnist5k-synthetic")
        tops, lefts = set(), set()
        for small, large in zip(base.train.pixels[:400, 0], data.train.pixels[:400, 0], strict=True):
            offsets = []
            for axis in (1, 0):
                inner, outer = (part.any(dim=axis).nonzero()[0] for part in (small, large))
                offsets.append(int(outer - inner))
            top, left = offsets
            assert large[top : top + 28, left : left + 28].equal(small)
            assert int(large.sum()) == int(small.sum())
            tops.add(top)
            lefts.add(left)
        assert tops == lefts == set(range(13))
        assert data.held_out.labels.equal(base.held_out.labels)

    def test_test_digits_come_from_the_test_part_and_lie_on_the_canvas_as_a_whole(self):
        base, data = load("mnist5k"), load("affnist5k-synthetic")
        assert data.test.labels.equal(base.test.labels.repeat_interleave(VARIANTS))
        ink = data.test.pixels.double().sum(dim=(1, 2, 3)) / base.test.pixels.double().sum(
            dim=(1, 2, 3)
        ).repeat_interleave(VARIANTS)
        assert 0.8**2 - 0.03 < float(ink.min()) < 0.75
        assert 1.35 < float(ink.max()) < 1.2**2 + 0.03
        border = data.test.pixels.clone()
        border[:, :, 1:-1, 1:-1] = 0
        assert float((border > 128).flatten(1).any(dim=1).double().mean()) < 0.02

    def test_versions_of_a_digit_differ(self):
        versions = load("affnist5k-synthetic").test.pixels[:VARIANTS]
        assert len({image.numpy().tobytes() for image in versions}) == VARIANTS

    def test_another_installation_that_makes_other_images_is_told(self, monkeypatch):
        monkeypatch.setattr(affnist, "SHEAR", 0.3)
        with pytest.raises(UserError, match="expected the fingerprint c4fc4be55af6ceeb, got"):
            affnist.affnist5k_synthetic()


class TestRotated:
    def test_its_fingerprint_never_changes(self):
        assert load("rotated-mnist5k").fingerprint == "5fe615a2d9fe5c8f"

    def test_test_digits_are_turned_by_the_drawn_angles(self):
        angles = np.rad2deg(np.random.RandomState(rotated_mnist.SEED).uniform(-np.pi, np.pi, 1000))
        base, turned = load("mnist5k").test.pixels, load("rotated-mnist5k").test.pixels
        for place in (0, 333, 999):
            expected = ndimage.rotate(
                base[place, 0].numpy().astype(float), angles[place], reshape=False, order=1, mode="grid-constant"
            )
            assert np.abs(turned[place, 0].numpy() - expected).max() < 1

    def test_training_digits_are_upright(self):
        assert load("rotated-mnist5k").train.pixels.equal(load("mnist5k").train.pixels)


class TestWarp:
    def test_the_identity_centres_an_image_on_the_canvas(self):
        images = load("mnist5k").test.pixels[:3, 0]
        maps = np.tile(np.eye(2, 3), (3, 1, 1))
        assert (warp(images.numpy(), maps, 28) == images.numpy()).all()
        assert (warp(images.numpy(), maps, 40) == torch.nn.functional.pad(images, (6,) * 4).numpy()).all()

    def test_it_is_scipys_affine_map(self):
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (4, 9, 7), np.uint8)  # not square: the axes are told apart
        maps = random.normal(size=(4, 2, 3))
        for image, plan, found in zip(images, maps, warp(images, maps, 12), strict=True):
            matrix = plan[::-1, 1::-1]  # rows and columns, where maps have x and y
            offset = np.array([4.0, 3.0]) + plan[::-1, 2] - matrix @ np.array([5.5, 5.5])
            expected = ndimage.affine_transform(
                image.astype(float), matrix, offset, (12, 12), order=1, mode="grid-constant"
            )
            assert np.abs(found - expected).max() < 0.52


@pytest.mark.parametrize(
    ("name", "changed", "fingerprint"),
    [
        ("affine-digits5k", "affnist5k-synthetic", "89924ce5e104468a"),
        ("turned-digits5k", "rotated-mnist5k", "96f87d1fe802a99e"),
    ],
)
def test_a_transfer_is_tested_on_unchanged_digits_and_then_on_changed_ones(name, changed, fingerprint):
    found, base, plain = load(name), load(changed), load("mnist5k").test
    familiar = found.conditions["familiar"]
    assert familiar.tolist() == [True] * len(plain) + [False] * len(base.test)
    assert found.train.pixels.equal(base.train.pixels) and found.held_out.pixels.equal(base.held_out.pixels)
    assert found.test.pixels[~familiar].equal(base.test.pixels) and found.test.labels[familiar].equal(plain.labels)
    unchanged = found.test.pixels[familiar]
    assert unchanged.sum(dim=(1, 2, 3)).equal(plain.pixels.sum(dim=(1, 2, 3)))  # moved as a whole, or not at all
    assert found.fingerprint == fingerprint


def test_test_digits_are_placed_all_over_the_canvas():
    data = load("affine-digits5k")
    familiar = data.test.pixels[data.conditions["familiar"]][:, 0]
    rows, columns = ((familiar.amax(dim=axis) > 0).double().argmax(dim=1) for axis in (2, 1))
    assert len(set(rows.tolist())) > 12 and len(set(columns.tolist())) > 12
