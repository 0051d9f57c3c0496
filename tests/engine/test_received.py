"""A stranger's folder may hold pipes, devices, links and files without end; no reader waits, and none follows."""

import json
import os
import re
import shutil
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import routebench
from routebench import atomic, catalogue, published, ranking, recipes
from routebench.analysis.figures import save_svg
from routebench.comparing._rounds import _kept
from routebench.data import declared_where_missing, extracting, load
from routebench.engine.reproduce import read_record
from routebench.engine.results import Store, checksum, existing, pack, unpack
from routebench.engine.running._status import status_of
from routebench.engine.suites import ChosenSettings, load_suite
from routebench.errors import UserError
from routebench.received import NotPlain, from_json, open_plain, read_plain, text_in
from routebench.registry import load_plugin
from routebench.report import write_report
from tests.stress.received import KINDS, OURS, PARTS, Place, put

NO_FILES = [kind for kind in KINDS if kind != "folder"]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "work")


def read_all(folder):
    """All that readers ask a results folder for, and what they are told."""
    store = Store(folder)
    store.results()
    store.planned()
    store.verify()
    store.superseded()
    return store.warnings


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("part", ["plans", "records", "arrays"])
def test_what_is_no_file_is_told_and_left_where_it_is(place, part, kind):
    target = min((place.results / part).iterdir())
    put(place, target, kind)
    before = target.lstat()
    told = read_all(place.results)
    assert any(f"{part}/{target.name}" in sentence for sentence in told)
    if kind == "sparse" and part == "arrays":
        assert not target.exists() or target.lstat() == before
    else:
        assert target.lstat().st_ino == before.st_ino
        assert read_all(place.results) == told  # the next reader is told, too
    assert place.is_untouched


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_that_is_no_file_is_told(place, kind):
    put(place, place.results / "schema.json", kind)
    assert any("schema.json" in sentence for sentence in read_all(place.results))
    assert place.is_untouched


@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "pipe", "/dev/zero"])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_results_folder_is_a_folder(place, part, kind):
    put(place, place.results / part, kind)
    with pytest.raises(UserError, match=f"expected {part}/ to be a folder in it"):
        Store(place.results)
    assert place.is_untouched


def test_a_results_folder_may_be_named_by_a_link(place):
    (place.folder / "here").symlink_to(place.results)
    assert read_all(place.folder / "here") == []


def test_nothing_of_a_fit_is_read_through_a_link(place):
    from routebench.engine.running import StoreContext

    store, key = Store(place.results), "0" * 16
    (place.results / "fits").mkdir()
    put(place, place.results / "fits" / key, "dangling")
    context = StoreContext.__new__(StoreContext)
    context.store = store
    with pytest.raises(UserError, match="to be a folder in it"):
        context._folder(key)
    (place.results / "fits" / key).unlink()
    put(place, place.results / "fits" / key / "checkpoint.safetensors", "link")
    with pytest.raises(UserError, match=r"checkpoint\.safetensors cannot be read \(it is a link, not a file\)"):
        context._folder(key)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["fit.json", "weights.safetensors"])
def test_verifying_waits_for_no_file_of_a_fit_and_follows_none(place, name, kind):
    folder = place.results / "fits" / ("0" * 16)
    folder.mkdir(parents=True)
    (folder / "fit.json").write_text(checksum.sealed({"epochs": [], "files": {name: "0" * 64}}))
    put(place, folder / name, kind)
    store = Store(place.results)
    store.verify()
    assert any(f"fits/{folder.name}/{name}" in sentence for sentence in store.warnings)
    assert not any("is not there" in sentence for sentence in store.warnings)
    assert place.is_untouched


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_is_no_file_is_told_as_what_it_is(place, kind):
    weights = place.results / "fits" / ("0" * 16) / "weights.safetensors"
    weights.parent.mkdir(parents=True)
    record = min((place.results / "records").iterdir())
    record.write_text(
        checksum.sealed(
            {**json.loads(record.read_text()), "files": {f"{weights.relative_to(place.results)}": "0" * 64}}
        )
    )
    put(place, weights, kind)
    store = Store(place.results)
    store.verify()
    (told,) = (sentence for sentence in store.warnings if weights.parent.name in sentence)
    assert told.startswith(f"{weights.relative_to(place.results)} cannot be read (")
    assert place.is_untouched


