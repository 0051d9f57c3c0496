"""Tables as LaTeX with booktabs, for papers. Whatever a user calls a method, it is printed, and never run."""

import re
import unicodedata
from collections.abc import Iterable

from routebench.tables._table import TextTable, aligned

NEEDS = "needs \\usepackage{booktabs} in the preamble"
WIDTH = 60
"""Letters in a row that fit a page of one column at the usual size."""
SMALLER = r"\footnotesize\setlength{\tabcolsep}{3pt}"
NO_LABEL = re.compile(r"[^A-Za-z0-9-]+")
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': r"\textquotedblright{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\dots{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "√": r"$\surd$",
    "′": "$'$",
    "²": "$^2$",
    "³": "$^3$",
    "°": r"$^\circ$",
    "µ": r"$\mu$",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "„": ",,",
    "\u00a0": "~",
    "\u202f": r"\,",
    "\u2009": r"\,",
}
HYPHENS = re.compile(r"-(?=-)")  # two of them would be joined to a dash
LATIN_LOOK = {
    "omicron": "o",
    "Alpha": "A",
    "Beta": "B",
    "Epsilon": "E",
    "Zeta": "Z",
    "Eta": "H",
    "Iota": "I",
    "Kappa": "K",
}
LATIN_LOOK |= {"Mu": "M", "Nu": "N", "Omicron": "O", "Rho": "P", "Tau": "T", "Upsilon": "Y", "Chi": "X"}
"""Greek letters that LaTeX has no command for."""
ACCENTS = {0x300: "`", 0x301: "'", 0x302: "^", 0x303: "~", 0x304: "=", 0x306: "u", 0x307: ".", 0x308: '"', 0x30A: "r"}
ACCENTS |= {0x30B: "H", 0x30C: "v", 0x327: "c"}
LETTERS = {"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "ı": "i"}
"""Commands that every encoding of fonts has."""


def as_latex(tables: Iterable[TextTable]) -> str:
    """Each table as one float, below a comment with its provenance."""
    return "\n".join(_render(table) for table in tables)


def comment(lines: Iterable[str]) -> str:
    """Lines as a comment; a line break inside one would end it."""
    return "\n".join(f"% {' '.join(line.split())}" for line in lines)


def _render(table: TextTable) -> str:
    caveats = [f"Caveat: {caveat}" for caveat in table.caveats]
    caption = escape(" ".join((table.question, *table.caption, *caveats)))
    below = [
        r"\par\smallskip",
        rf"\begin{{minipage}}{{\linewidth}}\footnotesize {escape(' '.join(table.notes))}\end{{minipage}}",
    ]
    return "\n".join(
        [
            comment([*table.origin, NEEDS]),
            r"\begin{table}",
            r"\centering",
            rf"\caption[{{{escape(table.question)}}}]{{{caption}}}",
            rf"\label{{tab:{NO_LABEL.sub('-', table.name)}}}",
            *([SMALLER] if _width(table) > WIDTH else []),
            *_tabular(table),
            *(below if table.notes else []),
            r"\end{table}",
            "",
        ]
    )


def _width(table: TextTable) -> int:
    """Letters in the widest row, were every column as wide as its widest text."""
    rows = (table.header, *([cell.text for cell in row] for row in table.rows))
    return sum(max(map(len, column)) for column in zip(*rows, strict=True))


def _tabular(table: TextTable) -> list[str]:
    columns = [_column(table, place) for place in range(len(table.header))]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        " & ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() + r" \\"
        for row in zip(*columns, strict=True)
    ]
    return [
        rf"\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
        r"\toprule",
        lines[0],
        r"\midrule",
        *lines[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _column(table: TextTable, place: int) -> list[str]:
    """The heading, then the texts. Padding is a phantom of what it stands for, so that digits align in any font."""
    cells = [row[place] for row in table.rows]
    texts = [escape(cell.text) for cell in cells]
    if table.numeric[place]:
        texts = aligned([cell.text for cell in cells], _phantom, escape_piece)
    texts = [rf"\textbf{{{text}}}" if cell.bold else text for cell, text in zip(cells, texts, strict=True)]
    return [*map(_row_start, (escape(table.header[place]), *texts))]


def _phantom(text: str) -> str:
    return rf"\phantom{{{escape_piece(text)}}}" if text else ""


def _row_start(text: str) -> str:
    """A bracket or a star at the start of a row would be read as an argument of the line break or rule before it."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; letters that pdfLaTeX does not know are printed as their code there."""
    return escape_piece(unicodedata.normalize("NFC", " ".join(text.split())))


def escape_piece(text: str) -> str:
    """The same as `escape`, for a part of a text: blanks at its ends stay."""
    return HYPHENS.sub("-{}", "".join(_letter(letter) for letter in text))


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if letter.isascii():
        return letter if letter.isprintable() else " "
    name = unicodedata.name(letter, "")
    if name.startswith("GREEK") and name.count(" ") == 3:
        return _greek(name)
    if letter in LETTERS:
        return rf"\{LETTERS[letter]}{{}}"
    base, *marks = list(unicodedata.normalize("NFD", letter))
    if base.isascii() and len(marks) == 1 and ord(marks[0]) in ACCENTS:
        return rf"\{ACCENTS[ord(marks[0])]}{{{base}}}"
    return rf"\ifdefined\Umathchar {letter}\else U+{ord(letter):04X}\fi{{}}"


def _greek(name: str) -> str:
    _, size, _, letter = name.split(" ")
    letter = letter.lower()
    if letter == "lamda":  # Unicode's spelling
        letter = "lambda"
    command = letter if size == "SMALL" else letter.capitalize()
    return LATIN_LOOK.get(command, rf"$\{command}$")
