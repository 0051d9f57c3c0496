"""Whether accuracies under attack can be believed: every check for gradient masking, for every method."""

import math

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.attacked import fired_checks
from routebench.analysis.means import means_of
from routebench.masking import CHECKS, suspicions

FIRED = "#bf4400"
MOST = 12  # methods in the figure


@analysis_of("robustness", "attack-verdicts", place=30)
def attack_verdicts(runs: Runs) -> Analysis | None:
    """Per method and check: the value, the limit, and whether it makes the numbers suspect."""
    table = _table(runs)
    if table.empty:
        return None
    names = list(dict.fromkeys(table["name"]))[:MOST]
    checks = [name for name in CHECKS if name in set(table["check"])]
    with figures.look():
        figure, (axes,) = figures.new_figure(1.3 + 0.3 * len(checks) + 0.07 * max(map(len, names)))
        _draw(axes, table, names, checks)
    reading = _reading(runs, table)
    return Analysis(
        title="Can the numbers be believed?",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("Question", "question", lambda row: str(row["question"]), "a yes gives doubt", numeric=False),
            Column("Value", "value", _value, "mean over seeds"),
            Column("Limit", "limit", lambda row: f"{row['sign']} {row['limit']:g} {row['unit']}".rstrip()),
            Column("Yes", "yes", _yes, "seeds whose value is beyond the limit", numeric=False),
        ),
        notes=(
            "Orange fields fired with at least one seed; a dash says that a check does not apply or was not made.",
            (
                "The last two rows say only that some one attack cannot stand alone. All others are serious: they make "
                "the worst case over all attacks suspect."
            ),
            "No check that fires is no proof of robustness.",
        ),
        alternative="A field of methods and checks, with values.",
    )  # fmt: skip


def _table(runs: Runs) -> DataFrame:
    """One row per method and check, in the order of `CHECKS`."""
    means = means_of(runs, "check", by=("check",))
    if means.empty:
        return DataFrame()
    fired = runs.results[runs.results["metric"] == "check_fired"]
    counts: dict[tuple[str, str], int] = {}
    for row in fired.to_dict("records"):
        key = wording.name_of(str(row["label"]), row["iterations"]), str(row["check"])
        counts[key] = counts.get(key, 0) + int(row["value"] > 0)
    means = means[means["check"].isin(CHECKS)].rename(columns={"mean": "value"})
    table = means.assign(
        question=[CHECKS[check].question for check in means["check"]],
        limit=[CHECKS[check].limit for check in means["check"]],
        sign=["below" if CHECKS[check].below else "above" for check in means["check"]],
        unit=[CHECKS[check].unit for check in means["check"]],
        serious=[CHECKS[check].serious for check in means["check"]],
        yes=[counts.get((name, check), 0) for name, check in zip(means["name"], means["check"], strict=True)],
        place=[list(CHECKS).index(check) for check in means["check"]],
    )
    kept = ["name", "label", "iterations", "role", "check", "question", "value", "limit", "sign", "unit", "serious"]
    return table.sort_values(["role", "name", "place"], ascending=[False, True, True])[[*kept, "yes", "n"]].reset_index(
        drop=True
    )


def _draw(axes: Axes, table: DataFrame, names: list[str], checks: list[str]) -> None:
    known = {(row["name"], row["check"]): row for row in table.to_dict("records")}
    fields = [[float(known.get((name, check), {"yes": 0})["yes"] > 0) for name in names] for check in checks]
    axes.imshow(fields, cmap=ListedColormap(["none", FIRED]), vmin=0, vmax=1, aspect="auto", alpha=0.35)
    for line, check in enumerate(checks):
        for place, name in enumerate(names):
            row = known.get((name, check))
            text = wording.NOTHING if row is None else _value(row, short=True)
            bold = "bold" if row is not None and row["yes"] else "normal"
            axes.text(place, line, text, ha="center", va="center", fontsize=7.5, color=palette.INK, fontweight=bold)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(checks)), [_titled(check) for check in checks])
    axes.tick_params(length=0, labelsize=8.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.hlines([line - 0.5 for line in range(1, len(checks))], -0.5, len(names) - 0.5, color=palette.MUTED, lw=0.3)


def _titled(check: str) -> str:
    unit = {"points": ", points", "%": ", %"}.get(CHECKS[check].unit, "")
    return f"{check.replace('-', ' ')}{unit}"


def _value(row: Row, *, short: bool = False) -> str:
    value = float(row["value"])
    if math.isnan(value):
        return wording.NOTHING
    number = f"{value:.3g}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.0e}"
    return number if short else f"{number} {row['unit']}".rstrip()


def _yes(row: Row) -> str:
    return f"{row['yes']} / {row['n']}" if row["yes"] else "no"


def _reading(runs: Runs, table: DataFrame) -> str:
    doubted = {name: suspicions(fired) for name, fired in fired_checks(runs).items()}
    suspect = [name for name, reasons in doubted.items() if reasons]
    count = table["name"].nunique()
    if not suspect:
        first = f"No serious check fires for any of {count} methods"
    else:
        reasons = list(dict.fromkeys(CHECKS[check].short for name in suspect for check in doubted[name]))
        first = (
            f"The numbers of {len(suspect)} of {count} methods are suspect ({wording.listed(suspect, 4)}): "
            f"{wording.listed(reasons, 4)}"
        )
    lone = sorted(set(table.loc[(table["check"] == "training-loss") & (table["yes"] > 0), "name"]))
    if lone:
        first += f"; attacking the training loss alone would have flattered {wording.listed(lone, 4)}"
    return f"{first}."


if __name__ == "__main__":
    run(attack_verdicts)
