"""What the analyses of adversarial accuracy read of their runs: budgets, verdicts, and differences by seed."""

from collections.abc import Iterable, Mapping

import numpy as np
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis.means import means_of
from routebench.masking import verdict

LINF = {"norm": "linf"}
WORST = {**LINF, "attack": "worst", "loss": "best"}
NAMES = {
    "noise": "Noise",
    "fgsm": "FGSM",
    "bim": "BIM",
    "pgd": "PGD",
    "momentum": "Momentum",
    "apgd-ce": "APGD-CE",
    "apgd-t": "APGD-T",
    "square": "Square",
    "transfer": "Black box",
    "worst": "Worst case",
    "carlini-wagner": "Carlini-Wagner",
    "deepfool": "DeepFool",
    "boundary": "Boundary",
    "hop-skip-jump": "HopSkipJump",
}
"""Of attacks, as shown."""


def main_eps(runs: Runs) -> str | None:
    """The budget at which the costly checks were made, as results write it; None without results."""
    found = runs.results[runs.results["metric"] == "main_eps"]["value"]
    return None if found.empty else f"{found.iloc[0]:g}"


def budgets(runs: Runs) -> list[str]:
    """Every eps of the L-infinity attacks, rising, as results write them."""
    if "eps" not in runs.results:
        return []
    own = runs.results[(runs.results["norm"] == "linf") & runs.results["eps"].notna()]
    return sorted(map(str, own["eps"].unique()), key=float)


def accuracies(runs: Runs, attack: str, eps: str) -> DataFrame:
    """Means over seeds of the accuracy under an attack, with the loss that was worst for each image."""
    by_loss = attack not in ("noise", "transfer")
    where = {**LINF, "attack": attack, "eps": eps, "loss": "best" if by_loss else ""}
    return means_of(runs, "attacked_accuracy", where=where)


def fired_checks(runs: Runs) -> dict[str, list[str]]:
    """By name of a method: the checks that fired with any seed."""
    rows = runs.results[runs.results["metric"] == "check_fired"]
    found: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        own = found.setdefault(wording.name_of(str(row["label"]), row["iterations"]), [])
        if row["value"] > 0 and row["check"] not in own:
            own.append(str(row["check"]))
    return found


def verdicts(runs: Runs) -> dict[str, str]:
    """By name of a method: `believable`, or why its numbers are suspect with any seed."""
    return {name: verdict(fired) for name, fired in fired_checks(runs).items()}


def compared(runs: Runs, names: Iterable[str], base: str, where: Mapping[str, object]) -> DataFrame:
    """Differences in accuracy under attack to a baseline, in points, one row per other name.

    Paired by seed; with one shared seed, by image, where `where` is the worst case. p is corrected by Holm over the
    rows.

    Returns:
        columns `name, gain, gain_low, gain_high, p, p_holm`; empty without the baseline.
    """
    values = _by_seed(runs, where)
    if base not in values:
        return DataFrame(columns=["name", "gain", "gain_low", "gain_high", "p", "p_holm"])
    rows = []
    for name in names:
        if name == base or name not in values:
            continue
        found = _difference(runs, values[name], values[base], where)
        row = {"name": name, "gain": found.mean, "gain_low": found.low, "gain_high": found.high, "p": found.p_value}
        rows.append(row)
    table = DataFrame(rows, columns=["name", "gain", "gain_low", "gain_high", "p"])
    return table.assign(p_holm=statistics.holm(table["p"].to_numpy(dtype=float)))


Seeds = dict[int, tuple[float, str]]  # to a value and its cell


def _by_seed(runs: Runs, where: Mapping[str, object]) -> dict[str, Seeds]:
    rows = runs.results[(runs.results["metric"] == "attacked_accuracy") & runs.results["value"].notna()]
    for column, value in where.items():
        if column not in rows:
            return {}
        rows = rows[(rows[column] == value).fillna(False).astype(bool)]
    found: dict[str, Seeds] = {}
    for row in rows.to_dict("records"):
        found.setdefault(wording.name_of(str(row["label"]), row["iterations"]), {})[int(row["seed"])] = (
            float(row["value"]),
            str(row["cell"]),
        )
    return found


def _difference(runs: Runs, ours: Seeds, theirs: Seeds, where: Mapping[str, object]) -> statistics.Difference:
    shared = sorted(set(ours) & set(theirs))
    if len(shared) == 1 and where.get("attack") == "worst":
        one, other = (_robust(runs, cells[shared[0]][1], str(where["eps"])) for cells in (ours, theirs))
        if one is not None and other is not None and one.shape == other.shape:
            found = statistics.paired_samples(one, other)
            mean, low, high = 100 * found.mean, 100 * found.low, 100 * found.high
            return statistics.Difference(mean, low, high, found.n, found.kind, found.p_value)
    return statistics.paired_difference(
        {seed: value for seed, (value, _) in ours.items()}, {seed: value for seed, (value, _) in theirs.items()}
    )


def _robust(runs: Runs, cell: str, eps: str) -> np.ndarray | None:
    """Which images of a cell withstood everything."""
    kept = runs.arrays(cell).get("robust")
    known = budgets(runs)
    return None if kept is None or len(kept) != len(known) else np.asarray(kept)[known.index(eps)].astype(bool)