@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "pipe"])
def test_a_fit_that_is_no_folder_is_told_and_nothing_of_it_is_moved(place, kind):
    folder = place.results / "fits" / ("0" * 16)
    folder.parent.mkdir()
    (place.ours / "fit.json").write_text(OURS)
    folder.symlink_to(place.ours) if kind == "link" else put(place, folder, kind)
    store = Store(place.results)
    store.verify()
    assert any(f"expected fits/{folder.name}/ to be a folder in it" in sentence for sentence in store.warnings)
    assert (place.ours / "fit.json").read_text() == OURS


NO_FITS = (
    "[]", "1", '"checksum"', "[" * 100_000, '{"files": {}}', '{"epochs": 1}', '{"epochs": [1]}', "9" * 10_000,
    '{"epochs": [{"seconds": null}]}', '{"epochs": [], "backends": 1}', '{"epochs": [], "backends": [[]]}',
    *(json.dumps({"epochs": [], "files": {name: ""}}) for name in ("", "..", "../x", "a/b", "/etc/passwd", "a\0b")),
)  # fmt: skip


@pytest.mark.parametrize("content", NO_FITS, ids=lambda text: text[:40])
def test_no_content_of_a_fit_stops_verifying(place, content):
    folder = place.results / "fits" / ("0" * 16)
    folder.mkdir(parents=True)
    (folder / "fit.json").write_text(content)
    store = Store(place.results)
    store.verify()
    assert store.warnings == [f"fits/{folder.name}/fit.json could not be read; it was moved to damaged/"]
    assert store.fit_notes(folder.name) is None


def test_unfinished_files_are_removed_from_no_folder_but_its_own(place):
    (place.results / "fits").mkdir()
    (place.results / "fits" / ("0" * 16)).symlink_to(place.ours)
    Store(place.results).prepare()
    assert place.is_untouched


def test_a_lock_empties_no_file_that_a_link_leads_to(place):
    (place.results / "locks").mkdir()
    (place.results / "locks" / "plans-sequence.lock").symlink_to(place.own(".json"))
    with pytest.raises(NotPlain):
        Store(place.results).lock("plans", "sequence")
    assert place.is_untouched


@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "pipe", "socket", "/dev/zero"])
@pytest.mark.parametrize("name", ["report.html", "report-figures"])
def test_a_report_is_written_to_no_place_of_a_stranger(place, name, kind):
    put(place, place.results / name, kind)
    with pytest.raises(UserError, match=r"cannot be written to .*: it is a .*; choose another with -o"):
        write_report(place.results)
    assert place.is_untouched


def test_a_figure_replaces_a_link(place):
    link = place.results / "figure.svg"
    link.symlink_to(place.own(".html"))
    save_svg("<svg >", link)
    assert not link.is_symlink()
    assert place.is_untouched


def test_a_link_that_the_user_names_is_followed(place):
    link = place.folder / "link.html"
    link.symlink_to(place.folder / "there.html")
    atomic.write_output(link, "text", "the report")
    assert (place.folder / "there.html").read_text() == "text"


@pytest.mark.parametrize("kind", ["pipe", "socket", "/dev/zero", "folder", "sparse", "loop", "dangling"])
def test_suites_and_settings_are_files(place, kind):
    put(place, place.folder / "mine.toml", kind)
    put(place, place.folder / "mine.json", kind)
    with pytest.raises(UserError, match=r"expected a TOML file|no such file"):
        load_suite(str(place.folder / "mine.toml"))
    with pytest.raises(UserError, match="cannot be read"):
        ChosenSettings.read(place.folder / "mine.json", "accuracy")


