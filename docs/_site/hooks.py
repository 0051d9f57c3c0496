"""What mkdocs runs while it builds: pages are filled in, and the published reports are put beside them."""

import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs imports this file by its path

from filling import fill, published_reports, to_the_site


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces each `<!-- fill: ... -->`, and links to published results."""
    try:
        return fill(to_the_site(markdown))
    except LookupError as error:
        raise PluginError(str(error)) from error


def on_files(files: Any, config: Any) -> Any:
    """Adds the published reports, so that they can be clicked through."""
    for name, report in published_reports().items():
        files.append(File.generated(config, f"reports/{name}.html", content=report.read_text(encoding="utf-8")))
    return files
