"""The board's page filters its rows, with the submissions of this repository on it."""

from pathlib import Path

import pytest

from routebench import ranking
from tests.report.browsing import opened, skip_without_browser

skip_without_browser()
SUBMISSIONS = Path(__file__).parents[2] / "submissions"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("board") / "board.html"
    count, left_out = ranking.write_board(ranking.board_of("quick"), SUBMISSIONS, file)
    assert count >= 2 and left_out == []
    return file


def names(view):
    return [row.locator("th").inner_text() for row in view.locator("tbody tr").all() if row.is_visible()]


@pytest.mark.parametrize("size", [(1400, 1000), (420, 900)])
def test_rows_are_chosen_by_text_by_iterations_and_by_kind(chromium, page, size):
    with opened(chromium, page, size) as view:
        every = names(view)
        view.get_by_label("Method or who").fill("kernel")
        assert names(view) == ["★ Kernel density, T\u00a0=\u00a03"]
        assert view.locator("output").inner_text() == f"1 of {len(every)} rows"
        view.get_by_label("Method or who").fill("")
        view.locator("select").select_option("3")
        assert len(names(view)) == 4 and all("3" in name for name in names(view))
        view.locator("select").select_option("all")
        view.get_by_label("published").uncheck()
        view.get_by_label("baselines").uncheck()
        assert len(names(view)) == 2 and all(name.startswith("★") for name in names(view))
        view.get_by_label("submissions").uncheck()
        assert names(view) == []
        assert view.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no sideways scroll"


def test_all_rows_are_printed(chromium, page):
    with opened(chromium, page) as view:
        view.emulate_media(media="print")
        assert not view.locator("#filter").is_visible() and len(names(view)) == 14
