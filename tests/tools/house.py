"""Measures the structure of the source tree: sizes, doors, imports, floors, circles, and what a newcomer has to know.

    python -m tests.tools.house [ROOT]

A room is a package of routebench, or `analyses`; the modules beside the packages are the room `(top)`. A package within
a package is a room within a room: it has a line of its own, its files count in both, and inside the outer room it is
drawn as one. A floor stands on the files and rooms that it imports. A public name is one in the `__all__` of the
package; without that list, a function, class or constant at the top of a file whose name, and whose file's name, begin
with no underscore.
"""

import ast
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import networkx as nx

LONG = 40  # lines of a function, without its docstring
TOP = "(top)"
ADDED = ("papers", "studies")


@dataclass(frozen=True)
class File:
    """A source file: where it lies, and what it defines and imports."""

    path: Path
    root: Path

    @cached_property
    def module(self) -> str:
        """Dotted name: `routebench.routing.em`, and `routebench.routing` for its `__init__`."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def rooms(self) -> tuple[str, ...]:
        """Rooms that it lies in, the outermost first: `engine` and `engine.results`; `(top)`; `analyses`."""
        folders = self.path.relative_to(self.root).parts[:-1]
        return _outermost_first(folders[1:] if folders[0] == "routebench" else folders) or (TOP,)

    def part_of(self, room: str) -> str:
        """As what it is drawn inside a room: as itself, or as the inner room that it lies in."""
        inner = self.rooms[self.rooms.index(room) + 1 :]
        return inner[0] if inner else self.module

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @cached_property
    def lines(self) -> int:
        """All lines, blank ones too."""
        return len(self.path.read_text(encoding="utf-8").splitlines())

    @cached_property
    def functions(self) -> list[int]:
        """Lines of each function, without its docstring."""
        nodes = (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        return [_lines_without_docstring(node) for node in nodes]

    @cached_property
    def public(self) -> set[str]:
        """Names at the top of the file that begin with no underscore."""
        if self.path.stem.startswith("_") and self.path.stem != "__init__":
            return set()
        return {name for node in self.tree.body for name in _defined(node) if not name.startswith("_")}

    @cached_property
    def listed(self) -> set[str] | None:
        """What `__all__` lists; None without one."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and _defined(node) == ["__all__"]:
                return set(ast.literal_eval(node.value))
        return None

    @cached_property
    def imports(self) -> list[tuple[str, str]]:
        """Pairs of module and name that it imports from this tree, inside functions too; the name may be empty."""
        pairs = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                pairs += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                pairs += [(node.module or "", alias.name) for alias in node.names]
        return [pair for pair in pairs if pair[0].partition(".")[0] in ("routebench", "analyses")]


def _outermost_first(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(".".join(folders[: depth + 1]) for depth in range(len(folders)))


def _lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    return function.end_lineno - function.lineno + 1 - (first.end_lineno - first.lineno + 1 if documented else 0)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


class House:
    """The source tree below a folder, as rooms of files and the imports between them."""

    def __init__(self, root: Path) -> None:
        paths = sorted([*root.glob("routebench/**/*.py"), *root.glob("analyses/**/*.py")])
        self.root, self.files = root, [File(path, root) for path in paths]
        self.by_module = {file.module: file for file in self.files}
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(self.by_module)
        self.graph.add_edges_from(
            (file.module, other.module) for file in self.files for other, _ in self._imported(file) if other != file
        )

    def _imported(self, file: File) -> list[tuple[File, str]]:
        """Files of the tree that a file imports, each with the name that it wants of it; empty for the file itself."""
        found = []
        for module, name in file.imports:
            if f"{module}.{name}" in self.by_module:
                found.append((self.by_module[f"{module}.{name}"], ""))
            elif module in self.by_module:
                found.append((self.by_module[module], name))
        return found

    @cached_property
    def rooms(self) -> dict[str, list[File]]:
        """Files by room, those with most lines first; inner rooms follow the room that they lie in."""
        rooms: dict[str, list[File]] = {}
        for file in self.files:
            for room in file.rooms:
                rooms.setdefault(room, []).append(file)
        sizes = {room: sum(file.lines for file in files) for room, files in rooms.items()}
        return dict(
            sorted(
                rooms.items(), key=lambda item: [(-sizes[room], room) for room in _outermost_first(item[0].split("."))]
            )
        )

    def door(self, room: str) -> File | None:
        """The `__init__` of a room."""
        return self.by_module.get(f"routebench.{room}")

    def inner(self, room: str) -> list[str]:
        """The rooms directly within a room."""
        return [other for other in self.rooms if other.rpartition(".")[0] == room]

    def _drawn(self, parts: dict[str, str]) -> nx.DiGraph:
        """Imports between the parts that the files of these modules are drawn as."""
        drawn = nx.DiGraph()
        drawn.add_nodes_from(parts.values())
        edges = ((parts[a], parts[b]) for a, b in self.graph.edges if a in parts and b in parts)
        drawn.add_edges_from((a, b) for a, b in edges if a != b)
        return drawn

    def inside(self, room: str) -> nx.DiGraph:
        """Imports between the files and inner rooms of a room, its `__init__` left out: a door imports everything."""
        files = [file for file in self.rooms[room] if file is not self.door(room) and file.module != "routebench"]
        return self._drawn({file.module: file.part_of(room) for file in files})

    def between(self) -> nx.DiGraph:
        """Imports between outermost rooms; a module beside the packages is a room of its own here."""
        parts = {file.module: file.module if file.rooms == (TOP,) else file.rooms[0] for file in self.files}
        del parts["routebench"]  # lazy: it imports nothing itself
        return self._drawn(parts)

    def circles_between(self) -> list[list[str]]:
        """Circles of rooms: of outermost ones, and of inner ones within each."""
        within = (circle for room in self.rooms for circle in circles(self.inside(room)) if {*circle} & {*self.rooms})
        return [*circles(self.between()), *within]

    def public_names(self, room: str) -> int:
        """How many names a room shows: in its door's list, or without one its own and those of its inner rooms."""
        door = self.door(room)
        if door is not None and door.listed is not None:
            return len(door.listed)
        own = sum(len(file.public) for file in self.rooms[room] if file.rooms[-1] == room)
        return own + sum(map(self.public_names, self.inner(room)))

    def used_outside(self, room: str) -> int:
        """How many names or modules of a room files outside it import."""
        outside = [file for file in self.files if room not in file.rooms]
        return len(
            {(other.module, name) for file in outside for other, name in self._imported(file) if room in other.rooms}
        )


def floors(graph: nx.DiGraph) -> int:
    """How many files stand on one another at most; a circle is one floor."""
    return nx.dag_longest_path_length(nx.condensation(graph)) + 1 if len(graph) else 0


def circles(graph: nx.DiGraph) -> list[list[str]]:
    """Groups of files or rooms that import one another."""
    return sorted(sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1)


def _keys(table: object, prefix: str = "") -> set[str]:
    if isinstance(table, list):
        return {key for entry in table for key in _keys(entry, prefix)}
    if not isinstance(table, dict):
        return set()
    return {f"{prefix}{key}" for key in table} | {
        key for name, value in table.items() for key in _keys(value, f"{prefix}{name}.")
    }


def _shape(graph: nx.DiGraph) -> tuple[int, int, int, int]:
    possible = len(graph) * (len(graph) - 1) // 2
    return graph.number_of_edges(), possible, floors(graph), len(circles(graph))


def _table(house: House) -> list[str]:
    heads = ("room", "files", "lines", "median", "largest", f">{LONG}", "public", "used", "arrows", "floors", "circles")
    rows = [heads]
    for room, files in house.rooms.items():
        sizes = [file.lines for file in files]
        arrows, possible, high, round_ = _shape(house.inside(room))
        long = sum(lines > LONG for file in files for lines in file.functions)
        counts = (len(files), sum(sizes), f"{median(sizes):.0f}", max(sizes), long)
        doors = (house.public_names(room), house.used_outside(room))
        rows.append((room, *map(str, (*counts, *doors, f"{arrows}/{possible}", high, round_))))
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]


