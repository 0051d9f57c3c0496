"""Accuracy under attack: every method's worst case over all attacks, and whether it can be believed."""

import math
from collections.abc import Callable

import pandas as pd
from pandas import DataFrame

from routebench import published
from routebench.analysis import Analysis, Column, Main, Row, Runs, analysis_of, run, wording
from routebench.analysis.attacked import LINF, NAMES, WORST, accuracies, budgets, compared, main_eps, verdicts
from routebench.analysis.means import means_of, value_with_interval

ALPHA = 0.05
BASELINES = ("uniform", "cnn")
ON_SURVIVORS = ("apgd-ce", "apgd-t", "square")
ALONE = ("noise", "fgsm", "bim", "pgd", "momentum", "transfer")


@analysis_of("robustness", "robustness-table", place=10)
def robustness_table(runs: Runs) -> Analysis | None:
    """Per method: accuracy under the worst of all attacks, against uniform coupling and the CNN, with a verdict."""
    eps = main_eps(runs)
    if eps is None:
        return None
    table = _table(runs, eps)
    return Analysis(
        title=f"Accuracy under attack, eps {eps}",
        reading=_reading(table, eps),
        table=table,
        columns=tuple(_columns(runs, table, eps)),
        notes=(*_notes(runs, eps), *_published_notes(runs, table)),
        main=Main("worst", f"Under attack, eps {eps}", "%", higher_is_better=True),
    )


def _table(runs: Runs, eps: str) -> DataFrame:
    """One row per method, the highest worst-case accuracy first."""
    table = means_of(runs, "attacked_accuracy", where={**WORST, "eps": eps})
    table = table.rename(columns={"mean": "worst", "low": "worst_low", "high": "worst_high"})
    _add(table, "clean", means_of(runs, "clean_accuracy"))
    for attack in ALONE:
        _add(table, attack, accuracies(runs, attack, eps))
    for attack in ON_SURVIVORS:
        where = {**LINF, "attack": attack, "eps": eps}
        _add(table, f"taken_{attack}", means_of(runs, "accuracy_taken", where=where))
    for other in budgets(runs):
        if other != eps:
            _add(table, f"worst_{other}", means_of(runs, "attacked_accuracy", where={**WORST, "eps": other}))
    _add(table, "l2", means_of(runs, "median_distance", where={"attack": "worst", "norm": "l2"}))
    for base in BASELINES:
        found = compared(runs, table["name"], base, {**WORST, "eps": eps}).set_index("name")
        for key in ("gain", "gain_low", "gain_high", "p", "p_holm"):
            table[f"{key}_{base}"] = table["name"].map(found[key]).astype(float)
    table["verdict"] = table["name"].map(verdicts(runs)).fillna("not judged")
    return table.sort_values("worst", ascending=False, kind="stable").reset_index(drop=True)


def _add(table: DataFrame, key: str, found: DataFrame) -> None:
    found = found.drop_duplicates("name").set_index("name")
    for part, column in (("mean", key), ("low", f"{key}_low"), ("high", f"{key}_high")):
        table[column] = table["name"].map(found[part]).astype(float)


def _columns(runs: Runs, table: DataFrame, eps: str) -> list[Column]:
    columns = [
        Column("Method", "name", wording.marked,
               "routing method, and T, the iterations it was trained with", numeric=False),
        Column("Unattacked, %", "clean", _shown("clean"), "accuracy on the images that are attacked"),
        Column(f"Worst case, % (eps {eps})", "worst", _shown("worst"),
               "images that no attack of this budget breaks: an upper bound on the true robustness"),
    ]  # fmt: skip
    for base in BASELINES:
        if table[f"gain_{base}"].notna().any():
            told = "points of worst-case accuracy, paired by seed; p in brackets, Holm over this column"
            columns.append(Column(f"Against {base}", f"gain_{base}", _gain(base), told))
    columns.append(
        Column("Verdict", "verdict", lambda row: str(row["verdict"]),
               "whether the checks for gradient masking leave the number standing", numeric=False)
    )  # fmt: skip
    columns += [
        Column(f"{NAMES[attack]}, %", attack, _shown(attack), "accuracy under it alone", extra=True)
        for attack in ALONE
        if table[attack].notna().any()
    ]
    told = "points of accuracy that it takes from what the white-box attacks before it left"
    columns += [
        Column(f"{NAMES[attack]} takes", f"taken_{attack}", _shown(f"taken_{attack}"), told, extra=True)
        for attack in ON_SURVIVORS
        if table[f"taken_{attack}"].notna().any()
    ]
    for other in budgets(runs):
        if other != eps:
            key = f"worst_{other}"
            columns.append(Column(f"Worst case, % (eps {other})", key, _shown(key), extra=True))
    if table["l2"].notna().any():
        told = "L2 distance of the smallest change that any attack found, pixels from 0 to 1, median over images"
        columns.append(Column("Smallest change", "l2", _shown("l2", 2), told, extra=True))
    columns.append(Column("Seeds", "n", lambda row: str(row["n"]), "that the means are over", extra=True))
    return columns


