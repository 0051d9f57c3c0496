"""The pages of the documentation, and the blocks of code in them."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_site"))
from filling import fill  # noqa: E402  # as mkdocs imports it

BLOCK = re.compile(
    r"(?:^<!-- (?P<marker>given|not run): (?P<told>.+?) -->\n)?"
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
RUN = {"python", "console", "bash"}


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        language: behind the fence.
        code: what is between the fences.
        title: the file that it is saved as; empty for none.
        not_run: why it is not run; empty where it is.
        given: the folder that has to be there before it; empty for none.
    """

    language: str
    code: str
    title: str = ""
    not_run: str = ""
    given: str = ""

    @property
    def steps(self) -> list[tuple[str, list[str]]]:
        """Commands of a console block with the lines that are shown below each."""
        found: list[tuple[str, list[str]]] = []
        for line in self.code.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
        return found


def pages() -> list[str]:
    """Every page, by its path below `docs`."""
    return sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def text_of(page: str) -> str:
    """A page as it is shown, filled in."""
    return fill((DOCS / page).read_text(encoding="utf-8"))


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in order. What is filled in is shown, and only run where it is a file."""
    written = (DOCS / page).read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(_with_files(written)):
        told = {block["marker"]: block["told"]} if block["marker"] else {}
        found.append(
            Block(
                language=block["language"],
                code=block["code"],
                title=block["title"] or "",
                not_run=told.get("not run", ""),
                given=told.get("given", ""),
            )
        )
    return found


def _with_files(written: str) -> str:
    """Only files are filled in: tables hold nothing to run, and take long."""
    return re.sub(r"^<!-- fill: file .* -->$", lambda asked: fill(asked[0]), written, flags=re.MULTILINE)
