"""Text as LaTeX: whatever a user calls a method, it is printed, and never run."""

import re
import unicodedata

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


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; letters that pdfLaTeX does not know are printed as their code there."""
    return escape_piece(unicodedata.normalize("NFC", " ".join(text.split())))


def escape_piece(text: str) -> str:
    """As `escape`, for a part of a text: blanks at its ends stay."""
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
