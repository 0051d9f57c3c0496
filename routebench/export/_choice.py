"""Chooses what to export: the format, and the part of a results folder."""

from dataclasses import dataclass
from pathlib import Path

from pandas import DataFrame

from routebench.analysis._runs import Runs
from routebench.analysis.folder import Folder
from routebench.analysis.wording import plural
from routebench.engine.results import Store
from routebench.errors import UserError, nearest, printable, unknown

FORMATS = {"csv": ".csv", "parquet": ".parquet", "markdown": ".md", "latex": ".tex", "json": ".json"}
"""Formats, and the ending of their files."""


def format_named(name: str | None, output: Path | None) -> str:
    """The format asked for, or the one that the ending of the file stands for.

    Args:
        name: the format asked for; None for none.
        output: the file; None for none.

    Raises:
        UserError: it is unknown, the ending stands for another, or neither says which.
    """
    known = {ending: format_ for format_, ending in FORMATS.items()}
    if name is not None:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
        if output is not None and known.get(output.suffix, name) != name:
            raise UserError(
                f"--format {name} disagrees with the ending of {str(output)!r}, which stands for "
                f"{known[output.suffix]}; leave out --format, or name a file that ends in {FORMATS[name]}"
            )
        return name
    if output is None or output.suffix not in known:
        raise UserError(
            f"expected --format {'|'.join(FORMATS)}, or a file that ends in {', '.join(known)}; got neither"
        )
    return known[output.suffix]


@dataclass(frozen=True)
class Choice:
    """The part of a results folder to export; None stands for everything.

    Args:
        suite, preset: names of a planned suite and of its preset.
        metric: a value of the column `metric`; for rows only.
    """

    suite: str | None = None
    preset: str | None = None
    metric: str | None = None

    def parts(self, folder: Folder) -> list[Runs]:
        """The parts of the folder that fit, the newest first.

        Raises:
            UserError: none does.
        """
        fitting = [runs for runs in folder.parts if self._fits(runs.suite, runs.preset)]
        if not fitting:
            planned = sorted({f"{runs.suite} ({runs.preset})" for runs in folder.parts})
            raise UserError(f"nothing was planned of {self}; {str(folder.path)!r} holds {', '.join(planned)}")
        return fitting

    def rows(self, store: Store) -> DataFrame:
        """The rows of `load_results` that fit. A run without a result keeps its row, whatever the metric.

        The number of runs that are left out for newer ones becomes a warning of the store.

        Raises:
            UserError: no row has the metric.
        """
        results = store.results()
        if self.suite is not None or self.preset is not None:
            results = results[results["cell"].isin(self._planned(store))]
        earlier = results["cell"].isin(store.superseded())
        if count := results.loc[earlier, "cell"].nunique():
            store.warnings.append(
                f"left out: {plural(count, 'run')} of earlier code, options or training, for which newer ones are there"
            )
        results = results[~earlier]
        if self.metric is not None and not results.empty:
            own = results["metric"] == printable(self.metric)  # as records are read
            if not own.any():
                raise UserError(f"no metric {self.metric!r} was measured{nearest(self.metric, _metrics(results))}")
            results = results[own | (results["status"] != "ok")]
        return results.reset_index(drop=True)

    def _planned(self, store: Store) -> set[str]:
        """Keys of every run that any plan of this suite and preset names, superseded ones too."""
        cells = set()
        for plan in store.plans():
            for cell in plan.cells:
                if self._fits(cell.identity.suite, plan.head["preset"]):
                    cells.add(cell.cell)
        return cells

    def _fits(self, suite: str, preset: str) -> bool:
        return self.suite in (None, suite) and self.preset in (None, preset)

    def __str__(self) -> str:
        named = [f"{key} {value!r}" for key, value in (("suite", self.suite), ("preset", self.preset)) if value]
        return " with ".join(named) or "any suite"


def _metrics(results: DataFrame) -> list[str]:
    return [str(name) for name in results["metric"].dropna().unique()]
