"""What mkdocs runs while it builds: pages are filled in, and a published report is put beside them."""

import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))  # mkdocs imports this file by its path

from filling import fill  # noqa: E402

EXAMPLE = "reports/quick/report.html"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces each `<!-- fill: ... -->`."""
    try:
        return fill(markdown)
    except LookupError as error:
        raise PluginError(str(error)) from error


def on_files(files: Any, config: Any) -> Any:
    """Adds the published report, so that the site has one that can be clicked through."""
    files.append(File.generated(config, "example-report.html", content=(ROOT / EXAMPLE).read_text(encoding="utf-8")))
    return files
