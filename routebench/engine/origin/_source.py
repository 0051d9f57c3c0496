"""Hashes the code that a result runs through: yours, so that changed code never reuses old results, and routebench's.

It is the code that this process has loaded, as `routebench.registry.loaded_source` tells it. A process imports
routebench once: of its own files, the code is what was found at the first question.
"""

import ast
import hashlib
import importlib.util
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from routebench.cache import keep, kept
from routebench.engine.origin import _cells
from routebench.registry import IMPORTS, extensions, in_folder, loaded_source, named_beside, own_files_of

PACKAGE = Path(__file__).resolve().parents[2]
UNCOUNTED = {
    *(PACKAGE / name for name in ("__init__.py", "atomic.py", "errors.py", "claims.py", "declared.py")),
    *PACKAGE.glob("registry/*.py"),
}
"""`__init__` and `registry` import everything, so that following them would reach all files."""

OTHER_LANGUAGES = (".cpp", ".cu")

MOST_FACTS = 1000
"""Sources whose facts are kept: those of two states of the code."""


@dataclass(frozen=True)
class Code:
    """Hashes of the code that a result runs through.

    Args:
        yours: hash of files and notebook cells outside routebench; empty if there are none.
        shipped: hash of routebench's own files.
    """

    yours: str
    shipped: str


def code_of(*entries: Callable[..., Any] | str, shipped: bool = True, words: Collection[str] = ()) -> Code:
    """Hashes over the given objects' files (or modules, by name) and all that they import, each of 16 hex digits.

    Comments, blank lines and docstrings of Python do not count. A kernel's source in another language is the file of
    the same name as the module that loads it. Of an object that a notebook cell defines, its own lines count, and what
    they use. Where code outside routebench has a string that names a part of the same plug-in, as for `routing.make`,
    that part counts, too.

    Args:
        entries: what a result runs through.
        shipped: whether routebench's own files are asked for.
        words: strings that count like those in the code, such as the values of settings.

    Raises:
        UserError: an object has no source that can be read.
    """
    found = _found(entries, shipped=shipped, words=words)
    ours = {file for file in found.files if not _is_yours(file)}
    read = [
        one for file in sorted(found.files - ours)
        for one in sorted((other.name, known) for other, known in own_files_of(file).items())
    ]  # fmt: skip
    yours = [*_named(found.files - ours), *sorted(found.cells.items()), *read]
    hashes = Code(_digest(yours) if yours else "", _digest(_named(ours)) if ours else "")
    _keep_shipped()
    return hashes


def files_behind(files: Iterable[Path]) -> set[Path]:
    """The files outside routebench that count as code of some files: these, what they import, and what they read."""
    found = set[Path]().union(*(_reachable(file.resolve(), shipped=False) for file in files))
    return found | {Path(os.path.normpath(other)) for file in found for other in own_files_of(file)}


def fit_code(model: Callable[..., Any], method: Callable[..., Any] | None) -> list[Callable[..., Any] | str]:
    """The code behind a trained model, for `source_hash`: the training loop, the network, its builder, the routing.

    Args:
        model: the network's builder.
        method: the routing method; None for a network without.
    """
    code: list[Callable[..., Any] | str] = ["routebench.training", "routebench.models.build", model]
    return code if method is None else [*code, method]