def _shown(key: str, digits: int = 1) -> Callable[[Row], str]:
    return lambda row: value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], digits)


def _gain(base: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        if math.isnan(row[f"gain_{base}"]):
            return wording.NOTHING
        known = {key: row[f"{key}_{base}"] for key in ("gain", "gain_low", "gain_high")}
        limits = wording.gain_with_interval(known)
        return f"{limits} ({wording.probability(row[f'p_holm_{base}'])})"

    return text


def _reading(table: DataFrame, eps: str) -> str:
    best = table.iloc[0]
    doubt = "" if best["verdict"] == "believable" else f", which is {best['verdict']}"
    share = value_with_interval(best["worst"], best["worst_low"], best["worst_high"], 1)
    first = f"At eps {eps} {best['name']} keeps most images from all attacks, {share} %{doubt}"
    routed = table[table["role"] != "control"]
    if best["role"] == "control" and len(routed):
        first += f", and of the routing methods {_kept(routed.iloc[0])}"
        best = routed.iloc[0]
    told = [_told(table, best, base) for base in BASELINES if base in set(table["name"]) and best["name"] != base]
    return f"{'; '.join([first, *told])}."


def _kept(row: pd.Series) -> str:
    doubt = "" if row["verdict"] == "believable" else f", {row['verdict']}"
    return f"{row['name']}, {value_with_interval(row['worst'], row['worst_low'], row['worst_high'], 1)} %{doubt}"


def _told(table: DataFrame, best: pd.Series, base: str) -> str:
    """How the best routing method, or the best of all, stands to a baseline."""
    other = table.loc[table["name"] == base, "worst"].iloc[0]
    name = {"uniform": "uniform coupling", "cnn": "the CNN"}[base]
    p_value = best[f"p_holm_{base}"]
    verdict = "is untested" if math.isnan(p_value) else "is shown" if p_value < ALPHA else "is not shown"
    return f"{name} keeps {other:.1f} % (a difference to {best['name']} {verdict})"


def _notes(runs: Runs, eps: str) -> list[str]:
    deviation = runs.results.loc[runs.results["metric"] == "pixel_std", "value"]
    count = runs.results.loc[runs.results["metric"] == "attacked_images", "value"]
    notes = [
        (
            f"eps {eps} is L-infinity, in pixels from 0 to 1, rounded down to {int(float(eps) * 255 + 1e-6)} of 255 "
            f"grey levels; it is {float(eps) / deviation.iloc[0]:.2f} standard deviations of the training pixels."
        ),
        (
            f"{count.iloc[0]:.0f} test images, evenly over classes: one image is {100 / count.iloc[0]:.2g} points. "
            "An image that the network has wrong without an attack counts as broken."
        ),
        (
            "Judged by giving the stored 8-bit images to the network again, not by the attack's own word. The worst "
            "case is over all attacks with this budget or a smaller one, image by image."
        ),
        "Mean over seeds with its 95 % t interval. A verdict is suspect if a serious check fires with any seed.",
    ]
    if len(runs.results["seed"].unique()) == 1:
        notes.append("One seed: differences are over images (McNemar's exact test) and hold for these networks only.")
    return notes


def _published_notes(runs: Runs, table: DataFrame) -> list[str]:
    """What was printed for the same data set and method; on other data there is nothing to compare with."""
    known = published.load_published()
    known = known[(known["metric"] == "accuracy after attack") & (known["data"] == runs.data)]
    labels = set(table["label"].str.partition("[")[0])
    return [
        f"{row['source']}, {row['where']}, {row['printed_method']}, {row['variant']}: {row['value']:g} % "
        f"({row['id']}; {row['conditions']})."
        for row in known.to_dict("records")
        if row["method"] in labels
    ]


if __name__ == "__main__":
    run(robustness_table)
