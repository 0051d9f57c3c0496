"""Files of arrays that other software made: `features:FILE` and `npz:FILE`."""

import io
import json
import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from routebench.data import load
from routebench.errors import UserError


def features(**changed: np.ndarray | None) -> dict[str, np.ndarray]:
    random = np.random.RandomState(0)
    arrays = {
        "train_features": random.randn(50, 4, 8).astype(np.float32),
        "train_labels": np.arange(50) % 5,
        "test_features": random.randn(20, 4, 8).astype(np.float32),
        "test_labels": np.arange(20) % 5,
        **changed,
    }
    return {name: array for name, array in arrays.items() if array is not None}


def pictures(**changed: np.ndarray | None) -> dict[str, np.ndarray]:
    random = np.random.RandomState(0)
    arrays = {
        f"{part}_{what}": made
        for part, count in (("train", 40), ("val", 10), ("test", 10))
        for what, made in (
            ("images", random.randint(0, 256, (count, 28, 28)).astype(np.uint8)),
            ("labels", (np.arange(count) % 5)[:, None].astype(np.uint8)),
        )
    }
    return {name: array for name, array in {**arrays, **changed}.items() if array is not None}


def test_one_data_set_in_three_kinds_of_file(tmp_path):
    np.savez(tmp_path / "plain.npz", **features())
    np.savez_compressed(tmp_path / "small.npz", **features())
    save_file(features(), tmp_path / "x.safetensors", {"classes": json.dumps(list("abcde")), "source": "a camera"})
    found = [load(f"features:{tmp_path / name}") for name in ("plain.npz", "small.npz", "x.safetensors")]
    assert len({data.fingerprint for data in found}) == 1
    assert [data.classes for data in found[1:]] == [tuple("01234"), tuple("abcde")]
    assert found[2].source == "a camera" and found[0].name == "features:plain.npz"
    assert [tuple(map(len, (data.train, data.held_out, data.test))) for data in found] == [(45, 5, 20)] * 3
    assert found[0].train.shape == (4, 8)


def test_an_array_that_is_not_compressed_stays_in_its_file(tmp_path):
    np.savez(tmp_path / "x.npz", **features())
    save_file(features(), tmp_path / "x.safetensors")
    for name in ("x.npz", "x.safetensors"):
        data = load(f"features:{tmp_path / name}")
        assert f"{tmp_path / name}\n" in Path("/proc/self/maps").read_text(), data.name


@pytest.mark.parametrize(
    "changed",
    [
        {"train_features": features()["train_features"].astype(">f4")},
        {"train_features": np.asfortranarray(features()["train_features"])},
        {"train_labels": features()["train_labels"].astype(np.uint16)},
        {"train_labels": features()["train_labels"][:, None].astype(np.int8)},
    ],
)
def test_how_numbers_lie_in_the_file_changes_nothing(tmp_path, changed):
    for name, arrays in (("a.npz", features()), ("b.npz", features(**changed))):
        np.savez(tmp_path / name, **arrays)
    assert load(f"features:{tmp_path / 'a.npz'}").fingerprint == load(f"features:{tmp_path / 'b.npz'}").fingerprint


def test_a_file_that_is_overwritten_is_read_again_whatever_its_time_says(tmp_path):
    file, other = tmp_path / "x.npz", tmp_path / "y.npz"
    np.savez(file, **features())
    np.savez(other, **features(test_labels=(features()["test_labels"] + 1) % 5))
    first, known = load(f"features:{file}"), file.stat()
    with file.open("r+b") as opened:  # as `cp -p` and `rsync --inplace --times` do
        opened.write(other.read_bytes())
    os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert file.stat().st_size == known.st_size
    assert load(f"features:{file}").fingerprint == load(f"features:{other}").fingerprint != first.fingerprint