def package_stamp() -> str:
    """Changes with every edit of a file of routebench on disk, and takes no longer than to list the files."""
    digest = hashlib.sha256()
    for folder, _, names in os.walk(PACKAGE):
        for name in names:
            if name.endswith((".py", *OTHER_LANGUAGES)):
                file = os.path.join(folder, name)  # noqa: PTH118  # a path takes longer to make than to look at
                known = os.stat(file)  # noqa: PTH116
                digest.update(f"{file} {known.st_size} {known.st_mtime_ns}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Found:
    """The files that a result runs through, and the code of notebook cells by name."""

    files: set[Path]
    cells: dict[str, str]

    @property
    def words(self) -> set[str]:
        """The strings in code outside routebench, each without the settings that may stand behind a name."""
        sources = [loaded_source(file) for file in self.files if file.suffix == ".py" and _is_yours(file)]
        said = [word for source in (*sources, *map(str.encode, self.cells.values())) for word in _said(source).words]
        return {word.partition("[")[0] for word in said}


def _found(entries: Iterable[Callable[..., Any] | str], *, shipped: bool = True, words: Collection[str] = ()) -> _Found:
    found, waiting = _Found(set(), {}), [*entries]
    for entry in waiting:  # which becomes longer meanwhile
        part = _found_of(entry, shipped)
        found.files.update(part.files)
        found.cells.update(part.cells)
        waiting += [other for other in named_beside(entry, part.words.union(words)) if other not in waiting]
    return found


def _found_of(entry: Callable[..., Any] | str, shipped: bool) -> _Found:
    cells: dict[str, str] = {}
    if not isinstance(entry, str) and _cells.is_of_cell(entry):
        used = _cells.used_by(entry)
        cells = {name: _without_docstrings(node) for name, node in used.nodes.items()} | used.values
        cell = Path.cwd() / "cell.py"
        imported = {one for name in used.nodes for one in _imported_in(cells[name].encode(), cell)}
        starts = imported | {file for file in used.files if not _library_of(file)} - UNCOUNTED
    else:
        starts = {_file_of(entry)}
    return _Found(set[Path]().union(*(_reachable(file, shipped=shipped) for file in starts)), cells)


@cache  # a Path takes long to compare, a thousand times in each plan
def _is_yours(file: Path) -> bool:
    return not file.is_relative_to(PACKAGE)


def _digest(parts: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for name, code in parts:
        digest.update(f"{name}\n{code}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()[:16]


def _named(files: Iterable[Path]) -> list[tuple[str, str]]:
    return [(name, _code(file)) for name, file in sorted((_name(file), file) for file in files)]


def _file_of(entry: Callable[..., Any] | str) -> Path:
    module = entry if isinstance(entry, str) else entry.__module__
    file = sys.modules[module].__file__ if module in sys.modules else None
    if file is None:
        file = inspect.getfile(entry) if not isinstance(entry, str) else str(in_folder(PACKAGE.parent, module))
    return Path(file).resolve()


def _reachable(start: Path, *, shipped: bool = True) -> set[Path]:
    """The file and every file that it imports, directly or not; routebench's own among them if they are asked for."""
    if not _is_yours(start):
        return {*_reachable_here(start)} if shipped else set()
    found, waiting = {start}, [start]
    while waiting:
        for imported in _imported(waiting.pop()) - found:
            if not _is_yours(imported):
                found |= _reachable_here(imported) if shipped else set()
            else:
                found.add(imported)
                waiting.append(imported)
    return found | {beside for file in found for beside in _beside(file)}


@cache
def _reachable_here(start: Path) -> frozenset[Path]:
    """The result of `_reachable` for a file of routebench."""
    found, waiting = {start}, [start]
    while waiting:
        new = _imported_here(waiting.pop()) - found
        found |= new
        waiting += new
    return frozenset(found | {beside for file in found for beside in _beside(file)})


def _beside(file: Path) -> Iterator[Path]:
    return (beside for beside in (file.with_suffix(suffix) for suffix in OTHER_LANGUAGES) if beside.is_file())


def _imported(file: Path) -> frozenset[Path]:
    """The files that one file imports: of routebench, its own package, a plug-in's folder, the user's path.

    A package's `__init__` counts for the names that it re-exports. Other libraries do not count.
    """
    return _imported_in(loaded_source(file), file)


_imported_here = cache(_imported)


def _imported_in(source: bytes, file: Path) -> frozenset[Path]:
    """The files that a file with this source imports."""
    names = {*_facts(source, file)[1]}
    if _is_yours(file):
        names |= {_package_of(file), *_said(source).imports}  # its package's `__init__` runs before it
    return frozenset(found for name in names for found in _files_of(name, file)) - UNCOUNTED


@dataclass(frozen=True)
class _Said:
    """The strings in a piece of code, and those of them that it imports as modules."""

    words: frozenset[str]
    imports: frozenset[str]


@lru_cache(maxsize=1024)
def _said(source: bytes) -> _Said:
    nodes = [*ast.walk(_parsed(source)[0])]
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    imported = {getattr(call.args[0], "value", None) for call in calls if _name_of(call.func) in IMPORTS}
    return _Said(frozenset(words), frozenset(words & imported))


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _package_of(file: Path) -> str:
    """Dotted name of a file's package; empty without one."""
    return ".".join(file.parent.relative_to(_root_of(file)).parts)


def _files_of(name: str, file: Path) -> list[Path]:
    """Files that importing a name runs: its own and, outside routebench, those of its packages."""
    inner = name.lstrip(".")
    if dots := len(name) - len(inner):
        roots = [file.parents[dots - 1]] if dots <= len(file.parents) else []
    elif inner.partition(".")[0] == PACKAGE.name:
        roots = [PACKAGE.parent]
    else:
        roots = _where(inner.partition(".")[0], file) if _is_yours(file) else []
    parts = inner.split(".") if inner else []
    first = 1 if _is_yours(file) and roots != [PACKAGE.parent] else len(parts)
    steps = [".".join(parts[:length]) for length in range(first, len(parts) + 1)]
    found = [in_folder(root, step) for root in roots for step in steps]
    return [one for one in found if one is not None]


def _where(top: str, file: Path) -> list[Path]:
    """The folders from which a file imports a top-level module; none if it is another library's."""
    root = _root_of(file)
    if _library_of(file):
        own = file.relative_to(root).with_suffix("").parts[0]
        return [root] if top == own else []
    return [root] if in_folder(root, top) else _on_path(top, root)


def _root_of(file: Path) -> Path:
    """The folder from which absolute imports of a file's package start; for a plug-in, its own."""
    if library := _library_of(file):
        return library
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _on_path(top: str, root: Path) -> list[Path]:
    """The folders of a module of the user's on `sys.path`, or at the root; none if it belongs to a library.

    A folder without `__init__.py` is a package as well, and may lie in several places.
    """
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None or (spec.origin is None and spec.submodule_search_locations):
        places = {Path(place).resolve() for place in (spec and spec.submodule_search_locations) or ()} | {root / top}
        return sorted(place.parent for place in places if place.is_dir() and not _library_of(place))
    origin = Path(spec.origin or "").resolve()
    if not origin.is_file() or _library_of(origin):
        return []
    return [origin.parents[1] if spec.submodule_search_locations else origin.parent]


@cache
def _library_of(file: Path) -> Path | None:
    """The folder of installed packages, or of Python itself, that holds a file: recognised by name, or by torch."""
    torch = importlib.util.find_spec("torch")
    known = {Path(sysconfig.get_path("stdlib")).resolve()}
    known |= {Path(torch.origin).resolve().parents[1]} if torch and torch.origin else set()
    return next(
        (folder for folder in file.parents if folder.name in {"site-packages", "dist-packages"} or folder in known),
        None,
    )


def _name(file: Path) -> str:
    return file.name if _is_yours(file) else file.relative_to(PACKAGE).as_posix()


def _code(file: Path) -> str:
    return _code_of(file) if _is_yours(file) else _code_here(file)


def _code_of(file: Path) -> str:
    source = loaded_source(file)
    return source.replace(b"\r\n", b"\n").decode() if file.suffix in OTHER_LANGUAGES else _facts(source, file)[0]


_code_here = cache(_code_of)


_Facts = tuple[str, Sequence[str]]
"""The code of a file without comments and docstrings, and the names that its statements import."""
_read_anew: set[str] = set()
"""Hashes of the sources that `_shipped_before` had not."""


def _facts(source: bytes, file: Path) -> _Facts:
    """The parts of a Python file that a hash needs. Those of routebench's own are kept: parsing takes a second."""
    if _is_yours(file):
        return _facts_of(source)
    known, key = _shipped_before(), hashlib.sha256(source).hexdigest()
    found = known.pop(key, None)
    if found is None:
        found = _facts_of(source)
        _read_anew.add(key)
    known[key] = found  # the last used stands at the end
    return found


def _facts_of(source: bytes) -> _Facts:
    tree, text = _parsed(source)
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            separator = "." if node.module else ""
            names |= {module, *(f"{module}{separator}{alias.name}" for alias in node.names)}
    return text, sorted(names)


@cache
def _shipped_before() -> dict[str, _Facts]:
    """The facts of routebench's own files by the hash of their source, as other processes found them.

    They come from any state of the code: where one file was edited, it alone is parsed anew.
    """
    return {key: (code, names) for key, (code, names) in (kept("code", _state()) or {}).items()}


def _keep_shipped() -> None:
    """Keeps what was read anew for the next process; not where code of others may have changed how it was read."""
    if _read_anew and not extensions.ran_plugin:
        keep("code", _state(), dict([*_shipped_before().items()][-MOST_FACTS:]))
        _read_anew.clear()


@cache
def _state() -> str:
    """The code that finds the facts: this file, and the Python that parses."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    return f"{own}-{sys.version_info.major}.{sys.version_info.minor}"


@lru_cache(maxsize=1024)
def _parsed(source: bytes) -> tuple[ast.Module, str]:
    """The tree of a Python file, and the same as text without comments and docstrings."""
    tree = ast.parse(source)
    return tree, _without_docstrings(tree)


def _without_docstrings(tree: ast.AST) -> str:
    """The code below a node, from which docstrings are taken."""
    for node in (tree, *_statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)  # `ast.dump` differs between versions of Python


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below a node. Expressions, which hold no others, are most of a tree: `ast.walk` takes long."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):  # the latter two hold bodies
        for below in getattr(node, field, ()):
            if isinstance(below, ast.stmt):
                yield below
            yield from _statements(below)
