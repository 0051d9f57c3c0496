"""What mkdocs runs while it builds: pages are filled in, and the published results are put beside them."""

import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs imports this file by its path

from filling import fill, published_findings, published_pictures, published_reports, to_the_site


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces each `<!-- fill: ... -->`, and links to published results."""
    place = page.file.src_uri
    try:
        return fill(markdown if place in published_findings() else to_the_site(markdown, f"docs/{place}", place))
    except LookupError as error:
        raise PluginError(str(error)) from error


def on_files(files: Any, config: Any) -> Any:
    """Adds the published reports, and the text of each folder, so that they can be clicked through."""
    for place, file in {**published_reports(), **published_pictures()}.items():
        files.append(File.generated(config, place, content=file.read_text(encoding="utf-8")))
    for place, told in published_findings().items():
        content = to_the_site(told.read_text(encoding="utf-8"), f"reports/{told.parent.name}/README.md", place)
        files.append(File.generated(config, place, content=content))
    return files
