"""Formulas: a small part of LaTeX to MathML, which browsers draw by themselves, without a script from elsewhere.

A page writes them between fences of the language `math`, as GitHub reads them too.
"""

import re
from html import escape

FENCED = re.compile(r"^```math\n(?P<formula>.*?)^```$", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(r"\\(?:text|mathrm|tag)\{[^}]*\}|\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S")
ENVIRONMENT = re.compile(r"\\(?:begin|end)\{aligned\}")
LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "kappa": "κ", "lambda": "λ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "theta": "θ", "phi": "φ", "ell": "ℓ", "infty": "∞", "top": "⊤", "mu": "μ", "nu": "ν", "psi": "ψ",
    "Psi": "Ψ", "Lambda": "Λ", "epsilon": "ε", "delta": "δ",
}  # fmt: skip
NORMAL = {"log": "log", "exp": "exp", "max": "max", "min": "min"}
OPERATORS = {
    "sim": "∼", "propto": "∝", "mid": "|", "sum": "∑", "prod": "∏", "cdot": "·", "leftarrow": "←", "le": "≤",
    "ge": "≥", "in": "∈", "partial": "∂", "times": "×", "dots": "…", "neq": "≠", "mapsto": "↦", "odot": "⊙",
}  # fmt: skip
FENCES = {"(": "prefix", ")": "postfix", "[": "prefix", "]": "postfix", r"\langle": "prefix", r"\rangle": "postfix",
          r"\lvert": "prefix", r"\rvert": "postfix", r"\lVert": "prefix", r"\rVert": "postfix",
          r"\{": "prefix", r"\}": "postfix"}  # fmt: skip
SHOWN = {r"\langle": "⟨", r"\rangle": "⟩", r"\lvert": "|", r"\rvert": "|", r"\lVert": "‖", r"\rVert": "‖",
         r"\{": "{", r"\}": "}"}  # fmt: skip
ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
SCRIPT = {"N": "𝒩", "F": "ℱ", "L": "ℒ"}
SPACES = {r"\,": 0.17, r"\;": 0.28, r"\quad": 1.0, r"\qquad": 2.0}
THIN = '<mspace width="0.17em"/>'
LIMITS = ("sum", "prod")
"""Whose scripts stand above and below."""


def with_formulas(markdown: str) -> str:
    """A page's Markdown with every fenced formula as MathML."""
    return FENCED.sub(lambda found: block(found["formula"]), markdown)


def block(formula: str) -> str:
    r"""A formula of one or more lines, `\\` between them and `&` where they are aligned, as a block of HTML.

    Raises:
        LookupError: a command is not known here.
    """
    tag = re.search(r"\\tag\{([^}]*)\}", formula)
    written = ENVIRONMENT.sub("", formula[: tag.start()] + formula[tag.end() :] if tag else formula)
    lines = [[_Reader(cell).row() for cell in line.split("&")] for line in written.split(r"\\") if line.strip()]
    rows = "".join("<mtr>" + "".join(f"<mtd>{cell}</mtd>" for cell in line) + "</mtr>" for line in lines)
    inside = f"<mtable displaystyle='true'>{rows}</mtable>" if len(lines) > 1 or len(lines[0]) > 1 else lines[0][0]
    number = f'<span class="number">({escape(tag[1])})</span>' if tag else ""
    return f'<div class="formula"><math display="block">{inside}</math>{number}</div>'


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, written: str):
        self.tokens = TOKEN.findall(written)
        self.at = 0

    def row(self) -> str:
        """Everything up to the end, or to a closing brace."""
        found = []
        while self.at < len(self.tokens) and self.tokens[self.at] != "}":
            found.append(self.with_scripts())
        return "<mrow>" + "".join(found) + "</mrow>"

    def with_scripts(self) -> str:
        """One thing, with what stands below and above it."""
        large = self.tokens[self.at].lstrip("\\") in LIMITS
        base, scripts = self.thing(), {}
        while self.at < len(self.tokens) and self.tokens[self.at] in ("_", "^"):
            mark = self.tokens[self.at]
            self.at += 1
            scripts[mark] = self.thing()
        if not scripts:
            return base
        names = (
            {"_": "munder", "^": "mover", "_^": "munderover"} if large else {"_": "msub", "^": "msup", "_^": "msubsup"}
        )
        marks = "".join(mark for mark in "_^" if mark in scripts)
        return f"<{names[marks]}>{base}{''.join(scripts[mark] for mark in marks)}</{names[marks]}>"

    def thing(self) -> str:  # noqa: PLR0911  # one for each kind of sign
        """A letter, a number, a sign, a group, or a command with what it takes."""
        sign = self.tokens[self.at]
        self.at += 1
        if sign == "{":
            inside = self.row()
            self.at += 1
            return inside
        if sign in FENCES:
            return f'<mo form="{FENCES[sign]}" stretchy="false">{escape(SHOWN.get(sign, sign))}</mo>'
        if sign in SPACES:
            return f'<mspace width="{SPACES[sign]}em"/>'
        if sign.startswith("\\"):
            return self._command(sign[1:])
        if sign.isalpha():
            return f"<mi>{sign}</mi>"
        if sign == "=":
            return '<mo form="infix">=</mo>'
        return f"<mn>{sign}</mn>" if sign[0].isdigit() else f"<mo>{escape({'-': '−'}.get(sign, sign))}</mo>"

    def _command(self, name: str) -> str:  # noqa: PLR0911  # one for each kind of command
        if name == "frac":
            return f"<mfrac>{self.thing()}{self.thing()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.thing()}</msqrt>"
        if name in ACCENTS:
            return f'<mover accent="true">{self.thing()}<mo stretchy="false">{ACCENTS[name]}</mo></mover>'
        if name == "mathcal":
            return f"<mi>{SCRIPT[self.tokens[self._past_group()]]}</mi>"
        if name in LETTERS:
            return f"<mi>{LETTERS[name]}</mi>"
        if name in NORMAL:
            return f"<mi>{NORMAL[name]}</mi>" + ("" if self.tokens[self.at : self.at + 1] == ["("] else THIN)
        if name in OPERATORS:
            form = "" if name in LIMITS else ' form="infix"'  # also where it begins a line
            return f"<mo{form}>{OPERATORS[name]}</mo>"
        kind, _, told = name.partition("{")
        if kind in ("text", "mathrm"):
            words = escape(told.removesuffix("}"))
            return (
                f"<mtext>{words.replace(' ', '&nbsp;')}</mtext>"
                if kind == "text"
                else f'<mi mathvariant="normal">{words}</mi>'
            )
        raise LookupError(f"```math: \\{name} is not known to docs/_site/formulas.py")

    def _past_group(self) -> int:
        """The place of the one sign in braces, which is stepped over."""
        self.at += 3
        return self.at - 2
