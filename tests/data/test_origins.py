"""The origin of extracted features tells them apart, whatever rounded them; a file that changed is refused."""

from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from routebench.data import extracted, fingerprint, load, origins
from routebench.errors import UserError
from tests.data.extractions import drawn, written


def test_features_that_another_processor_rounds_otherwise_are_the_same_data(tmp_path, monkeypatch):
    """Runs on both count as of one data set, as training that is rounded otherwise does."""
    own, backbone = written(tmp_path / "own.safetensors"), drawn(layer="features.3")
    maps = backbone.network.features[3].forward
    monkeypatch.setattr(backbone.network.features[3], "forward", lambda given: maps(given) * (1 + 2**-9))
    other = written(tmp_path / "other.safetensors", replace(backbone, versions={"torch": "3"}), batch=7)
    assert not torch.equal(own.test.values, other.test.values)
    assert own.fingerprint == other.fingerprint
    for some in ("few:100:", "take:100:", "fold:1/3:", "take:50:fold:1/3:"):
        found = {load(f"{some}features:{tmp_path / name}.safetensors").fingerprint for name in ("own", "other")}
        assert len(found) == 1 and own.fingerprint not in found


def test_all_that_decides_about_features_tells_them_apart(tmp_path, monkeypatch):
    backbone, data = drawn(layer="features.3"), load("take:200:mnist5k")
    wider = replace(data, test=replace(data.test, pixels=255 - data.test.pixels))
    turned = replace(data, test=replace(data.test, labels=9 - data.test.labels))
    found = [
        written(tmp_path / "0.safetensors", backbone),
        written(tmp_path / "1.safetensors", replace(backbone, mean=(0.5,) * 3)),
        written(tmp_path / "2.safetensors", replace(backbone, deviation=(0.5,) * 3)),
        written(tmp_path / "3.safetensors", replace(backbone, weights="f" * 64)),
        written(tmp_path / "4.safetensors", replace(backbone, size=40)),
        written(tmp_path / "5.safetensors", drawn(layer="features.4")),
        written(tmp_path / "6.safetensors", backbone, replace(wider, fingerprint=fingerprint(wider.test))),
        written(tmp_path / "7.safetensors", backbone, turned),
        written(tmp_path / "8.safetensors", backbone, "take:190:mnist5k"),
        written(tmp_path / "9.safetensors", backbone, kind="float32"),
    ]
    monkeypatch.setattr(origins, "VERSION", 2)
    found.append(written(tmp_path / "10.safetensors", backbone))
    assert len({one.fingerprint for one in found}) == len(found)


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_features_that_changed_in_their_file_are_refused(tmp_path, part):
    file = tmp_path / "x.safetensors"
    written(file)
    with safe_open(file, framework="pt") as opened:
        notes, arrays = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    whole = load(f"features:{file}").fingerprint
    arrays[f"{part}_features"][-1, -1, -1] += 1
    save_file(arrays, file, notes)
    with pytest.raises(UserError, match=r"x.safetensors: expected the features that routebench wrote .* extract them"):
        load(f"features:{file}")
    del notes["routebench"]
    save_file(arrays, file, notes)
    assert load(f"features:{file}").fingerprint != whole


@pytest.mark.parametrize("notes", [{"routebench": "{}"}, {"routebench": "x", "digest": "0" * 64}, {"digest": "0"}])
def test_features_of_other_software_count_by_their_numbers(tmp_path, notes):
    file, other = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    written(file)
    with safe_open(file, framework="pt") as opened:
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    found = []
    for one in (file, other):
        save_file(arrays, one, notes)
        found.append(load(f"features:{one}").fingerprint)
        arrays["test_features"] = arrays["test_features"] * (1 + 2**-9)
    assert len(set(found)) == 2


def test_features_are_planned_with_their_fingerprint_before_they_are_extracted(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path))
    name = "efficientnet-lite0/blocks@32:take:100:mnist5k"
    planned = extracted.asked_for(name).declared()
    assert not (tmp_path / "features").exists() and planned.fingerprint == load(f"features:{name}").fingerprint
