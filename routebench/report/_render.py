"""Renders the text of the page: its template, its style and its one script."""

import base64
import hashlib
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

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
        found: the variables of the template: `sections`, `together`, `whole`, `summary`, `title`, `values`, `folder`,
            `asv`.
    """
    environment = Environment(
        loader=PackageLoader("routebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    style, script = (of_package("routebench.report", "templates", names) for names in (STYLES, SCRIPTS))
    return environment.get_template("page.html").render(
        **found,
        glossary=GLOSSARY,
        version=_version(),
        light=[(NAMES[colour], colour) for colour in ON_DARK],
        dark=[(NAMES[colour], ON_DARK[colour]) for colour in ON_DARK],
        style=style,
        script=script,  # its hash is all that the page's policy lets run
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def unbroken(sentence: str) -> str:
    """The sentence, with no line break inside `T = 2`."""
    return re.sub(r"\bT = (?=\d)", "T\u00a0=\u00a0", sentence)


def _version() -> str:
    try:
        return version("routebench")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return ""
