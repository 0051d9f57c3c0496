"""Imports go one way: cli -> engine -> protocols -> training -> models -> routing -> capsules -> ops."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

EVERYBODY = {"errors", "registry"}  # what every part may import

ARROWS = {
    "errors": "",
    "registry": "",
    "claims": "",
    "quantities": "",
    "units": "",
    "terminal": "",
    "recipe": "",
    "recipes": "",
    "atomic": "",
    "checkpoint": "atomic",
    "statistics": "",
    "ops": "",
    "kernels": "ops",
    "capsules": "kernels measures ops",
    "routing": "capsules claims ops",
    "models": "capsules ops routing",
    "generative": "capsules kernels models ops routing",
    "predictive_coding": "capsules models ops",
    "data": "atomic",
    "losses": "models ops",
    "training": "checkpoint data losses models recipe",
    "measures": "",
    "masking": "",
    "attacks": "capsules losses models",
    "protocols": "attacks capsules data generative kernels losses masking measures models ops predictive_coding "
    "recipe routing training units",
    "catalogue": "data models recipes routing",  # facts about what is registered
    "engine": "atomic capsules checkpoint data kernels models ops protocols quantities recipe recipes routing "
    "terminal training units",
    "published": "",
    "tables": "",
    "analysis": "catalogue engine masking published statistics terminal units",
    "analyses": "analysis generative masking predictive_coding published statistics",
    "report": "analysis atomic statistics tables",
    "comparing": "analysis engine statistics units",
    "conformance": "capsules claims kernels ops routing",
    "export": "analysis engine report statistics tables",
    "interface": "comparing conformance engine quantities report routing",
    "commands": "__init__ analysis atomic catalogue comparing conformance engine export interface "
    "quantities report routing statistics",
    "cli": "__init__ commands terminal",
    "__main__": "cli",
}
"""For each part of routebench, the parts that it may import besides those for everybody."""


def part_of(file: Path, root: Path = ROOT) -> str:
    """`routing` for routebench/routing/em.py, `cli` for routebench/cli.py, `analyses` for analyses/accuracy.py."""
    parts = file.relative_to(root).with_suffix("").parts
    return parts[1] if parts[0] == "routebench" else parts[0]


def imported_parts(source: str, parts: set[str]) -> set[str]:
    """The parts of routebench that a file imports, at its top or inside a function; `__init__` for its public names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise ValueError(f"line {node.lineno}: write imports from routebench in full")
        elif isinstance(node, ast.ImportFrom) and node.module == "routebench":
            modules = [f"routebench.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        names = [name.split(".") for name in modules if name.partition(".")[0] == "routebench"]
        found |= {name[1] if len(name) > 1 and name[1] in parts else "__init__" for name in names}
    return found


def violations(root: Path, arrows: dict[str, str]) -> list[str]:
    """One line for each import that no arrow allows."""
    files = sorted([*root.glob("routebench/**/*.py"), *root.glob("analyses/*.py")])
    wrong = []
    for file in files:
        part = part_of(file, root)
        if part == "__init__":  # the public names, gathered from everywhere; nobody may import them from inside
            continue
        allowed = EVERYBODY | {part, *arrows.get(part, "").split()}
        if part not in arrows:
            wrong.append(f"{file.relative_to(root)}: {part!r} is new; say in ARROWS what it may import")
        upwards = sorted(imported_parts(file.read_text(), set(arrows)) - allowed)
        wrong += [f"{file.relative_to(root)}: {part!r} may not import {imported!r}" for imported in upwards]
    return wrong


def test_no_import_goes_upwards():
    assert violations(ROOT, ARROWS) == []


def test_arrows_form_no_circle():
    order = list(TopologicalSorter({part: arrows.split() for part, arrows in ARROWS.items()}).static_order())
    assert order.index("ops") < order.index("routing") < order.index("training") < order.index("cli")


def test_every_arrow_and_part_exists():
    parts = {part_of(file) for file in [*ROOT.glob("routebench/**/*.py"), *ROOT.glob("analyses/*.py")]}
    named = set(ARROWS) | {part for arrows in ARROWS.values() for part in arrows.split()}
    assert named <= parts


@pytest.mark.parametrize(
    ("line", "imported"),
    [
        ("import routebench.training", "training"),
        ("from routebench.training import fit", "training"),
        ("from routebench.training.loop import fit", "training"),
        ("from routebench import training", "training"),
        ("from routebench import load_results", "__init__"),
        ("def late():\n    from routebench.training import fit", "training"),
        ("import torch\nfrom routebenchmarks import x", None),
    ],
)
def test_checker_sees_a_planted_violation(tmp_path, line, imported):
    package = tmp_path / "routebench" / "ops"
    package.mkdir(parents=True)
    (package / "squash.py").write_text(line)
    expected = [] if imported is None else [f"routebench/ops/squash.py: 'ops' may not import {imported!r}"]
    assert violations(tmp_path, ARROWS) == expected


def test_checker_sees_a_part_without_arrows(tmp_path):
    (tmp_path / "routebench").mkdir()
    (tmp_path / "routebench" / "novelty.py").write_text("")
    (line,) = violations(tmp_path, ARROWS)
    assert "'novelty' is new" in line


def test_command_line_starts_without_torch():
    heavy = "{'torch', 'pandas', 'scipy', 'matplotlib'}"
    code = f"import sys, routebench, routebench.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
