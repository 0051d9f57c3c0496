"""Text that pages take from the code, so that the two cannot disagree.

A page asks with `<!-- fill: NAME ARGUMENTS -->` on a line of its own. Formulas are between fences of the language
`math`.
"""

import inspect
import json
import posixpath
import re
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any

import click
import history
import measured
import methods
from formulas import with_formulas
from sources import explained, named, options, source

from routebench.commands.options import SPEECH

ROOT = Path(__file__).parents[2]
ASKED = re.compile(r"^<!-- fill: (?P<name>[a-z-]+)(?P<arguments>[^>]*) -->$", re.MULTILINE)
LINK = re.compile(r"\[(?P<words>[^\]]*)\]\((?P<path>(?![a-z]+:)[^)#\s]+)(?P<anchor>(?:#[^)\s]*)?)\)")
IMAGE = re.compile(r'(?<=<img src=")[^"]+')
BAR = re.compile(r"\|(?=[^`]*(?:`[^`]*`[^`]*)*$)")
"""A bar with an even number of backticks behind it."""


def fill(markdown: str) -> str:
    """A page's Markdown with every request answered, and its formulas as MathML.

    Raises:
        LookupError: nothing has the name that is asked for.
    """

    def answer(asked: re.Match[str]) -> str:
        if asked["name"] not in FILLERS:
            raise LookupError(f"<!-- fill: {asked['name']} -->: expected one of {', '.join(FILLERS)}")
        return FILLERS[asked["name"]](*asked["arguments"].split())

    return with_formulas(ASKED.sub(answer, markdown))


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; bars in cells are escaped, but not in code, where they separate nothing."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(BAR.sub(r"\\|", cell) for cell in line) + " |" for line in lines)


def commands() -> str:
    """Every command with its usage, what it does, and its options, from the command line itself."""
    from routebench.cli import cli

    context = click.Context(cli, info_name="python -m routebench")
    names = cli.list_commands(context)
    found = {name: cli.get_command(context, name) for name in names}
    return "\n\n".join(_command(command, name, context) for name, command in found.items() if command is not None)


