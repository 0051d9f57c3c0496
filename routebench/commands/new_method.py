"""`routebench new-method`: a file with a routing method that runs as it is."""

import importlib.util
import keyword
import re
import shlex
import unicodedata
from pathlib import Path

import click

from routebench.commands import options
from routebench.errors import UserError, shown
from routebench.options import Execution
from routebench.terminal import answer, tell

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
TEMPLATES = Path(__file__).parents[1] / "templates"


@click.command()
@click.argument("name")
@click.option(
    "-o",
    "--output",
    "--folder",
    "folder",
    type=options.PATH,
    default=Path(),
    metavar="DIR",
    help="Where to write it [default: here].",
)
@options.of(Execution, only="plugins")
def command(name: str, folder: Path, plugins: tuple[str, ...]) -> None:
    """Write a file with a routing method to start from, and a test."""
    from routebench import atomic
    from routebench.received import text_in

    module = _module_of(name, folder)
    _expect_free(name, plugins)
    file, test = folder / f"{module}.py", folder / f"test_{module}.py"
    words = {
        "name": name,
        "words": name.replace("-", " ").capitalize(),
        "class_name": "".join(word.capitalize() for word in name.split("-")),
        "file": file.name,
        "test_file": test.name,
    }
    texts = {file: _rendered("method.py.jinja", words), test: _rendered("test_method.py.jinja", words)}
    atomic.expect_place(folder, "the method", folder=True)
    for path, text in texts.items():
        atomic.expect_place(path, "the method" if path == file else "its test")
        if path.exists() and text_in(path) != text:  # left by a call that was killed
            raise UserError(f"{str(path)!r} is there already; move it, or choose another name, or folder with -o")
    new = [path for path in texts if not path.exists()]
    with atomic.told_unwritten(folder, "the method"), atomic.made_folder(folder):
        try:
            for path, text in texts.items():
                atomic.write_output(path, text, "the method" if path == file else "its test")
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            raise
    plugin = shown(shlex.quote(str(file)))
    tell(f"wrote {shown(file)} and {shown(test)}; next:")
    tell(f"  python -m routebench check {name} --plugin {plugin}")
    tell(f"  python -m routebench suite accuracy --preset smoke --plugin {plugin} --method {name}")
    answer(lambda: {"method": file, "test": test})


def _module_of(name: str, folder: Path) -> str:
    """The name of the file without its ending: one that Python can import, and that hides no other module."""
    if not NAME.fullmatch(name):
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", plain).lower())
        suggested = "-".join(words).lstrip("0123456789-") or "my-method"
        raise UserError(
            f"method name: expected small letters, digits and hyphens, got {name!r}; did you mean {suggested!r}?"
        )
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or _is_imported_from_elsewhere(module, folder):
        raise UserError(
            f"method name: {module}.py would hide what Python knows as {module!r}; did you mean '{name}-routing'?"
        )
    return module


def _is_imported_from_elsewhere(module: str, folder: Path) -> bool:
    spec = importlib.util.find_spec(module)
    return spec is not None and Path(spec.origin or "").resolve().parent not in {Path.cwd(), folder.resolve()}


def _expect_free(name: str, plugins: tuple[str, ...]) -> None:
    from routebench.catalogue import catalogue

    for known in catalogue(plugins, ["methods"])["methods"]:
        if known["name"] == name:
            whose = known.get("origin", "routebench")
            raise UserError(f"routing method {name!r} of {whose} is there already; choose another name: 'my-{name}'")


def _rendered(template: str, words: dict[str, str]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701  # this is no HTML
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return templates.get_template(template).render(words)