def _import_lines(file: File) -> int:
    nodes = (node for node in file.tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    return sum(node.end_lineno - node.lineno + 1 for node in nodes)


def _names(file: File) -> int:
    return len(set(file.imports))


def _newcomers(house: House) -> list[str]:
    analyses = [file for file in house.files if file.rooms[0] == "analyses"]
    methods = [file for file in house.files if file.rooms[0] == "routing" and "register(" in file.path.read_text()]
    files = [*house.root.glob("suites/*.toml"), *house.root.glob("routebench/*/*/suites/*.toml")]
    suites = [len(_keys(tomllib.loads(path.read_text()))) for path in files]
    example = File(house.root / "examples" / "my_routing.py", house.root)
    return [
        (
            f"an analysis: {median(map(_import_lines, analyses)):.0f} import lines, "
            f"{median(map(_names, analyses)):.0f} names of routebench, "
            f"{median(file.lines for file in analyses):.0f} lines in the median of {len(analyses)}"
        ),
        (
            f"a method: {median(map(_names, methods)):.0f} names of routebench in the median of {len(methods)}, "
            f"{_names(example)} in examples/my_routing.py"
        ),
        f"a suite: {median(suites):.0f} keys in the median of {len(suites)}",
    ]


def _parts(house: House) -> list[str]:
    """Lines of the core, and of what papers and questions of our own add to it."""
    added = [file for file in house.files if file.rooms[0] in ADDED]
    core = [file for file in house.files if file.rooms[0] not in ADDED]
    told = {"core": core, "papers and studies": added}
    return [f"{name}: {len(files)} files, {sum(file.lines for file in files)} lines" for name, files in told.items()]


def figures(root: Path) -> list[str]:
    """All figures, as lines of text."""
    house = House(root)
    lengths = sorted(lines for file in house.files for lines in file.functions)
    rooms = house.between()
    arrows, possible, high, _ = _shape(rooms)
    long = sum(lines > LONG for lines in lengths)
    tests = [len(path.read_text().splitlines()) for path in root.glob("tests/**/*.py")]
    return [
        *_table(house),
        "",
        f"routebench and analyses: {len(house.files)} files, {sum(file.lines for file in house.files)} lines of Python",
        *_parts(house),
        f"tests: {len(tests)} files, {sum(tests)} lines",
        (
            f"functions: {len(lengths)}, median {median(lengths):.0f} lines, 90 % within "
            f"{lengths[len(lengths) * 9 // 10]}, {long} above {LONG} ({long / len(lengths):.1%})"
        ),
        f"imports between rooms: {arrows} of {possible} possible, {high} floors",
        f"circles between rooms: {_told(house.circles_between())}",
        f"circles between files: {_told(circles(house.graph))}",
        *_newcomers(house),
    ]


def _told(found: list[list[str]]) -> str:
    return "; ".join(" -> ".join(group) for group in found) or "none"


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    sys.stdout.write("\n".join(figures(root)) + "\n")