def _command(command: click.Command, name: str, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = _rows([one for one in command.get_params(context) if one not in SPEECH], context)
    options = [table(["Option", "What it does"], rows)] if rows else []
    return "\n\n".join([f"## {name}", f"```text\n{usage}\n```", _text(command.help or ""), *options])


def of_every_command() -> str:
    """The options that every command has."""
    return table(["Option", "What it does"], _rows(SPEECH, click.Context(click.Command("any"))))


def variables() -> str:
    """The environment variables that stand for options."""
    from routebench.options import SuiteOptions, options_of

    known = options_of(SuiteOptions)
    rows = (
        (f"`{one.variable}`", f"`--{one.flag}`", _text(one.in_help(known))) for one in known.values() if one.variable
    )
    return table(["Variable", "Option", "What it says"], rows)


def _rows(options: Iterable[click.Parameter], context: click.Context) -> list[tuple[str, str]]:
    records = [parameter.get_help_record(context) for parameter in options]
    return [(f"`{names}`", _text(told)) for names, told in filter(None, records) if told and "--help" not in names]


def _text(told: str) -> str:
    """Plain text of a help page as Markdown; paragraphs stay, and a name in capitals or with dashes is no mark-up."""
    paragraphs = [" ".join(part.split()) for part in told.replace("\b", "").split("\n\n")]
    return "\n\n".join(re.sub(r"([*_\[\]])", r"\\\1", escape(part, quote=False)) for part in paragraphs)


def exit_codes() -> str:
    """What the exit codes mean, from the help of the command line."""
    from routebench.cli import cli

    (told,) = (part for part in (cli.help or "").split("\n\n") if part.strip().startswith("Exit codes:"))
    codes = " ".join(told.split()).removeprefix("Exit codes: ").rstrip(".").split("; ")
    return table(["Exit code", "Meaning"], (code.split(" ", 1) for code in codes))


def glossary() -> str:
    """The words of the report."""
    from routebench.report import GLOSSARY

    return table(["Word", "Meaning"], ((f"**{word}**", meaning) for word, meaning in GLOSSARY))


def columns(results: str, suite: str) -> str:
    """The columns of a suite's first table in a published report, with their explanations."""
    from routebench.analysis.folder import open_folder
    from routebench.report import first_analysis

    runs = next(part for part in open_folder(ROOT / results).parts if part.suite == suite)
    analyse = first_analysis(runs.protocol)
    found = None if analyse is None else analyse(runs)
    if found is None:
        raise LookupError(f"{results} has no table")
    rows = ((f"**{column.title}**", column.explained[:1].upper() + column.explained[1:]) for column in found.columns)
    return table(["Column", "Meaning"], rows)


def measures(*names: str) -> str:
    """Measures with what is declared of them."""
    from routebench.declared import measure_of

    found = map(measure_of, names)
    better = {True: "more", False: "less", None: ""}
    rows = ((f"`{one.name}`", one.meaning, one.unit, better[one.higher_is_better]) for one in found)
    return table(["Measure", "Meaning", "Unit", "Better"], rows)


def listing(kind: str) -> str:
    """What is registered of one kind, as `routebench list` has it."""
    from routebench.catalogue import catalogue

    return table(["Name", "What it is"], ((f"`{one['name']}`", one["summary"]) for one in catalogue()[kind]))


def presets() -> str:
    """Every preset of every suite, with a link to what was published of it."""
    from routebench.catalogue import catalogue, presets_told

    titles, *rows = presets_told(catalogue()["presets"])
    links = {report.parent.name: f"[{report.parent.name}]({place})" for place, report in published_reports().items()}
    shown = (
        [f"`{suite}`", f"`{preset}`", *cells, ", ".join(links[one] for one in filter(None, folders.split(", ")))]
        for suite, preset, *cells, folders in rows
    )
    return table([title.capitalize() for title in titles], shown)


def overview() -> str:
    """Every routing method in a row."""
    header = [
        "Method",
        "Rule { .wide }",
        "Iterative",
        "Uses activations",
        "Gives activations",
        "Own parameters",
        "Per iteration",
    ]
    return table(header, methods.overview())


def method(name: str) -> str:
    """The head of a method's page: facts, with its rule in a sentence, and what else its docstring says of it."""
    facts = table(["At a glance", ""], ((f"**{what}**", said) for what, said in methods.facts(name)))
    return f"{facts}\n\n{methods.as_markdown(methods.parts_of(name)['notes'])}".strip()


def reference(name: str) -> str:
    """The foot of a method's page: published results, hyperparameters, departures, claims, cost and citation."""
    header, rows = ["Name", "Default", "Legal values", "Meaning { .of-option }"], methods.hyperparameters(name)
    departures = methods.as_markdown(methods.parts_of(name)["Departures"] or "none.")
    first, *further = methods.work(name)
    once = f"First iteration: {first}. Each further iteration: {further[0]}." if further else f"One pass: {first}."
    parts = {
        "Published results": published_results(name),
        "Hyperparameters": table(header, rows) if rows else "It has none.",
        "Departures from the publication": departures[:1].upper() + departures[1:],
        "Claims that are measured": "\n".join(f"- {claim}" for claim in methods.claims(name)),
        "Cost": f"{once} [What these are, and what they cost](../votes.md#what-a-method-can-ask-for).",
        "Cite": methods.citation(name),
    }
    return "\n\n".join(f"## {head}\n\n{text}" for head, text in parts.items())


def published_results(name: str) -> str:
    """A table of a method's accuracies and gains in the published comparisons, with their limits."""
    rows = measured.rows(name)
    if not rows:
        return "It is in no published results yet."
    notes = ["Trials chose the settings of each T. Intervals are 95 %, over seeds, each for itself."]
    if any("†" in row[1] for row in rows):
        notes.append("† is exploratory: a T that the suite did not specify for a comparison beforehand.")
    header = ["Results", "T", "Accuracy, %", "Gain over uniform routing, points"]
    return "\n\n".join([table(header, rows), " ".join(notes)])


def sections(path: str) -> str:
    """The sections of a Markdown file of the repository, without links to other files, which the site does not have."""
    _, mark, told = (ROOT / path).read_text(encoding="utf-8").partition("\n## ")
    if not mark:
        raise LookupError(f"{path} has no section")
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", f"## {told}")


def to_the_site(markdown: str, file: str, page: str) -> str:
    """Points links and pictures that work in the repository to where the site has what they lead to.

    Of a link to what the site does not have, its words remain; in `docs` it stays as it is, and mkdocs reports it.

    Args:
        markdown: text of a file of the repository.
        file: its path in the repository.
        page: path of the site's page that shows it.
    """
    of_the_site = file.startswith("docs/")

    def moved(path: str) -> str:
        told = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        place = "" if of_the_site and told.startswith("docs/") else _place_of(told)
        return posixpath.relpath(place, posixpath.dirname(page) or ".") if place else ""

    def pointed(link: re.Match[str]) -> str:
        if not (place := moved(link["path"])):
            return link[0] if of_the_site else link["words"]
        return f"[{link['words']}]({place}{link['anchor']})"

    return IMAGE.sub(lambda picture: moved(picture[0]) or picture[0], LINK.sub(pointed, markdown))


def _place_of(file: str) -> str:
    """Where the site has a file of the repository; empty for nowhere."""
    if file == "reports/README.md":
        return "findings.md"
    for place, told in {**published_reports(), **published_findings(), **published_pictures()}.items():
        if told == ROOT / file:
            return place
    return file.removeprefix("docs/") if file.startswith("docs/") else ""


def published_reports() -> dict[str, Path]:
    """The published reports, by their places on the site."""
    return {f"reports/{page.parent.name}.html": page for page in sorted((ROOT / "reports").glob("*/report.html"))}


def published_findings() -> dict[str, Path]:
    """The text of each folder of `reports`, by its place on the site."""
    return {f"found/{page.parent.name}.md": page for page in sorted((ROOT / "reports").glob("*/README.md"))}


def published_pictures() -> dict[str, Path]:
    """The pictures of these pages, by their places on the site."""
    return {f"found/{picture.name}": picture for picture in sorted((ROOT / "reports").glob("*/*.svg"))}


def reports() -> str:
    """`reports/README.md` below its title: the published results, with the question and the answer of each."""
    _, _, told = (ROOT / "reports" / "README.md").read_text(encoding="utf-8").partition("\n")
    folders = [page.parent.name for page in [*published_findings().values(), *published_reports().values()]]
    unexplained = [folder for folder in folders if f"]({folder}/README.md)" not in told]
    if unexplained:
        raise LookupError(f"reports/README.md has no row for {', '.join(unexplained)}")
    return to_the_site(told.strip(), "reports/README.md", "findings.md")


def steps() -> str:
    """The commits of reports/history: what each step was, and the test errors of a small fit."""
    return table(["Step", "Commit", "What it brought", "Dynamic, %", "EM, %"], history.table())


def own_citation() -> str:
    """`CITATION.cff` as BibTeX."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    keys = dict(re.findall(r'^([a-z-]+): "?(.+?)"?$', text, re.MULTILINE))
    authors = " and ".join(f"{{{name}}}" for name in re.findall(r"- name: (.+)", text))
    rows = {
        "title": f"{{{keys['title']}}}",
        "author": authors,
        "year": keys["date-released"][:4],
        "version": keys["version"],
    }
    fields = "".join(f"  {key} = {{{value}}},\n" for key, value in rows.items())
    return f"```bibtex\n@software{{routebench,\n{fields}}}\n```"


def public_names() -> str:
    """Every name of `routebench.__all__`: in a table with a link to its page, or explained below where it has none."""
    import routebench
    from routebench.registry import Registry

    rows, blocks = [], []
    for name in routebench.__all__:
        one = getattr(routebench, name)
        told = "What is registered, by name." if isinstance(one, Registry) else _first_sentence(one)
        page = "routing.md#registry" if isinstance(one, Registry) else _page_of(name, one)
        if not page:
            target = f"{one.__module__}.{name}"
            blocks.append(f"::: {target}\n    options: {{ heading: routebench.{name}, toc_label: {name} }}")
            blocks += [_arguments(name, one)] if hasattr(one, "__signature__") else []  # made from a declaration
        rows.append((f"[`{name}`]({page or f'#{target}'})", told))
    return "\n\n".join([table(["Name", "What it is"], rows), *blocks])


def _arguments(name: str, one: Any) -> str:
    """The arguments of a function of options, of which its source names none."""
    told, known = explained(inspect.getdoc(one) or ""), inspect.signature(one).parameters.values()
    defaults = {each.name: str(each.default) if isinstance(each.default, Path) else each.default for each in known}
    shown = {key: "" if value is inspect.Parameter.empty else f"`{value!r}`" for key, value in defaults.items()}
    rows = ((f"`{key}`", default, told[key]) for key, default in shown.items())
    return f"The arguments of `{name}`:\n\n{table(['Argument', 'Default', 'What it is'], rows)}"


def _first_sentence(one: Any) -> str:
    paragraph = " ".join((inspect.getdoc(one) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph)[0]


def _page_of(name: str, one: Any) -> str:
    """Where another page of the reference explains something; empty if none does. A module has the page of its name."""
    if inspect.ismodule(one):
        return f"{name}.md"
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for target in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            if target.endswith(f".{name}") and named(target) is one:
                return f"{page.name}#{target}"
    return ""


def file(path: str) -> str:
    """A file of the repository, to be saved under its name."""
    shown = ROOT / path
    language = {".py": "python", ".toml": "toml", ".yml": "yaml"}[shown.suffix]
    return f'```{language} title="{shown.name}"\n{shown.read_text(encoding="utf-8").rstrip()}\n```'


def choices(*names: str) -> str:
    """Options of classes and functions with their defaults, and what their docstrings say of them: two columns.

    Options of one owner that share a sentence share a row; the owner is named where a table has several.
    """
    found = options(*names)
    several = len({of for of, *_ in found}) > 1
    rows: dict[tuple[str, str], list[str]] = {}
    for of, name, default, told in found:
        rows.setdefault((of, told), []).append(f"`{name}` =&nbsp;`{default}`")
    cells = (("<br>".join([*([f"of `{of}`"] if several else []), *same]), told) for (of, told), same in rows.items())
    return table(["Option and default", "What it is, and why"], cells)


def drawing(path: str) -> str:
    """A drawing as part of the page, so that it takes the page's colours."""
    return f"<figure>\n{(ROOT / path).read_text(encoding='utf-8').strip()}\n</figure>"


def record(results: str) -> str:
    """One record of a published report, with one of its metrics."""
    from routebench.engine.results import files_of

    found = json.loads(min((files_of(ROOT / results) / "records").glob("*.json")).read_text(encoding="utf-8"))
    found["metrics"] = found["metrics"][:1]
    return f"```json\n{json.dumps(found, indent=2)}\n```"


FILLERS: dict[str, Callable[..., str]] = {
    "commands": commands,
    "of-every-command": of_every_command,
    "variables": variables,
    "exit-codes": exit_codes,
    "glossary": glossary,
    "columns": columns,
    "measures": measures,
    "list": listing,
    "presets": presets,
    "methods": overview,
    "method": method,
    "reference": reference,
    "reports": reports,
    "history": steps,
    "sections": sections,
    "own-citation": own_citation,
    "public-names": public_names,
    "file": file,
    "source": source,
    "choices": choices,
    "drawing": drawing,
    "record": record,
}
