"""Table of how far coupling finds a part's object, beside inference in the model that made the scenes."""

from pandas import DataFrame, concat

from routebench.analysis import (
    METHOD,
    SEEDS,
    Analysis,
    Column,
    Estimate,
    Main,
    Mean,
    Method,
    Runs,
    analysis_of,
    answer_of,
    gains_over,
    run,
    table_of,
)

CEILING = "inference in the true model"
TRUE = "ceiling_"
"""Start of the names of the ceiling's metrics."""


@analysis_of("parts", "parts-table", place=10)
def parts_table(runs: Runs) -> Analysis | None:
    """Accuracy, agreement of coupling with the true parents, clutter and poses, per method."""
    lines = runs.means("ari", ["objects", "clutter"], as_trained=True)
    if lines.empty:
        return None
    few, many = (int(found) for found in (lines["objects"].min(), lines["objects"].max()))
    clean, full = (int(found) for found in (lines["clutter"].min(), lines["clutter"].max()))
    columns = _columns(runs, few, many, clean, full)
    table = table_of(runs, columns, order="ari")
    ceiling = _ceiling(runs, columns)
    where = {"objects": few, "clutter": clean, "as_trained": True}
    main = Main.of("ari", title="Parts found (ARI)", gains=gains_over("uniform", runs.by_seed("ari", **where)))
    return Analysis(
        title="Does coupling find parts?",
        reading=answer_of(main, runs) or "Does coupling find a part's object?",
        table=concat([ceiling, table], ignore_index=True),
        columns=columns,
        notes=(
            "Mean over scenes, then over seeds with its 95 % t interval; at the T trained with, unless T is named.",
            "First row: inference with the arrangements and the noise that made the scenes, for all methods the same.",
            "Training has scenes of one object or two, without clutter.",
        ),
        main=main,
    )


def _columns(runs: Runs, few: int, many: int, clean: int, full: int) -> tuple[Column, ...]:
    """Columns for scenes with few objects and with many, without clutter and with most."""
    at = {"objects": few, "clutter": clean}
    trained = {**at, "as_trained": True}
    last = int(runs.values("ari", objects=few, clutter=clean)["test_iterations"].fillna(0).max())
    cluttered = {**trained, "clutter": full}
    found: list[Column] = [
        METHOD,
        Mean.of("accuracy", explained="test scenes of which exactly the kinds of objects shown are answered"),
        Mean.of("ari", explained=f"adjusted Rand index of the parent with most of a part's coupling against its true "
                f"object, scenes of {few} objects; 1 is right, 0 is chance", where=trained),
        Mean.of("true_share", explained="share of a part's coupling at its true object, same scenes", where=trained),
        Mean.of("pose_r2", explained="of true object poses given those of object capsules, after the best linear "
                "map for each kind, same scenes", where=trained),
    ]  # fmt: skip
    if last:
        found += [Mean.of("ari", "ari_last", f"ARI, T = {last}", "the same weights, with so many iterations",
                          where={**at, "test_iterations": last}, extra=True)]  # fmt: skip
    if many > few:
        found += [Mean.of("ari", "ari_many", f"ARI, {many} objects", "in scenes with more objects",
                          where={**trained, "objects": many})]  # fmt: skip
    if full > clean:
        found += [
            Mean.of("ari", "ari_cluttered", f"ARI, {full} clutter", f"of the parts of objects, among {full} parts that "
                    "belong to nothing", where=cluttered),
            Mean.of("clutter_mass", where=cluttered),
        ]  # fmt: skip
    return (*found, SEEDS)


def _ceiling(runs: Runs, columns: tuple[Column, ...]) -> DataFrame:
    """One row, from whatever run measured it."""
    row: dict[str, object] = {"method": Method(CEILING, model=runs.model, role="control"), "n": 1}
    measured = {column.key: column for column in columns if isinstance(column, Mean)}
    for key, column in measured.items():
        metric, where = column.metric or key, column.where
        if key == "accuracy":
            metric, where = "exact_match", measured["ari"].where
        known = {axis: where[axis] for axis in ("objects", "clutter")}
        found = [] if key == "ari_last" else [*runs.values(f"{TRUE}{metric}", as_trained=False, **known)["value"]]
        row[key] = Estimate(float(found[0]), n=1) if found else Estimate()
    return DataFrame([row])


if __name__ == "__main__":
    run(parts_table)
