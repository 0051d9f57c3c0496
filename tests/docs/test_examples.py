"""Every example of the documentation runs, in the order of its page, and prints what the page shows."""

import shutil

import pytest

from routebench.engine.results import files_of
from tests.docs.pages import ROOT, RUN, blocks_of, pages
from tests.docs.running import expect_shown, run_block

PUBLISHED, EARLIER = ROOT / "tests" / "packs" / "accuracy-quick", ROOT / "tests" / "packs" / "schema-1"
START = "index.md"
REASONS = {"installs", "needs a cluster", "needs a container"}
"""Why a block may be left out."""
OTHERS = [page for page in pages() if page != START and any(block.language in RUN for block in blocks_of(page))]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A folder in which the first page has been worked through."""
    folder = tmp_path_factory.mktemp("start")
    work_through(START, folder, {})
    return folder


def work_through(page, folder, given):
    """Runs a page in a folder; `given` are the results that it may take for granted, by the words of its marker."""
    names, blocks = "", blocks_of(page)
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.given:
            shutil.copytree(files_of(given[block.given]), folder / "results")
        if not (block.not_run or (is_script(block) and is_script(following) and not following.given)):
            run_block(block, folder, names)
        if block.language == "python" and not block.title:
            names += block.code


def is_script(block):
    """Python that runs. With what follows it is one script, as it is one session for a reader."""
    return block is not None and block.language == "python" and not block.title and not block.not_run


def test_the_first_page_runs(started):
    assert (started / "results" / "report.html").is_file()


@pytest.mark.parametrize("page", OTHERS)
def test_examples_run(page, started, tmp_path):
    if page == "generative.md":
        pytest.importorskip("pyro")
    given = {"results": PUBLISHED, "results of schema 1": EARLIER, "results of index.md": started / "results"}
    work_through(page, tmp_path, given)


@pytest.mark.parametrize(
    ("page", "reason"),
    [(page, block.not_run) for page in pages() for block in blocks_of(page) if block.not_run],
)
def test_examples_that_are_left_out(page, reason):
    assert reason in REASONS
    pytest.skip(f"docs/{page}: an example is not run: {reason}")


def test_nearly_all_examples_run():
    blocks = [block for page in pages() for block in blocks_of(page) if block.language in RUN]
    left_out = [block for block in blocks if block.not_run]
    assert len(blocks) > 25
    assert len(left_out) == 4


def test_a_wrong_example_is_noticed(tmp_path):
    expect_shown("true", ["one", "...", "three"], "one\ntwo\nthree\n")
    expect_shown("true", ["o...e", "two"], "one\ntwo\nthree\n")
    for wrong in (["three", "one"], ["one", "three"], ["one", "t...x"]):
        with pytest.raises(AssertionError, match="does not print"):
            expect_shown("true", wrong, "one\ntwo\nthree\n")
    python, console = blocks_of("index.md")[-1], blocks_of("export.md")[0]
    assert (python.language, console.language) == ("python", "console")
    with pytest.raises(AssertionError, match="expected a results folder"):
        run_block(console, tmp_path)
    with pytest.raises(AssertionError, match="expected a results folder"):
        run_block(python, tmp_path)
