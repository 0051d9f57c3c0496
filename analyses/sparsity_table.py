"""How sparse the class capsules are, and how far coupling singles out one parent."""

from collections.abc import Callable

from pandas import DataFrame

from routebench.analysis import script, wording
from routebench.analysis.means import means_of, value_with_interval
from routebench.analysis.result import Analysis, Column, Main, Row, Runs, belongs_to
from routebench.registry import analyses

MEASURES = {
    "hoyer": (
        "Hoyer",
        "Hoyer's sparsity of the class scores, mean over test images: 0 is spread evenly, 1 is one alone",
    ),
    "top_share": ("Top-1 share", "share of the most active class capsule in the sum; 0.1 is spread evenly over ten"),
    "active_above_0.1": ("Above 0.1", "class capsules whose score is above 0.1, mean over test images"),
    "dead_share": ("Dead", "share of class capsules whose score is above 0.1 for no test image"),
    "d_score": ("D-score", "largest standard deviation over test images of any class score (Peer et al.)"),
}
DECIDED = {
    "t_score": ("T-score", "1 where every child has one parent, 0 where it has all alike; at the T trained with"),
    "effective_parents": ("Parents per child", "exp of the entropy of a child's coupling over class capsules"),
}
DECIDED_FROM, EVEN_BELOW = 0.5, 0.05  # T-scores


@analyses.register("sparsity-table")
@belongs_to("sparsity", place=10)
def sparsity_table(runs: Runs) -> Analysis | None:
    """Per method: sparsity of class scores, and decidedness of the coupling into the class layer."""
    table = _table(runs)
    if table.empty:
        return None
    return Analysis(
        title="Sparsity of class capsules, and of the coupling into them",
        reading=_reading(table),
        table=table,
        columns=_columns(),
        notes=(
            "Mean over test images, then over seeds with its 95 % t interval.",
            (
                "Scores are lengths of class capsules, activations, or sigmoids of class logits, as the method has it: "
                "their scales differ, so that counts above a threshold compare methods of one kind only."
            ),
        ),
        main=Main("t_score", "T-score of coupling", digits=3),
    )


def _table(runs: Runs) -> DataFrame:
    classes = {"layer": "classes"}
    table = means_of(runs, "hoyer", where=classes | {"of": "activation"})[["name", "label", "iterations", "role", "n"]]
    for key in (*MEASURES, *DECIDED):
        found = means_of(runs, key, where=classes | ({"of": "activation"} if key in MEASURES else {}),
                         by=() if key in MEASURES else ("test_iterations",))  # fmt: skip
        if key in DECIDED and not found.empty:
            own = (found["test_iterations"] == found["iterations"]) | found["test_iterations"].isna()
            found = found[own.fillna(False).astype(bool)]
        found = found.drop_duplicates("name").set_index("name")
        for part, column in (("mean", key), ("low", f"{key}_low"), ("high", f"{key}_high")):
            table[column] = table["name"].map(found[part]).astype(float)
    return table.sort_values("hoyer", ascending=False, kind="stable").reset_index(drop=True)


def _columns() -> tuple[Column, ...]:
    known = {**MEASURES, **DECIDED}
    return (
        Column(
            "Method", "name", wording.marked, "routing method, and T, the iterations it was trained with", numeric=False
        ),
        *(Column(title, key, _shown(key), explained) for key, (title, explained) in known.items()),
        Column("Seeds", "n", lambda row: str(row["n"]), "that the mean is over", extra=True),
    )


def _shown(key: str) -> Callable[[Row], str]:
    digits = 1 if key in ("active_above_0.1", "effective_parents") else 3
    return lambda row: value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], digits)


def _reading(table: DataFrame) -> str:
    best, base = table.iloc[0], table[table["label"] == "uniform"]
    beside = f", uniform {base['hoyer'].iloc[0]:.2f}" if len(base) and best["label"] != "uniform" else ""
    first = f"Class scores are most concentrated with {best['name']} (Hoyer {best['hoyer']:.2f}{beside})"
    known = table[table["t_score"].notna()].sort_values("t_score", ascending=False)
    if known.empty:
        return f"{first}."
    decided = [str(name) for name in known.loc[known["t_score"] >= DECIDED_FROM, "name"]]
    even = int((known["t_score"] < EVEN_BELOW).sum())
    told = f"singles out parents with {wording.listed(decided, 3)}" if decided else "singles out parents with no method"
    return (
        f"{first}; coupling {told}, and is nearly equal for all parents with {even} of {len(known)} "
        f"(T-score below {EVEN_BELOW:g})."
    )


if __name__ == "__main__":
    script.run(sparsity_table, "sparsity-table")
