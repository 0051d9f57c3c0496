"""The published data sets: official bytes or one clear line."""

import gzip
import hashlib
import io
import os
import pickle
import shutil
import socket
import tarfile
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from scipy.io import savemat

from routebench.data import load, official, torchvision_sets
from routebench.data.official import data_root, official_files
from routebench.data.torchvision_import import import_torchvision
from routebench.data.torchvision_sets import (
    CIFAR10,
    CIFAR100,
    FASHION_MNIST,
    IDX_FILES,
    MNIST,
    PUBLISHED,
    SVHN,
    read_idx,
)
from routebench.errors import UserError
from routebench.registry import datasets

REAL = Path(os.environ.get("ROUTEBENCH_DATA", "nowhere"))
needs_mnist = pytest.mark.skipif(
    not (REAL / "MNIST" / "raw").is_dir(), reason="set ROUTEBENCH_DATA to a folder that holds MNIST/raw"
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty ROUTEBENCH_DATA, with every download refused by the closed port of a proxy."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for variable in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    return tmp_path


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def declare(monkeypatch, published, contents: dict[str, bytes]):
    """The same data set, had its authors published `contents`."""
    files = {name: hashlib.md5(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(
        torchvision_sets, published.name.upper().replace("-", "_"), tiny := replace(published, files=files)
    )
    return tiny


def put(root: Path, published, contents: dict[str, bytes]):
    (root / published.folder).mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (root / published.folder / name).write_bytes(content)


def tiny_idx_set() -> dict[str, bytes]:
    random = np.random.default_rng(0)
    labels = np.arange(40, dtype=np.uint8) % 10
    images = random.integers(0, 256, (40, 28, 28), np.uint8)
    return dict(zip(IDX_FILES, [idx(images), idx(labels), idx(images[::-2]), idx(labels[::-2])], strict=True))


@needs_mnist
def test_the_real_mnist():
    data = load("mnist")
    assert data.fingerprint == "4a4d3508bcb45e49"
    assert torch.bincount(data.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    official_counts = torch.tensor([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
    held_out = torch.bincount(data.held_out.labels)
    assert torch.equal(torch.bincount(data.train.labels) + held_out, official_counts)
    assert (held_out - official_counts / 10).abs().max() < 1
    trained_on = {image.tobytes() for image in data.train.pixels.numpy()}
    assert not any(image.tobytes() in trained_on for image in data.held_out.pixels.numpy())


@needs_mnist
def test_a_truncated_file_of_mnist_is_noticed(root):
    folder = root / "MNIST" / "raw"
    shutil.copytree(REAL / "MNIST" / "raw", folder)
    folder.chmod(0o755)
    labels = folder / "t10k-labels-idx1-ubyte"
    content = labels.read_bytes()
    labels.unlink()
    labels.write_bytes(content[:5000])
    with pytest.raises(UserError, match=f"^mnist: {labels} is not the official file.*5,000 bytes.*delete it"):
        load("mnist")


def test_idx_files_become_images(root, monkeypatch):
    contents = tiny_idx_set()
    put(root, declare(monkeypatch, MNIST, contents), contents)
    data = datasets["mnist"]()
    assert (len(data.train), len(data.held_out), len(data.test)) == (36, 4, 20)
    first = np.frombuffer(contents["t10k-images-idx3-ubyte"], np.uint8, 784, offset=16).reshape(28, 28)
    assert np.array_equal(data.test.pixels[0, 0], first)
    assert data.test.labels[:4].tolist() == [9, 7, 5, 3]
    assert data.name == "mnist"


def test_packed_idx_files_and_those_of_an_operating_system_are_read(root, tmp_path, monkeypatch):
    contents = tiny_idx_set()
    packed = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    tiny = declare(monkeypatch, FASHION_MNIST, contents)
    put(root, tiny, packed)
    data = datasets["fashion-mnist"]()
    assert data.classes[9] == "Ankle boot"
    (root / tiny.folder).rename(tmp_path / "system")
    assert official_files(replace(tiny, also_in=tmp_path / "system")) == contents

    damaged = tmp_path / "system" / f"{IDX_FILES[0]}.gz"
    damaged.write_bytes(damaged.read_bytes()[:200])
    with pytest.raises(UserError, match=f"fashion-mnist: {damaged} is damaged .*delete it"):
        official_files(replace(tiny, also_in=tmp_path / "system"))


def old_pickle(entry: dict) -> bytes:
    """As NumPy 1 wrote it: the type of an array with numbers for booleans."""

    class Old(pickle.Pickler):
        def reducer_override(self, value):
            return (np.dtype, ("u1", 0, 1)) if isinstance(value, np.dtype) else NotImplemented

    Old(file := io.BytesIO(), protocol=2).dump(entry)
    return file.getvalue()


def tiny_cifar(published) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """The files of a CIFAR with twenty images in each batch, and the pixels of each batch."""
    random = np.random.default_rng(0)
    batches = {name: random.integers(0, 256, (20, 3072), np.uint8) for name in published.files if "meta" not in name}
    prefix = "fine_" if published is CIFAR100 else ""
    labels = [number % 10 for number in range(20)]
    contents = {name: old_pickle({"data": pixels, f"{prefix}labels": labels}) for name, pixels in batches.items()}
    meta = next(name for name in published.files if "meta" in name)
    return {**contents, meta: old_pickle({f"{prefix}label_names": list("abcdefghij")})}, batches


@pytest.mark.parametrize("published", [CIFAR10, CIFAR100], ids=lambda published: published.name)
def test_cifar_batches_become_images(root, monkeypatch, published):
    contents, batches = tiny_cifar(published)
    put(root, declare(monkeypatch, published, contents), contents)
    data = datasets[published.name]()
    assert data.classes == tuple("abcdefghij")
    assert len(data.train) + len(data.held_out) == 20 * (len(batches) - 1)
    tested = next(pixels for name, pixels in batches.items() if "test" in name)
    assert np.array_equal(data.test.pixels, tested.reshape(20, 3, 32, 32))
    assert data.test.labels.tolist() == [number % 10 for number in range(20)]


def test_svhn_becomes_images_and_its_label_ten_is_the_digit_zero(root, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 30), np.uint8)
    labels = (np.arange(30) % 10 + 1).astype(np.uint8)[:, None]
    savemat(file := io.BytesIO(), {"X": pixels, "y": labels})
    contents = dict.fromkeys(SVHN.files, file.getvalue())
    put(root, declare(monkeypatch, SVHN, contents), contents)
    data = datasets["svhn"]()
    assert data.test.labels.tolist() == [*range(1, 10), 0] * 3
    assert np.array_equal(data.test.pixels[7], pixels[..., 7].transpose(2, 0, 1))


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda published: published.name)
def test_a_missing_data_set_says_how_to_get_it(root, published):
    with pytest.raises(UserError) as raised:
        official_files(replace(published, also_in=None))
    message = str(raised.value)
    assert message.startswith(f"{published.name}: {next(iter(published.files))}")
    assert str(root / published.folder) in message
    assert "downloading failed" in message
    assert "refused" in message
    assert "set ROUTEBENCH_DATA to a folder that holds" in message
    assert ("install Debian's package" in message) == (published is FASHION_MNIST)
    assert "\n" not in message
    assert not list(root.iterdir())


@pytest.mark.parametrize(
    ("lies", "told"),
    [
        ("MNIST/raw/train-images.idx3-ubyte", "; 'train-images.idx3-ubyte' lies there"),
        ("mnist/train-images-idx3-ubyte.gz", "; {root}/mnist/train-images-idx3-ubyte.gz lies elsewhere, move it there"),
        ("MNIST/raw/train-labels-idx1-ubyte", ""),
    ],
)
def test_a_missing_file_is_told_what_lies_near(root, lies, told):
    (root / lies).parent.mkdir(parents=True)
    (root / lies).touch()
    place, told = root / MNIST.folder, told.format(root=root)
    with pytest.raises(UserError, match=f"t10k-labels-idx1-ubyte not found in {place}{told}, and downloading failed"):
        load("mnist")


def test_files_that_are_exchanged_are_named(root, monkeypatch):
    contents = tiny_idx_set()
    tiny = declare(monkeypatch, MNIST, contents)
    put(root, tiny, dict(zip(contents, [*contents.values()][2:] + [*contents.values()][:2], strict=True)))
    with pytest.raises(UserError, match=f"{IDX_FILES[0]} is not the official file: .*, which is {IDX_FILES[2]} "):
        official_files(tiny)


def test_a_download_that_fails_leaves_the_folders_of_others_alone(root, monkeypatch):
    (root / "MNIST").mkdir()
    with pytest.raises(UserError, match="downloading failed"):
        official_files(MNIST)
    assert [place.name for place in root.rglob("*")] == ["MNIST"]
    monkeypatch.delenv("ROUTEBENCH_DATA")
    monkeypatch.setenv("HOME", str(root))
    with pytest.raises(UserError, match="downloading failed"):
        official_files(MNIST)
    assert [place.name for place in root.rglob("*")] == ["MNIST"]  # no .cache


def test_a_packed_file_that_holds_too_much_is_not_unpacked(root, monkeypatch):
    monkeypatch.setattr(official, "LARGEST", 1_000_000)
    contents = tiny_idx_set()
    tiny = declare(monkeypatch, MNIST, contents)
    put(root, tiny, contents)
    (place := root / tiny.folder / IDX_FILES[0]).unlink()
    bomb = place.with_name(f"{place.name}.gz")
    bomb.write_bytes(gzip.compress(bytes(100_000_000), 1))
    tracemalloc.start()
    with pytest.raises(UserError, match=f"^mnist: {bomb} is not the official file: it holds more than 1 MB; delete it"):
        official_files(tiny)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_a_folder_that_cannot_be_written_gives_one_line_too(root):
    (root / "MNIST").write_text("in the way")
    with pytest.raises(UserError, match=r"^mnist: train-images-idx3-ubyte.*downloading failed .*set ROUTEBENCH_DATA"):
        load("mnist")


def test_a_local_archive_is_unpacked_without_a_download(root, monkeypatch):
    contents, _ = tiny_cifar(CIFAR100)
    with tarfile.open(root / CIFAR100.archive, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"{CIFAR100.folder}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    tiny = declare(monkeypatch, CIFAR100, contents)
    kind = import_torchvision().datasets.CIFAR100
    monkeypatch.setattr(kind, "tgz_md5", hashlib.md5((root / CIFAR100.archive).read_bytes()).hexdigest())
    monkeypatch.setattr(kind, "train_list", [["train", tiny.files["train"]]])
    monkeypatch.setattr(kind, "test_list", [["test", tiny.files["test"]]])
    monkeypatch.setitem(kind.meta, "md5", tiny.files["meta"])
    assert official_files(tiny) == contents
    assert {place.name for place in (root / CIFAR100.folder).iterdir()} == set(contents)


@pytest.mark.parametrize("damaged", [False, True])
def test_missing_files_are_downloaded_and_checked(root, tmp_path, monkeypatch, damaged):
    contents = tiny_idx_set()
    (served := tmp_path / "served").mkdir()
    packed = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    for name, content in packed.items():
        (served / name).write_bytes(content[:-1] if damaged else content)
    kind = import_torchvision().datasets.MNIST
    monkeypatch.setattr(
        kind, "resources", [(name, hashlib.md5(content).hexdigest()) for name, content in packed.items()]
    )
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=served)) as server:
        Thread(target=server.serve_forever).start()
        monkeypatch.setattr(kind, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
        tiny = declare(monkeypatch, MNIST, contents)
        with pytest.raises(UserError, match=r"downloading failed .*corrupted") if damaged else nullcontext():
            assert official_files(tiny) == contents
        server.shutdown()
    assert len([*root.glob("MNIST/raw/*"), *root.glob(".*")]) == (0 if damaged else 4)


def test_the_checksums_of_cifar_and_svhn_are_torchvisions():
    known = import_torchvision().datasets
    for published, kind in ((CIFAR10, known.CIFAR10), (CIFAR100, known.CIFAR100)):
        listed = [*kind.train_list, *kind.test_list, [kind.meta["filename"], kind.meta["md5"]]]
        assert dict(published.files) == dict(listed)
        assert (published.folder, published.archive) == (kind.base_folder, kind.filename)
    assert dict(SVHN.files) == {
        known.SVHN.split_list[part][1]: known.SVHN.split_list[part][2] for part in ("train", "test")
    }
    for published in (MNIST, FASHION_MNIST):
        kind = getattr(known, published.torchvision_name)
        assert [f"{name}.gz" for name in published.files] == [name for name, _ in kind.resources]


def test_routebench_data_has_to_be_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path / "typo"))
    with pytest.raises(UserError, match=r"ROUTEBENCH_DATA: expected a folder, got .*typo"):
        load("mnist")
    monkeypatch.setenv("ROUTEBENCH_DATA", "")
    monkeypatch.delenv("ROUTEBENCH_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache" / "routebench" / "data"


@pytest.mark.parametrize("content", [b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", b"<html>", idx(np.zeros(9, np.uint8))[:-1]])
def test_a_file_that_is_no_idx_of_bytes_is_refused(content):
    with pytest.raises(ValueError, match=r"expected an idx file|cannot reshape"):
        read_idx(content)
