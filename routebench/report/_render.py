"""Renders the text of the page: its template, its style and its one script."""

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from routebench.analysis import images_in_words
from routebench.analysis.markup import of_package
from routebench.analysis.palette import NAMES, ON_DARK
from routebench.report._glossary import GLOSSARY

SCRIPTS: tuple[str, ...] = (
    *("downloads.js", "tables.js", "values.js", "selection.js", "points.js", "scales.js", "chart.js", "explorer.js"),
    *("against.js", "pages.js"),
)
"""The scripts, which in this order are one; the last one shows what the address asks for."""


STYLES = ("page.css", "summary.css", "explorer.css")


def render(**found: Any) -> str:
    """The page.

    Args:
        found: the variables of the template: `sections`, `together`, `whole`, `summary`, `title`, `values`, `sources`,
            `folder`, `commits`, `asv`.
    """
    return rendered("routebench.report", "page.html", **found, styles=STYLES, scripts=SCRIPTS, glossary=GLOSSARY)


def rendered(
    package: str, template: str, *, styles: Sequence[str] = STYLES[:1], own: Sequence[str] = (),
    scripts: Sequence[str] = (), **found: Any,
) -> str:  # fmt: skip
    """A page in the look of reports.

    Args:
        package: the package whose `templates` hold the template; it may use those of reports too.
        template: the name of its file.
        styles: style files of reports.
        own: style files of the package.
        scripts: script files of the package, which in this order are the one script that may run.
        found: the variables of the template.
    """
    script = of_package(package, "templates", scripts)
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("routebench.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    version, address = _of_project()
    environment.filters |= {"unbroken": unbroken, "images_in_words": images_in_words}
    return environment.get_template(template).render(
        **found,
        version=version,
        address=address,
        light=[(NAMES[colour], colour) for colour in ON_DARK],
        dark=[(NAMES[colour], ON_DARK[colour]) for colour in ON_DARK],
        style=of_package("routebench.report", "templates", styles) + of_package(package, "templates", own),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() if script else "",
    )


def unbroken(sentence: str) -> str:
    """The sentence, with no line break inside `T = 2` and `6, 2`."""
    return re.sub(r"(?<=\d), (?=\d)", ",\u00a0", re.sub(r"\bT = (?=\d)", "T\u00a0=\u00a0", sentence))


def _of_project() -> tuple[str, str]:
    """The version, and the address of the code if `[project.urls]` declares one; both empty if nothing is installed."""
    try:
        known = metadata("routebench")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "", ""
    pairs = (line.partition(", ") for line in known.get_all("Project-URL") or ())
    urls = {label.lower(): address for label, _, address in pairs if address.startswith(("https://", "http://"))}
    named = (urls[label] for label in ("repository", "source", "source code", "code", "homepage") if label in urls)
    return known["Version"], next(named, next(iter(urls.values()), ""))