CUT = """
import os, sys, torch
from routebench.data import load
data = load(f"features:{sys.argv[1]}")
os.truncate(sys.argv[1], 3_000)
data.train.inputs(torch.arange(45), torch.device("cpu"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file that is mapped gets shorter there")
@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
def test_a_file_that_gets_shorter_while_it_is_read_ends_the_process_with_one_line(tmp_path, name):
    file = tmp_path / name
    random = np.random.RandomState(0).randn(50, 4, 800).astype(np.float32)
    write = np.savez if name.endswith("npz") else lambda to, **arrays: save_file(arrays, to)
    write(file, **features(train_features=random, test_features=random[:20]))
    done = subprocess.run([sys.executable, "-c", CUT, file], check=False, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.split("\n"))) == (2, 3), done.stderr
    assert f"Error: {file}: got shorter while it was read; write it again as a whole" in done.stderr


def test_masks_held_out_items_and_several_classes_are_read(tmp_path):
    mask = np.ones((50, 4), bool)
    mask[3, 1:] = False
    several = np.eye(5, dtype=int)[np.arange(50) % 5] | np.eye(5, dtype=int)[::-1][np.arange(50) % 5]
    np.savez(
        tmp_path / "x.npz",
        **features(train_mask=mask, train_labels=several, test_labels=several[:20]),
        val_features=np.ones((10, 4, 8), np.float16),
        val_labels=several[:10],
        beside=np.zeros(3),
    )
    data = load(f"features:{tmp_path / 'x.npz'}")
    assert tuple(map(len, (data.train, data.held_out, data.test))) == (50, 10, 20)
    assert data.train.multi_label and data.train.mask is not None and data.test.mask is None
    assert data.left_out == "Not used of features:x.npz: beside."


NAN = features()["train_features"].copy()
NAN[7, 2, 3] = np.nan
WRONG = {
    "pictures": (
        {"train_features": None, "train_images": np.zeros((50, 8, 8), np.uint8)},
        "got no train_features but .*train_images.*; npz:FILE reads images",
    ),
    "a part is missing": ({"test_labels": None}, "got no test_labels but"),
    "held-out labels are missing": ({"val_features": np.ones((9, 4, 8), np.float32)}, "got no val_labels"),
    "not a number": ({"train_features": NAN}, "train: expected finite numbers.*token 2 of item 7"),
    "double precision": ({"train_features": NAN.astype(float)}, "float16 or float32 .*got float64"),
    "integers": ({"train_features": np.ones((50, 4, 8), int)}, "got int64"),
    "four axes": ({"train_features": np.ones((50, 2, 2, 8), np.float32)}, r"got float32 \(50, 2, 2, 8\)"),
    "nothing": ({"train_features": np.ones((0, 4, 8), np.float32)}, "at least one item"),
    "labels of others": ({"train_labels": np.arange(49)}, r"got int64 \(49,\)"),
    "labels that are no numbers": ({"train_labels": np.array(["a"] * 50)}, "arrays of numbers, got train_labels"),
    "labels between numbers": ({"train_labels": np.arange(50) / 2}, "integers"),
    "labels below zero": ({"train_labels": np.arange(50) % 5 - 1}, "from 0 to .*got -1"),
    "marks above one": ({"train_labels": np.full((50, 5), 2)}, "of 0 and 1, got values from 2 to 2"),
    "marks below zero": ({"train_labels": np.full((50, 5), -1)}, "of 0 and 1, got values from -1 to -1"),
    "marks of no class": ({"train_labels": np.ones((50, 0), int)}, r"got int64 \(50, 0\)"),
    "a single class": ({"train_labels": np.zeros((50, 1), int)}, "at least two classes, got 0 alone"),
    "one class an item": (
        {f"{part}_labels": np.eye(5, dtype=int)[np.arange(count) % 5] for part, count in (("train", 50), ("test", 20))},
        r"for each item has one class, got one-hot rows; .* labels.argmax\(1\)",
    ),
    "no class of several": (
        {"train_labels": np.zeros((50, 5), int), "test_labels": np.eye(5, dtype=int)[np.arange(20) % 5]},
        "at least two classes, got none",
    ),
    "one class of several": (
        {"train_labels": np.arange(5) * np.ones((50, 1), int) == 3, "test_labels": np.ones((20, 5), int)},
        "at least two classes, got 3 alone",
    ),
    "a label beyond all": ({"train_labels": np.full(50, 2**64 - 1, np.uint64)}, "got 18446744073709551615"),
    "squares beyond all": (
        {"train_features": features()["train_features"] * np.float32(1e20)},
        "below 2e[+]18, got 3e[+]20 in token 0 of item 0; divide all",
    ),
    "one training item": (
        {"train_features": np.ones((2, 4, 8), np.float32), "train_labels": np.arange(2)},
        "a tenth of 2 training tokens cannot be held out.*give a held-out part of its own",
    ),
    "objects of one part": ({"train_objects": np.arange(50)}, "with a val part, or remove this one"),
    "objects": ({"train_labels": np.array([None] * 50)}, "arrays of numbers, got train_labels of type object"),
    "long numbers": ({"train_labels": np.arange(50).astype("g")}, "arrays of numbers, got train_labels of type float"),
    "another shape in a part": ({"test_features": np.ones((20, 3, 8), np.float32)}, r"test tokens of shape \(4, 8\)"),
    "a mask of numbers": ({"train_mask": np.ones((50, 4))}, "mask as bool"),
    "a mask that hides an item": ({"train_mask": np.arange(50)[:, None].repeat(4, 1) != 9}, "got none for item 9"),
    "a name that is misspelt": ({"train_maks": np.ones((50, 4), bool)}, "did you mean 'train_mask'"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_bad_arrays_are_told_in_one_line(tmp_path, kind):
    changed, expected = WRONG[kind]
    np.savez(tmp_path / "x.npz", **features(**changed))
    with pytest.raises(UserError, match=expected) as caught:
        load(f"features:{tmp_path / 'x.npz'}")
    assert "\n" not in str(caught.value) and "x.npz" in str(caught.value)


@pytest.mark.parametrize(
    "other",
    [
        np.array(["a", "b"]),
        np.array([None]),
        np.zeros(1, "M8[D]"),
        np.zeros(1, [("a", "i4")]),
        np.zeros(1, "g"),
        np.zeros(1, "c8"),
    ],
)
def test_arrays_that_are_not_read_may_be_of_any_type_and_are_named(tmp_path, other):
    np.savez(tmp_path / "x.npz", **features(), beside=other, test_objects=other, train_images=other)
    assert (
        load(f"features:{tmp_path / 'x.npz'}").left_out
        == "Not used of features:x.npz: beside, test_objects, train_images."
    )
    np.savez_compressed(tmp_path / "y.npz", **pictures(), train_mask=other)
    assert load(f"npz:{tmp_path / 'y.npz'}").left_out == "Not used of npz:y.npz: train_mask."


@pytest.mark.parametrize("part", ["train", "val"])
@pytest.mark.parametrize("kind", ["npz", "features"])
def test_test_items_among_others_are_told_and_have_no_folds(tmp_path, kind, part):
    arrays, what = (pictures(), "images") if kind == "npz" else (features(), "features")
    arrays |= {f"val_{what}": arrays[f"test_{what}"][::-1] + 1, "val_labels": arrays["test_labels"]}
    arrays |= {f"test_{what}": arrays[f"{part}_{what}"][:7], "test_labels": arrays["test_labels"][:7]}
    np.savez(tmp_path / "x.npz", **arrays, beside=np.zeros(3))
    name = f"{kind}:{tmp_path / 'x.npz'}"
    data, of = load(name), "training" if part == "train" else "held-out"
    told = f"Of 7 test {data.test.kind} of {data.name}, 7 are {of} {data.test.kind}, too: what is measured on these "
    assert data.left_out == f"Not used of {data.name}: beside. {told}does not hold for new ones."
    assert load(f"few:30:{name}").left_out == data.left_out
    assert len(data.train) + len(data.held_out) + len(data.test) >= 57  # none is taken out
    with pytest.raises(UserError, match=f"^fold:1/2:{name}: expected .* among the test images of .* got 7 that are"):
        load(f"fold:1/2:{name}")


def test_an_unused_tensor_of_eight_bits_is_named(tmp_path):
    tensors = {name: torch.from_numpy(array) for name, array in features().items()}
    save_tensors({**tensors, "scale": torch.zeros(3, dtype=torch.float8_e5m2)}, tmp_path / "x.safetensors")
    assert load(f"features:{tmp_path / 'x.safetensors'}").left_out == "Not used of features:x.safetensors: scale."


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_labels_without_signs_are_read_of_both_kinds_of_file(tmp_path, kind):
    arrays = features(train_labels=features()["train_labels"].astype(kind))
    save_file(arrays, tmp_path / "x.safetensors")
    np.savez(tmp_path / "x.npz", **features())
    found, expected = load(f"features:{tmp_path / 'x.safetensors'}"), load(f"features:{tmp_path / 'x.npz'}")
    assert found.fingerprint == expected.fingerprint


def test_damage_of_numbers_that_are_stored_as_they_are_is_seen(tmp_path):
    file = tmp_path / "x.npz"
    np.savez(file, **features())
    content = bytearray(file.read_bytes())
    content[content.find(features()["train_features"].tobytes()) + 301] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"expected a whole .npz file that can be read, got Bad CRC-32"):
        load(f"features:{file}")


@pytest.mark.parametrize(("scale", "told"), [(1.0, False), (1e-2, False), (1e-6, True), (0.0, True)])
def test_numbers_too_small_for_heads_are_told(tmp_path, caplog, scale, told):
    small = features()["train_features"] * np.float32(scale)
    np.savez(tmp_path / "x.npz", **features(train_features=small))
    with caplog.at_level(logging.WARNING, "routebench"):
        load(f"features:{tmp_path / 'x.npz'}")
    assert [("too near for heads" in line) for line in caplog.messages] == [True] * told


@pytest.mark.parametrize(
    ("masked", "zeros", "told"),
    [
        ("train", 0, ""),
        ("train", 3, "3 tokens of test items"),
        ("test", 3, "3 tokens of train items"),
        ("", 3, ""),
        ("train test", 3, ""),
    ],
)
def test_zeros_of_a_part_without_a_mask_beside_one_with_a_mask_are_told(tmp_path, caplog, masked, zeros, told):
    arrays = features()
    for part, count in (("train", 50), ("test", 20)):
        arrays[f"{part}_features"] = arrays[f"{part}_features"].copy()
        arrays[f"{part}_features"][1, :zeros] = 0
        arrays |= {f"{part}_mask": np.ones((count, 4), bool)} if part in masked else {}
    np.savez(tmp_path / "x.npz", **arrays)
    with caplog.at_level(logging.WARNING, "routebench"):
        load(f"features:{tmp_path / 'x.npz'}")
    assert [told in line and "are zeros alone, and count" in line for line in caplog.messages] == [True] * bool(told)


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
@pytest.mark.parametrize("left", [0, 7, 0.5, 0.99])
def test_a_damaged_file_is_refused(tmp_path, name, left):
    file = tmp_path / name
    if name.endswith("npz"):
        np.savez(file, **features())
    else:
        save_file(features(), file)
    content = file.read_bytes()
    file.write_bytes(content[: left if isinstance(left, int) else int(left * len(content))])
    with pytest.raises(UserError, match=f"expected a whole {file.suffix} file"):
        load(f"features:{file}")


def told_of(file: Path) -> str:
    """The error for a file; empty where it can be read."""
    try:
        load(f"features:{file}")
    except UserError as error:
        return str(error)
    return ""


def test_damage_anywhere_raises_nothing_else_than_one_line(tmp_path):
    """Bits that are changed, and ends that are cut off, in the three kinds of file."""
    random, told = np.random.RandomState(0), []
    np.savez(tmp_path / "a.npz", **features())
    np.savez_compressed(tmp_path / "b.npz", **features())
    save_file(features(), tmp_path / "c.safetensors")
    for name in ("a.npz", "b.npz", "c.safetensors"):
        whole = (tmp_path / name).read_bytes()
        for number in range(120):
            content, place = bytearray(whole), random.randint(len(whole))
            place = (place, place % 300, len(whole) - 1 - place % 500)[number % 3]  # anywhere, at the start, at the end
            content[place] ^= 1 << random.randint(8)
            (tmp_path / f"{number}{name}").write_bytes(content[: place + 1] if number % 7 == 0 else content)
            told.append(told_of(tmp_path / f"{number}{name}"))
    assert sum(map(bool, told)) > 100 and not any("\n" in one for one in told)


@pytest.mark.parametrize(
    ("train", "test", "told"),
    [
        (np.arange(50) % 3 + 1, np.arange(20) % 3 + 1, "from 0 to 3, got none of 0; number classes from 0 on"),
        (np.arange(50) % 3, np.arange(20) % 4, "from 0 to 3, got none of 3; "),
        (np.r_[np.arange(49) % 3, 40], np.arange(20) % 3, "from 0 to 40, got none of 3, 4, 5, 6, 7 and 32 more; "),
        (np.arange(50) % 2 * 2, np.arange(20) % 2, "from 0 to 2, got none of 1; "),
    ],
)
@pytest.mark.parametrize("kind", ["npz", "features"])
def test_classes_that_nothing_is_trained_on_are_refused(tmp_path, kind, train, test, told):
    images = {f"{part}_images": np.zeros((n, 8, 8), np.uint8) for part, n in (("train", 50), ("test", 20))}
    arrays = {**features(), **images, "train_labels": train, "test_labels": test}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(
        UserError, match=f"^{kind}:.*: expected training (images|tokens) of each label {told}"
    ) as raised:
        load(f"{kind}:{tmp_path / 'x.npz'}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("several", [False, True])
def test_named_classes_that_nothing_is_trained_on_are_told(tmp_path, several):
    labels = np.eye(5, dtype=np.uint8)[:3].cumsum(0)[np.arange(50) % 3] if several else np.arange(50) % 3
    arrays = features(train_labels=labels, test_labels=labels[:20])
    save_file(arrays, tmp_path / "x.safetensors", {"classes": json.dumps(list("abcde"))})
    kind = load("token-pairs").train.kind
    told = f"No training {kind} of features:x.safetensors show these of its 5 classes: d, e."
    assert load(f"features:{tmp_path / 'x.safetensors'}").left_out == told


@pytest.mark.parametrize(("tested", "told"), [(4, "4"), (2, "2, 3, 4")])
def test_classes_that_nothing_is_tested_of_are_told(tmp_path, tested, told):
    np.savez(tmp_path / "x.npz", **features(train_labels=np.arange(50) % 5, test_labels=np.arange(20) % tested))
    data = load(f"features:{tmp_path / 'x.npz'}")
    assert f"No test {data.test.kind} of features:x.npz show these of its 5 classes: {told}." in data.left_out


@pytest.mark.parametrize("held_out", [1, 4, 5])
def test_classes_that_nothing_held_out_is_of_are_told(tmp_path, held_out):
    arrays = features(train_labels=np.arange(50) % 5, test_labels=np.arange(20) % 5)
    given = {"val_features": arrays["test_features"] + 1, "val_labels": np.arange(20) % held_out}
    np.savez(tmp_path / "x.npz", **arrays, **given)
    data = load(f"features:{tmp_path / 'x.npz'}")
    lacking = ", ".join(map(str, range(held_out, 5)))
    told = f"No held-out {data.test.kind} of features:x.npz show these of its 5 classes: {lacking}."
    assert (told in data.left_out) == (held_out < 5)


def test_a_test_part_of_one_class_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", **features(train_labels=np.arange(50) % 5, test_labels=np.ones(20, int)))
    with pytest.raises(UserError, match=r"expected test .* of two classes at least, got 1 alone; add some of the"):
        load(f"features:{tmp_path / 'x.npz'}")


def test_a_label_that_names_a_class_beyond_all_items_is_told(tmp_path):
    np.savez(tmp_path / "x.npz", **features(train_labels=np.where(np.arange(50) == 3, 10**15, np.arange(50) % 5)))
    with pytest.raises(UserError, match="numbered from 0 on, got the label 1000000000000000 of 70 items"):
        load(f"features:{tmp_path / 'x.npz'}")


@pytest.mark.parametrize("blanks", range(8))
def test_numbers_may_lie_anywhere_in_the_file(tmp_path, blanks):
    """Headers of any length, and truth values before numbers of four bytes, as other software may write them."""
    arrays = {"train_mask": np.ones((50, 4), bool)[:, :4], **features()}
    arrays["train_mask"][0, 1:] = False
    kinds = {"bool": "BOOL", "float32": "F32", "int64": "I64"}
    known, place = {}, 0
    for name, array in arrays.items():
        known[name] = {
            "dtype": kinds[str(array.dtype)],
            "shape": array.shape,
            "data_offsets": [place, place + array.nbytes],
        }
        place += array.nbytes
    header = json.dumps(known).encode() + b" " * blanks
    content = b"".join(array.tobytes() for array in arrays.values())
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content)
    np.savez(tmp_path / "x.npz", **arrays)
    found, expected = load(f"features:{tmp_path / 'x.safetensors'}"), load(f"features:{tmp_path / 'x.npz'}")
    assert found.fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    "classes",
    ["{}", "[1]", "[]", "no json", '["a"]', '["a", "a", "c", "d", "e"]', '["a", "b", "c", "d", ""]',
     r'["a", "b", "c", "d", "\u001b[2J"]'],
)  # fmt: skip
def test_names_of_classes_that_do_not_fit_are_refused(tmp_path, classes):
    save_file(features(), tmp_path / "x.safetensors", {"classes": classes})
    with pytest.raises(UserError, match="classes"):
        load(f"features:{tmp_path / 'x.safetensors'}")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "expected a .safetensors or .npz file"),
        ("missing.npz", "does not exist"),
        ("x.npy", "does not exist"),
        ("~nobody-of-this-name/x.npz", "."),
        ("a\0b.npz", "."),
    ],
)
def test_paths_that_are_no_files_are_refused(path, expected):
    with pytest.raises(UserError, match=expected):
        load(f"features:{path}")


def test_a_link_to_nothing_is_told(tmp_path):
    (tmp_path / "x.npz").symlink_to(tmp_path / "gone.npz")
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    for name in ("x.npz", "loop.npz"):
        with pytest.raises(UserError, match="does not exist; it is a link that leads nowhere"):
            load(f"features:{tmp_path / name}")


def test_a_folder_and_another_kind_of_file_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("1,2")
    for path, expected in ((tmp_path, "got a folder"), (tmp_path / "x.csv", "got 'x.csv'")):
        with pytest.raises(UserError, match=expected):
            load(f"features:{path}")


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
    file = tmp_path / "x.npz"
    np.savez(file, **features())
    before = load(f"features:{file}").fingerprint
    np.savez(file, **features(train_labels=(np.arange(50) + 1) % 5))
    assert load(f"features:{file}").fingerprint != before


def test_some_items_and_folds_of_features(tmp_path):
    np.savez(tmp_path / "x.npz", **features())
    name = f"features:{tmp_path / 'x.npz'}"
    assert (
        len(load(f"take:30:{name}").train) + len(load(f"take:30:{name}").held_out) + len(load(f"take:30:{name}").test)
        == 30
    )
    fold = load(f"fold:1/3:{name}")
    assert len(fold.test) == 17 and len(fold.train) + len(fold.held_out) == 33
    few = load(f"few:15:{name}")
    assert len(few.train) + len(few.held_out) == 15 and len(few.test) == 20
    assert few.train.labels.bincount().min() >= 1


@pytest.mark.parametrize(
    "name", ["few:x:mnist5k", "few:0:mnist5k", "few::mnist5k", "few:5001:mnist5k", "few:3:mnist5k"]
)
def test_few_images_of_a_wrong_number_are_refused(name):
    with pytest.raises(UserError, match="expected"):
        load(name)


def test_pictures_in_the_form_of_medmnist(tmp_path):
    np.savez_compressed(tmp_path / "pathmnist.npz", **pictures())
    data = load(f"npz:{tmp_path / 'pathmnist.npz'}")
    assert data.name == "npz:pathmnist.npz" and data.train.shape == (1, 28, 28)
    assert tuple(map(len, (data.train, data.held_out, data.test))) == (40, 10, 10)
    colours = {
        f"{part}_images": np.repeat(pictures()[f"{part}_images"][..., None], 3, 3) for part in ("train", "val", "test")
    }
    np.savez(tmp_path / "colour.npz", **pictures(**colours))
    coloured = load(f"npz:{tmp_path / 'colour.npz'}")
    assert coloured.train.shape == (3, 28, 28) and torch.equal(coloured.test.pixels[:, :1], data.test.pixels)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"train_images": np.random.RandomState(0).rand(40, 28, 28)}, "as uint8.*got float64.*; scale them to 0..255"),
        (
            {"train_images": np.zeros((40, 3, 28, 28), np.uint8)},
            r"got uint8 \(40, 3, 28, 28\); put one or three .* last",
        ),
        (
            {"train_images": np.zeros((40, 28, 28, 4), np.uint8)},
            r"got uint8 \(40, 28, 28, 4\); put one or three .* last",
        ),
        ({"train_images": None, "train_features": NAN}, "got no train_images but .*; features:FILE reads features"),
        ({"test_images": np.zeros((10, 14, 14), np.uint8)}, r"test images of shape \(1, 28, 28\)"),
        ({"test_images": None}, "got no test_images"),
    ],
)
def test_bad_pictures_are_told(tmp_path, changed, expected):
    np.savez(tmp_path / "x.npz", **pictures(**changed))
    with pytest.raises(UserError, match=expected):
        load(f"npz:{tmp_path / 'x.npz'}")


def with_header(shape, count=20):
    """A file in the form of npy whose header says another shape than its pictures have."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(count * 64)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "compressed"])
@pytest.mark.parametrize("shape", [(25, 8, 8), (15, 8, 8), (0, 8, 8), (), (2**40, 8, 8)], ids=str)
def test_a_header_that_says_another_size_is_told_in_one_line(tmp_path, shape, compression):
    file = tmp_path / "x.npz"
    np.savez(file, **pictures(train_images=None))
    with zipfile.ZipFile(file, "a", compression) as archive:
        archive.writestr("train_images.npy", with_header(shape))
    with pytest.raises(UserError, match=r"expected [\d,]+ bytes of train_images, whose header says .*, got 1,280"):
        load(f"npz:{file}")


def test_an_array_that_is_there_twice_is_told(tmp_path):
    file = tmp_path / "x.npz"
    np.savez(file, **pictures())
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("test_images.npy", archive.read("val_images.npy"))
    with pytest.raises(UserError, match="expected each array once, got test_images again"):
        load(f"npz:{file}")


def test_classes_within_lists_within_lists_are_told(tmp_path):
    save_file(features(), tmp_path / "x.safetensors", metadata={"classes": "[" * 100_000 + "]" * 100_000})
    with pytest.raises(UserError, match="'classes' as a JSON list of names"):
        load(f"features:{tmp_path / 'x.safetensors'}")
