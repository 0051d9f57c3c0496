"""CIFAR-10 as JPEG: the same from a folder and from an archive, and what is refused."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from routebench.data import cifar10_jpeg, data_root
from routebench.errors import FilesMissing, UserError


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data folder of two small pictures for each class and part."""
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    monkeypatch.setattr(cifar10_jpeg, "COUNTS", {"train": 10, "test": 2})
    random = np.random.RandomState(0)
    for part, count in cifar10_jpeg.COUNTS.items():
        for name in cifar10_jpeg.CLASSES:
            folder = tmp_path / "cifar10-jpeg" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.randint(0, 256, (32, 32, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number:04}.jpg", quality=75)
    return tmp_path


def archived(root):
    with tarfile.open(root / "cifar10-jpeg.tar.xz", "w:xz") as archive:
        for part in ("train", "test"):
            archive.add(root / "cifar10-jpeg" / part, part)
    (root / "cifar10-jpeg").rename(root / "elsewhere")


def fingerprint_of(monkeypatch):
    """The fingerprint that the loader finds, which is not that of the published set."""
    with pytest.raises(UserError, match="expected the fingerprint bb525db8f4236135, got") as caught:
        cifar10_jpeg.cifar10_jpeg()
    found = str(caught.value).partition("got ")[2].partition(":")[0]
    monkeypatch.setattr(cifar10_jpeg, "EXPECTED", found)
    return found


def test_folder_and_archive_give_the_same_pictures(root, monkeypatch):
    expected = fingerprint_of(monkeypatch)
    data = cifar10_jpeg.cifar10_jpeg()
    assert (len(data.train) + len(data.held_out), len(data.test)) == (100, 20)
    with Image.open(root / "cifar10-jpeg" / "test" / "bird" / "0001.jpg") as image:
        assert np.array_equal(data.test.pixels[5].permute(1, 2, 0).numpy(), np.asarray(image))
    assert data.test.labels[5] == 2
    archived(root)
    assert cifar10_jpeg.cifar10_jpeg().fingerprint == expected


def test_files_that_are_missing_are_told(root):
    (root / "cifar10-jpeg" / "train" / "cat" / "0003.jpg").unlink()
    with pytest.raises(UserError, match="expected 10 files in train/cat, got 9"):
        cifar10_jpeg.cifar10_jpeg()
    (root / "cifar10-jpeg").rename(root / "elsewhere")
    with pytest.raises(FilesMissing, match="expected the folder cifar10-jpeg or the file"):
        cifar10_jpeg.cifar10_jpeg()


@pytest.mark.parametrize("content", [b"", b"no picture", "half"])
def test_a_damaged_picture_is_told(root, content):
    file = root / "cifar10-jpeg" / "test" / "dog" / "0000.jpg"
    file.write_bytes(file.read_bytes()[:650] if content == "half" else content)
    with pytest.raises(UserError, match=r"expected whole files in .*, got some that cannot be read"):
        cifar10_jpeg.cifar10_jpeg()


@pytest.mark.parametrize("left", [0, 10, 0.5, 0.95])
def test_a_damaged_archive_is_told(root, left):
    archived(root)
    file = root / "cifar10-jpeg.tar.xz"
    content = file.read_bytes()
    file.write_bytes(content[: left if isinstance(left, int) else int(left * len(content))])
    with pytest.raises(UserError, match="cannot be read"):
        cifar10_jpeg.cifar10_jpeg()


def test_the_files_at_hand_are_as_pillow_writes_them():
    """Everything before the picture itself, byte for byte: tables, sampling, order."""
    archive = data_root() / "cifar10-jpeg.tar.xz"
    if not archive.exists():
        pytest.skip("the archive is not here")
    written = io.BytesIO()
    Image.new("RGB", (32, 32)).save(written, "jpeg", quality=75)
    start = b"\xff\xda"
    seen = 0
    with tarfile.open(archive) as opened:
        for entry in opened:
            if entry.isfile():
                content = opened.extractfile(entry).read()
                assert content[: content.index(start)] == written.getvalue()[: written.getvalue().index(start)]
                seen += 1
            if seen == 50:
                break
    assert seen == 50
