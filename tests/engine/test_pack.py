"""Packed results: byte for byte the same, read by every command as the folder is, and safe to read from a stranger."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import routebench
from routebench.cli import cli
from routebench.engine.results import Store, _pack, files_of, pack, unpack
from routebench.errors import UserError
from tests.stress.received import DAMAGES, KINDS, Place, damages, packs, put

PUBLISHED = Path(__file__).resolve().parents[2] / "tests" / "packs" / "accuracy-quick"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    """A results folder."""
    shutil.copytree(files_of(PUBLISHED), tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def packed(folder, tmp_path):
    pack(folder, tmp_path / "packed")
    return tmp_path / "packed"


def contents(folder):
    parts = ("plans", "records", "arrays")
    return {file.relative_to(folder): file.read_bytes() for part in parts for file in (folder / part).iterdir()}


def run(*words):
    ended = CliRunner().invoke(cli, [str(word) for word in words])
    assert ended.exception is None, ended.exception
    return ended.stdout


def refused(*words):
    """The line that a call ends with."""
    error = CliRunner().invoke(cli, [str(word) for word in words]).exception
    assert isinstance(error, UserError)
    assert "\n" not in str(error)
    return str(error)


def test_a_pack_holds_every_byte(folder, packed, tmp_path):
    assert {file.name for file in packed.iterdir()} == {"records.parquet", "arrays.parquet"}
    assert unpack(packed, tmp_path / "again") == len(contents(folder)) > 70
    assert contents(tmp_path / "again") == contents(folder)


def test_a_pack_is_read_as_the_folder_is(folder, packed):
    assert routebench.load_results(packed).equals(routebench.load_results(folder))
    cell = routebench.load_results(folder)["cell"].iloc[0]
    expected = routebench.load_arrays(folder, cell)
    assert {name: array.tolist() for name, array in routebench.load_arrays(packed, cell).items()} == {
        name: array.tolist() for name, array in expected.items()
    }
    assert Store(packed).verify() == Store(folder).verify()
    assert Store(packed).planned().equals(Store(folder).planned())
    assert run("export", packed, "--format", "csv") == run("export", folder, "--format", "csv")
    assert run("compare", folder, packed)
    assert run("reproduce", cell[:12], "--results", packed) == run("reproduce", cell[:12], "--results", folder)


def test_the_report_of_a_pack_lies_beside_it(folder, packed):
    pages = []
    for each in (folder, packed):
        run("report", each)
        pages.append((each / "report.html").read_text(encoding="utf-8").replace(str(each), ""))
    assert pages[0] == pages[1]


def test_nothing_is_added_to_a_pack(packed):
    told = refused("suite", "accuracy", "--preset", "smoke", "--results", packed)
    assert "is packed" in told
    assert "--unpack" in told
    assert {file.name for file in packed.iterdir()} == {"records.parquet", "arrays.parquet"}


def test_the_command_packs_and_unpacks(folder, tmp_path):
    again, new, unpacked = (("-o", tmp_path / name) for name in "pqu")
    assert "39 results" in run("publish", folder, *again)
    run("publish", tmp_path / "p", "--unpack", *unpacked)
    assert contents(tmp_path / "u") == contents(folder)
    Store(tmp_path / "u").prepare()  # runs can be added
    assert "holds results already" in refused("publish", folder, *again)
    assert "is packed already" in refused("publish", tmp_path / "p", *new)
    assert "expected a packed results folder" in refused("publish", folder, "--unpack", *new)
    assert not (tmp_path / "q").exists()


def test_chosen_settings_lie_beside_a_pack_and_come_back(folder, tmp_path):
    for name in ("a.quick.settings.json", "mine.a.quick.settings.json", "notes.json"):
        (folder / name).write_text(name)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "a.quick.settings.json").write_text("is there already")
    with pytest.raises(UserError, match=r"has another a\.quick\.settings\.json than .*; name another folder with -o"):
        pack(folder, tmp_path / "packed")
    assert [file.name for file in (tmp_path / "packed").iterdir()] == ["a.quick.settings.json"]
    (tmp_path / "packed" / "a.quick.settings.json").write_text("a.quick.settings.json")
    pack(folder, tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "again")
    told = {file.name: file.read_text() for file in (tmp_path / "again").glob("*.json") if file.name != "schema.json"}
    assert told == {
        "a.quick.settings.json": "a.quick.settings.json",
        "mine.a.quick.settings.json": "mine.a.quick.settings.json",
    }


def test_what_is_damaged_is_not_published(folder, tmp_path):
    victim = min((folder / "arrays").iterdir())
    victim.write_bytes(victim.read_bytes()[:-1])
    ended = CliRunner().invoke(cli, ["publish", str(folder), "-o", str(tmp_path / "p")])
    assert "moved to damaged/" in ended.stderr and "nothing is published: " in ended.stderr
    assert ended.exit_code == 3 and not (tmp_path / "p").exists()


def test_a_damaged_pack_is_told(packed):
    with (packed / "records.parquet").open("r+b") as stream:
        stream.seek(40)
        stream.write(b"\0" * 400)
    assert "expected a file of a packed results folder" in refused("status", packed)


@pytest.mark.parametrize(
    "name", ["records/../../victim.json", "/records/x.json", "arrays/x.safetensors", "fits/x.json"]
)
def test_a_pack_cannot_write_elsewhere(packed, name, tmp_path):
    table = pa.table({"file": [name], "content": pa.array([b"{}"], pa.large_binary())})
    parquet.write_table(table, packed / "records.parquet")
    with pytest.raises(UserError, match="no results folder has"):
        Store(packed)
    assert not [file for file in tmp_path.rglob("*") if file.name in {"victim.json", "x.json", "x.safetensors"}]


def test_a_cache_that_cannot_be_written_is_told(packed, cache, monkeypatch):
    (cache.parent / "file").write_text("which is in the way")
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(cache.parent / "file"))
    with pytest.raises(UserError, match="set ROUTEBENCH_CACHE"):
        Store(packed)
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(cache.parent / "other"))
    assert len(list(Store(packed).records())) == 39
    assert len([*(cache.parent / "other" / "unpacked").iterdir()]) == 1


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(file.read_bytes()[:500]), Path.unlink])
@pytest.mark.parametrize("name", ["arrays.parquet", "records.parquet"])
def test_of_a_pack_that_is_not_whole_nothing_is_unpacked(packed, tmp_path, name, damage):
    damage(packed / name)
    with pytest.raises(UserError):
        unpack(packed, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_of_what_is_interrupted_nothing_is_unpacked(packed, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("routebench.engine.results._pack.write_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            unpack(packed, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert unpack(packed, tmp_path / "again") > 39


@pytest.mark.parametrize("case", [case for case in packs(Path()) if case != "no rows" and not case.startswith("8 GB")])
def test_a_pack_that_no_packer_writes_is_refused(packed, cache, case):
    packs(packed)[case]()
    before = {*cache.rglob("*.json")}
    assert "records.parquet" in refused("status", packed)
    assert not {*cache.rglob("*.json")} - before


@pytest.mark.parametrize("is_forged", [False, True])
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_small_pack_holds_no_gigabytes(packed, cache, monkeypatch, dictionary, is_forged):
    """Whether its heading says so, or is forged."""
    monkeypatch.setattr(_pack, "UNPACKED", 8 << 20)
    content = pa.array([b"0" * (1 << 20)] * 32, pa.large_binary())
    table = pa.table({"file": [f"records/{number:016x}.json" for number in range(32)], "content": content})
    parquet.write_table(table, packed / "records.parquet", compression="zstd", use_dictionary=dictionary)
    if is_forged:
        monkeypatch.setattr(_pack, "_declared", lambda _: 0)
    assert (packed / "records.parquet").stat().st_size < 40_000
    before = {*cache.rglob("*.json")}
    assert "it holds more than 8,388,608 bytes" in refused("status", packed)
    assert not {*cache.rglob("*.json")} - before


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sparse"])
@pytest.mark.parametrize("name", ["records.parquet", "arrays.parquet"])
def test_a_file_of_a_pack_is_a_file(packed, tmp_path, name, kind):
    place = Place(tmp_path / "work")
    put(place, packed / name, kind)
    assert name in refused("status", packed)
    assert place.is_untouched


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_copy_is_made_anew(packed, case):
    expected = run("export", packed, "--format", "csv")
    copy = files_of(packed)
    damages(copy)[case]()
    ended = CliRunner().invoke(cli, ["export", str(packed), "--format", "csv"])
    assert (ended.stdout, ended.stderr) == (expected, "")
    assert files_of(packed) == copy
    assert contents(copy) == contents(files_of(PUBLISHED))


def test_a_whole_copy_stays(packed, cache):
    first = files_of(packed).stat().st_ino
    assert routebench.load_results(packed).equals(routebench.load_results(packed))
    assert files_of(packed).stat().st_ino == first


@pytest.mark.parametrize("name", ["fits/../a.json", "fits/0123456789abcdef/../../a.json", "fits/0123456789abcdef/a.py"])
def test_a_file_of_networks_names_nothing_elsewhere(packed, tmp_path, name):
    schema = pa.schema({"file": pa.string(), "content": pa.large_binary()})
    parquet.write_table(pa.table([[name], [b"{}"]], schema), packed / "networks.parquet")
    with pytest.raises(UserError, match="which no results folder has"):
        unpack(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "a.json").exists()


def test_networks_are_packed_and_not_unpacked_alone(folder, packed, tmp_path):
    told = refused("publish", packed, "--unpack", "--networks", "-o", tmp_path / "out")
    assert told.startswith("--networks: expected a results folder to pack, got --unpack")
    assert "published: " in run("publish", folder, "--networks", "-o", tmp_path / "out")
    assert {file.name for file in (tmp_path / "out").iterdir()} == {*_pack.HELD}
    assert unpack(tmp_path / "out", tmp_path / "again") == len(contents(folder))
