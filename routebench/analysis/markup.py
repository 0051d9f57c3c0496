"""The one place where text becomes markup, which a page shows as it is and does not escape.

Everything else of a page is escaped by its templates. A figure holds names that anybody may have chosen, so it is read
here letter by letter: it may draw, and neither run nor fetch anything. A test holds that no other file makes markup.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from xml.parsers import expat

from markupsafe import Markup, escape

DRAWS = frozenset(
    {
        *(
            "svg",
            "g",
            "path",
            "defs",
            "use",
            "text",
            "tspan",
            "image",
            "style",
            "clipPath",
            "rect",
            "circle",
            "ellipse",
        ),
        *(
            "line",
            "polyline",
            "polygon",
            "pattern",
            "marker",
            "symbol",
            "linearGradient",
            "radialGradient",
            "stop",
            "a",
        ),
    }
)
"""Elements that a figure may consist of."""
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]+")
LINK = re.compile(r"https?://[^\s]+")
"""Addresses that an element `a` may lead to, once a reader follows it."""
FETCHES = re.compile(r"url\(\s*(?!#[^)]*\))|@|\\|expression|javascript:", re.IGNORECASE)
"""Content that a style may not hold."""


def of_package(package: str, folder: str, names: Iterable[str]) -> Markup:
    """The text of files that are part of routebench, such as styles and scripts, one after another.

    Args:
        package: such as `routebench.report`.
        folder: in it.
        names: the names of the files.
    """
    texts = [(files(package) / folder / name).read_text(encoding="utf-8") for name in names]
    return Markup("\n".join(texts))  # noqa: S704  # ours


def drawing(svg: str, attributes: Mapping[str, str]) -> Markup:
    """An SVG element for a page.

    Args:
        svg: one element `svg` and nothing around it.
        attributes: the attributes of this element, to be added in front of its own.

    Raises:
        ValueError: it is no well-formed SVG, or holds more than a drawing: a script, something to fetch, a comment.
    """
    if not svg.startswith("<svg "):
        raise ValueError("expected a figure that begins with <svg>")
    added = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    whole = f"<svg {added} {svg[len('<svg ') :]}"
    _expect_drawing(whole)
    return Markup(whole)  # noqa: S704  # read by `_expect_drawing`


def _expect_drawing(svg: str) -> None:
    parser = expat.ParserCreate()
    inside: list[str] = []

    def begin(tag: str, attributes: dict[str, str]) -> None:
        if tag not in DRAWS or (tag == "svg" and inside):
            raise ValueError(f"expected a figure that only draws, got <{tag}> in it")
        for name, value in attributes.items():
            _expect_harmless(tag, name, value)
        inside.append(tag)

    def end(_tag: str) -> None:
        inside.pop()

    def text(found: str) -> None:
        if inside[-1] == "style" and FETCHES.search(found):
            raise ValueError("expected a figure that only draws, got a style that fetches something")

    def other(*_found: object) -> None:
        raise ValueError("expected a figure that only draws, got a comment or an instruction in it")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, text
    parser.CommentHandler = parser.ProcessingInstructionHandler = parser.StartDoctypeDeclHandler = other
    parser.StartCdataSectionHandler = parser.XmlDeclHandler = other
    parser.buffer_text = True
    try:
        parser.Parse(svg.encode(errors="backslashreplace"), True)
    except expat.ExpatError as error:
        raise ValueError(f"expected a figure in well-formed SVG: {error}") from error


def _expect_harmless(tag: str, name: str, value: str) -> None:
    """Raises ValueError for an attribute that runs or fetches something."""
    if name.lower().rpartition(":")[2] in {"href", "src"}:
        followed = tag == "a" and LINK.fullmatch(value)
        is_fine = value.startswith("#") or followed or (tag == "image" and PICTURE.fullmatch(value))
    else:
        is_fine = name.startswith("xmlns") or name == "aria-label" or not FETCHES.search(value)
    if name.lower().startswith("on") or not is_fine:
        raise ValueError(f"expected a figure that only draws, got {name}={value!r:.80} in it")
