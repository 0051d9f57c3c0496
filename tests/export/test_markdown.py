import re
from functools import cache

from routebench.analysis.folder import open_folder
from routebench.export import Choice, export
from routebench.tables._markdown import comment, escape

COMMAND = "python -m routebench export --format markdown"
BETWEEN = re.compile(r"(?<!\\)\|")  # bars that are not escaped


@cache
def markdown_of(folder):
    return export(open_folder(folder), Choice(), "markdown", COMMAND).decode()


def lines_of_grid(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_grid_is_whole_and_aligned(plain, nasty):
    for folder in (plain, nasty):
        lines = lines_of_grid(markdown_of(folder))
        assert len({len(BETWEEN.findall(line)) for line in lines}) == 1
        assert len({len(line) for line in lines}) == 1
        assert re.fullmatch(r"[|\-: ]+", lines[1])


def test_every_row_is_there_with_its_runs(plain):
    lines = lines_of_grid(markdown_of(plain))
    assert len(lines) == 2 + 13
    (broken,) = (line for line in lines if "EM, T = 3" in line)
    assert "1 / 3" in broken
    assert any("**" in line for line in lines)


def test_notes_name_what_has_no_result(plain):
    text = markdown_of(plain)
    assert "- No result from 2 of 39 planned runs: em T=3 diverged; em T=3 not run." in text
    assert "95 % t interval over seeds" in text


def test_nothing_from_outside_ends_the_comment(nasty):
    text = markdown_of(nasty)
    assert text.index("-->") == text.index("-->\n\n**")
    assert comment(["a --> b", "c --!> d"]) == "<!--\na -- > b\nc -- !> d\n-->"


def test_escaping():
    assert escape("a_b|c*d<e>`f`") == r"a\_b\|c\*d\<e\>\`f\`"