ENDLESS = ["pipe", "socket", "/dev/zero", "folder", "sparse"]
READ_ALONG = {
    "names of a user's suite": ("mine.toml", lambda file: catalogue._entries_of_suites(str(file)) and ""),
    "the line of a suite in the list": ("mine.toml", lambda file: catalogue._suite(file)["summary"]),
    "a table of printed numbers": ("published.csv", published._read),
    "recipes": ("recipes.toml", lambda file: recipes._read((file,))),
    "a plug-in": ("mine.py", lambda file: load_plugin(str(file))),
    "the pages of a plug-in's suites": ("suites/mine.toml", text_in),
    "features that are there": ("x.safetensors", extracting._header_of),
}
"""Files that something else than their main reader opens, and what it gives or says."""


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("what", READ_ALONG)
def test_nobody_waits_for_a_file_that_is_read_along(place, what, kind):
    name, read = READ_ALONG[what]
    put(place, place.folder / name, kind)
    said = "it is a |bytes|expected |folder|directory"
    try:
        told = read(place.folder / name)
    except (UserError, OSError) as error:
        told = str(error)
        assert re.search(said, told) and "\n" not in told
    assert told == "" or isinstance(told, bytes) or re.search(said, told)


@pytest.mark.parametrize("kind", NO_FILES)
def test_the_opener_opens_files_alone(place, kind):
    target = place.folder / "target"
    put(place, target, kind)
    for read in (read_plain, open_plain):
        with pytest.raises(OSError, match=r"it is a |bytes are read"):
            read(target)


def test_the_opener_reads_what_is_there(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    assert read_plain(tmp_path / "file")[0] == b"content"
    with open_plain(tmp_path / "file") as opened:
        assert opened.read() == b"content"
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link", named=True)[0] == b"content"
    with pytest.raises(NotPlain, match="it is a link"):
        read_plain(tmp_path / "link")
    with pytest.raises(NotPlain, match="it has 7 bytes, and at most 6 bytes are read"):
        read_plain(tmp_path / "file", 6)
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path)


def test_a_settings_file_of_performance_pages_is_not_waited_for(place):
    from routebench.report._asv_pages import asv_pages

    os.mkfifo(place.folder / "asv.conf.json")
    assert asv_pages(place.results, place.results / "report.html") is None


def test_ours_is_what_the_tests_think(place):
    assert place.is_untouched
    place.own(".html").write_text("x")
    assert not place.is_untouched
    assert json.dumps([1]) != OURS


def test_a_submission_that_may_not_be_looked_at_is_not_left_out_in_silence(monkeypatch):
    with TemporaryDirectory() as folder:
        own, cache = (Path(folder, name) for name in ("own", "cache"))
        for above in (Path(folder), own, cache, closed := own / "closed"):
            above.mkdir(exist_ok=True)
            above.chmod(0o777)
        call = ranking.board_of("quick"), own, own / "board.html"
        assert ranking.write_board(*call) == (0, [])  # imports what nobody else may
        call[-1].unlink()
        closed.chmod(0)
        monkeypatch.setenv("ROUTEBENCH_CACHE", str(cache))
        with without_rights():
            _, left_out = ranking.write_board(*call)
        closed.chmod(0o700)
        assert len(left_out) == 1
        assert "closed (Permission denied); make it readable" in left_out[0]


