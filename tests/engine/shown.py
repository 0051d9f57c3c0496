"""What a results folder shows that depends on no machine and no clock."""

from routebench.analysis._table import saved
from routebench.analysis.comparison import comparison_of
from routebench.analysis.folder import open_folder
from routebench.analysis.named import named_pairs, named_table
from routebench.engine.results import load_results
from routebench.export import Choice, export
from routebench.report import answers
from routebench.units import is_of_machine

OF_MACHINE = ["seconds", "device", "commit", "dirty"]


def tables_of(folder):
    """Every number of a folder as CSV, and what its pages say, as text."""
    results = load_results(folder)
    results = results[[not is_of_machine(unit) for unit in results["unit"]]].drop(columns=OF_MACHINE)
    opened = open_folder(folder)
    told = [results.to_csv(index=False)]
    for runs in opened.parts:
        found = answers(opened, runs.suite, runs.preset)
        told += [text for one in found for text in (one.table.to_csv(), str(one.headline))]
        told += [
            saved(comparison_of(runs).table).drop(columns="fit_seconds").to_csv(),
            named_table(runs).to_csv(),
            *map(str, named_pairs(runs)),
        ]
    return "\n".join(told)


def markdown_of(folder):
    """The lines of its comparison tables as Markdown."""
    exported = export(open_folder(folder), Choice(None, None, None), "markdown", "")
    text = exported if isinstance(exported, str) else exported.decode()
    return [line for line in text.splitlines() if line.startswith("|")]
