"""Every check for gradient masking, for every method."""

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Method, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.attacked import fired_checks
from routebench.masking import CHECKS

FIRED = palette.HUES[1]
MOST = 12  # methods in the figure


@analysis_of("robustness", "attack-verdicts", place=30)
def attack_verdicts(runs: Runs) -> Analysis | None:
    """The value and the limit per method and check, and whether the check makes accuracies under attack suspect."""
    if "check" not in runs.results or (table := _table(runs)).empty:
        return None
    methods = [*table["method"].unique()[:MOST]]
    checks = [name for name in CHECKS if name in set(table["check"])]
    height = 1.3 + 0.3 * len(checks) + 0.07 * max(len(str(method)) for method in methods)
    return Analysis(
        title="Can the numbers be believed?",
        reading="Which checks for gradient masking fire, and for which methods?",
        table=table,
        figure=figures.figure_of(_draw, table, methods, checks, height=height),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Question", "question", "", "a yes gives doubt", numeric=False),
            Column("Value", "value", lambda row: f"{_short(row)} {row['unit']}".rstrip(), "mean over seeds"),
            Column("Limit", "limit", lambda row: f"{row['sign']} {row['limit']:g} {row['unit']}".rstrip()),
            Column("Yes", "yes", lambda row: f"{row['yes']} / {row['value'].n}" if row["yes"] else "no",
                   "seeds whose value is beyond the limit", numeric=False),
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
    means, fired = runs.means("check", by=["check"]), fired_checks(runs)
    signs = {name: "below" if check.below else "above" for name, check in CHECKS.items()}
    rows = [
        {"method": method, "check": name, "value": value, "sign": signs[name], "yes": fired[method][name]}
        | vars(CHECKS[name])
        for method, name, value in zip(means["method"], means["check"], means["mean"], strict=True)
        if name in CHECKS
    ]
    places = {name: place for place, name in enumerate(CHECKS)}
    rows.sort(key=lambda row: (row["method"].is_control, row["method"], places[row["check"]]))
    return DataFrame(rows)


def _draw(axes: Axes, table: DataFrame, methods: list[Method], checks: list[str]) -> None:
    known = {(row["method"], row["check"]): row for row in table.to_dict("records")}
    fired = {of for of, row in known.items() if row["yes"]}
    fields = [[float((method, check) in fired) for method in methods] for check in checks]
    axes.imshow(fields, cmap=ListedColormap(["none", FIRED]), vmin=0, vmax=1, aspect="auto", alpha=0.35)
    for line, check in enumerate(checks):
        for place, method in enumerate(methods):
            text = _short(known[method, check]) if (method, check) in known else wording.NOTHING
            bold = "bold" if (method, check) in fired else "normal"
            axes.text(place, line, text, ha="center", va="center", fontsize=7.5, color=palette.INK, fontweight=bold)
    axes.set_xticks(range(len(methods)), [*map(str, methods)], rotation=90)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(checks)), [_titled(check) for check in checks])
    axes.tick_params(length=0, labelsize=8.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.hlines([line - 0.5 for line in range(1, len(checks))], -0.5, len(methods) - 0.5, color=palette.MUTED, lw=0.3)


def _titled(check: str) -> str:
    unit = {"points": ", points", "%": ", %"}.get(CHECKS[check].unit, "")
    return f"{check.replace('-', ' ')}{unit}"


def _short(row: Row) -> str:
    value = row["value"].mean
    return f"{value:.3g}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.0e}"


if __name__ == "__main__":
    run(attack_verdicts)