@contextmanager
def without_rights():
    """Root may look at everything."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


FILES = [
    lambda path: load(f"npz:{path}.npz"),
    lambda path: load(f"features:{path}.safetensors"),
    lambda path: load_suite(f"{path}.toml"),
    lambda path: load_plugin(f"{path}.py"),
]
FOLDERS = [
    lambda path: load(f"folder:{path}"),
    load_plugin,
    lambda path: existing(Path(path)),
    lambda path: routebench.compare(path, path),
    lambda path: unpack(Path(path), Path("copy")),
    lambda path: ranking.entry_of(Path(path)),
]


@pytest.mark.parametrize(
    ("name", "read"), [*(("x", one) for one in (*FILES, *FOLDERS)), *(("", one) for one in FOLDERS)]
)
def test_what_may_not_be_looked_at_is_not_called_missing(name, read):
    """Nor does it raise anything else; versions of Python differ in what `exists` says."""
    with TemporaryDirectory() as closed:
        Path(closed).chmod(0)
        with without_rights(), pytest.raises(UserError, match=r"cannot read .+ \(Permission denied\); make it"):
            read(str(Path(closed, name)))
        Path(closed).chmod(0o700)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("submission.json", lambda file: ranking.entry_of(file.parent)),
        ("record.json", read_record),
        ("rounds.json", _kept),
        ("suite.toml", lambda file: load_suite(str(file))),
        ("plugin.py", load_plugin),
        ("own.settings.json", lambda file: ChosenSettings.read(file, "own")),
        ("published.csv", published._read),
        ("recipes.toml", lambda file: recipes._read((file,))),
    ],
)
def test_a_file_that_may_not_be_read_is_not_called_something_else(name, read):
    with TemporaryDirectory() as folder:
        closed = Path(folder, name)
        closed.write_text("{}")
        closed.chmod(0)
        closed.parent.chmod(0o755)
        with without_rights(), pytest.raises(UserError, match=rf"cannot read .+{name} \(Permission denied\); make it"):
            read(closed)


DATA = {
    "mnist": ("MNIST", "MNIST/raw"),
    "fashion-mnist": ("FashionMNIST/raw",),
    "cifar10": ("cifar-10-batches-py",),
    "cifar100": ("cifar-100-python",),
    "take:20:mnist": ("MNIST/raw",),
    "cifar10-jpeg": ("cifar10-jpeg/train/airplane",),
    "affnist": ("affNIST/transformed", "affNIST/transformed/test_batches"),
    "smallnorb-azimuth": ("smallnorb",),
}
"""Data sets whose files lie in folders below that of all, which may be closed."""


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(("name", "closed"), [(name, one) for name, several in DATA.items() for one in several])
def test_files_of_a_data_set_that_may_not_be_looked_at_are_not_called_missing(monkeypatch, name, closed, planned):
    """Else they are downloaded again, or a plan takes the size of the data set and says nothing."""
    with TemporaryDirectory() as root:
        Path(root, closed).mkdir(parents=True)
        Path(root).chmod(0o755)
        Path(root, closed).chmod(0)
        monkeypatch.setenv("ROUTEBENCH_DATA", root)
        with (
            declared_where_missing() if planned else nullcontext(),
            without_rights(),
            pytest.raises(UserError, match=rf"cannot read {closed_in(root, closed)}.* \(Permission denied\); make it"),
        ):
            load(name)
        Path(root, closed).chmod(0o700)


def closed_in(root, closed):
    """The beginning of the path that a message names."""
    return re.escape(str(Path(root, closed)))


@pytest.mark.parametrize("closed", ["suites", "data", "routing", "analyses", "losses", "package/models/below"])
def test_a_folder_of_a_plug_in_that_may_not_be_looked_at_is_not_empty(closed):
    """Else what lies in it is not there, and nobody knows why."""
    with TemporaryDirectory() as folder:
        plugin = Path(folder, "package" if closed.startswith("package") else "")
        Path(folder, closed).mkdir(parents=True)
        Path(folder).chmod(0o755)
        (plugin / "recipes.toml").write_text("")
        if plugin != Path(folder):
            (plugin / "__init__.py").write_text("")
        Path(folder, closed).chmod(0)
        with (
            without_rights(),
            pytest.raises(UserError, match=rf"cannot read .+{closed} \(Permission denied\); make it"),
        ):
            load_plugin(str(plugin))
        Path(folder, closed).chmod(0o700)


@pytest.mark.parametrize("closed", ["plans", "records", "arrays", "damaged", "fits", "fits/0123456789abcdef"])
def test_a_part_of_results_that_may_not_be_looked_at_is_not_empty(place, closed):
    """Else plans that cannot be read are none, and networks that cannot be read are left out of a pack in silence."""
    with TemporaryDirectory() as folder:
        results, new = shutil.copytree(place.results, Path(folder) / "results"), Path(folder) / "new"
        (results / closed).mkdir(parents=True, exist_ok=True)
        for above in (Path(folder), results):
            above.chmod(0o777)
        (results / closed).chmod(0)
        with without_rights(), pytest.raises(UserError, match=rf"cannot read .+{closed}.+; make it readable"):
            pack(existing(results).path, new, networks=True)
        (results / closed).chmod(0o700)
        assert not new.exists()


def test_settings_that_may_not_be_looked_at_are_not_left_out_of_a_pack(place):
    with TemporaryDirectory() as folder:
        results = shutil.copytree(place.results, Path(folder) / "results")
        closed = results / "accuracy.quick.settings.json"
        closed.write_text("{}")
        closed.chmod(0)
        for above in (Path(folder), results):
            above.chmod(0o777)
        with without_rights(), pytest.raises(UserError, match=rf"cannot read .+{closed.name}.+; make it readable"):
            pack(existing(results).path, Path(folder) / "new", networks=False)
        assert not (Path(folder) / "new").exists()


@pytest.mark.parametrize("part", ["records", "arrays"])
def test_a_part_that_may_not_be_written_is_told_before_anything_runs(place, part):
    with TemporaryDirectory() as folder:
        results = shutil.copytree(place.results, Path(folder) / "results")
        for above in (Path(folder), results, *filter(Path.is_dir, results.iterdir())):
            above.chmod(0o777)
        (results / part).chmod(0o555)
        with without_rights(), pytest.raises(UserError, match="Permission denied"):
            Store(results).prepare()


@pytest.mark.parametrize("part", ["records", "arrays"])
def test_results_that_may_not_be_looked_at_are_not_measured_again(finished, part):
    """They may be whole, and a new measurement would take their place."""
    made, results = finished
    with TemporaryDirectory() as folder:
        copy = shutil.copytree(results, Path(folder) / "results")
        Path(folder).chmod(0o755)
        closed = copy / part / min((results / part).iterdir()).name
        closed.chmod(0)
        with (
            without_rights(),
            pytest.raises(UserError, match=rf"cannot read .+{closed.name} \(Permission denied\); make"),
        ):
            status_of(made, Store(copy))
        closed.chmod(0o600)
        assert not status_of(made, Store(copy)).missing


def test_an_index_that_may_not_be_looked_at_is_done_without(place):
    with TemporaryDirectory() as folder:
        results = shutil.copytree(place.results, Path(folder) / "results")
        Path(folder).chmod(0o755)
        (results / "index").mkdir(exist_ok=True)
        (results / "index").chmod(0)
        with without_rights():
            assert len(Store(results).plans()) == len([*(results / "plans").iterdir()]) > 0
        (results / "index").chmod(0o700)


def test_raw_outputs_that_may_not_be_looked_at_are_called_so(place):
    """safetensors calls them missing."""
    with TemporaryDirectory() as folder:
        results = shutil.copytree(place.results, Path(folder) / "results")
        closed = min((results / "arrays").iterdir())
        closed.chmod(0)
        Path(folder).chmod(0o755)
        store = Store(results)
        with without_rights():
            reasons = {*store.planned()["reason"]}
            store.tell_lost()
        assert "its raw outputs cannot be read" in reasons
        assert store.warnings == [f"arrays/{closed.name} cannot be read (Permission denied)"]
        assert closed.exists()


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '[{"b": {"a": 1, "c": 2, "a": 1}}]', '{"\\u0061": 1, "a": 1}', b'{"a":1,"a" :[]}']
)
def test_a_key_twice_in_one_table_is_refused(text):
    with pytest.raises(ValueError, match="the key 'a' is there twice"):
        from_json(text)
    assert from_json('[{"a": 1}, {"a": {"a": 2}}]') == [{"a": 1}, {"a": {"a": 2}}]
