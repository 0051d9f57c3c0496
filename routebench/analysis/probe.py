"""Results of linear probes as one table: the mean over seeds for each method, feature and view of the test images."""

from collections.abc import Mapping
from typing import Any

from pandas import DataFrame, Series, concat

from routebench.analysis._estimate import SeedValues, base_of, difference
from routebench.analysis._method import BASELINE, Method
from routebench.analysis._runs import Runs
from routebench.analysis._table import Row

OWN_ANSWER = "own answer"
BOTH = "both"
WHERE = ("kind", "angle", "train_angle", "tested_on")
Line = tuple[Method, str, int, int]  # what is read, of whom, and the largest angles of test and training images


def probed(runs: Runs) -> DataFrame:
    """Test accuracies of probes, and of the networks themselves as the feature `own answer`.

    Returns:
        columns `method, feature, kind, angle, train_angle, tested_on, mean, unsupervised, main`. `unsupervised` marks a
        model that says no class; `main` the feature `both`, or the only one. Empty where nothing was measured.
    """
    by = [column for column in WHERE if column in runs.results]
    read = runs.means("probe_accuracy", ["feature", *by], split="test")
    own = runs.means("network_accuracy", by, split="test").assign(feature=OWN_ANSWER)
    found = concat([part for part in (read, own) if not part.empty]) if not read.empty else read
    found = found.reindex(columns=[*read.columns, *(column for column in WHERE if column not in by)])
    if found.empty:
        return found.assign(unsupervised=False, main=False)
    has_both = found["method"].isin(found.loc[found["feature"] == BOTH, "method"])
    main = (found["feature"] == BOTH) | (~has_both & (found["feature"] != OWN_ANSWER))
    unsupervised = ~found["method"].isin(own["method"])
    return found.assign(unsupervised=unsupervised, main=main).reset_index(drop=True)


def turned_up_to(found: DataFrame, trained: str = "upright") -> DataFrame:
    """The rows whose test images were turned by up to an angle, `angle` as an integer.

    Args:
        found: from `probed`.
        trained: `upright`, or `alike`: trained on images turned by up to the same angle, 0 being upright.
    """
    rows = found[(found["kind"] == "maximal") & found["angle"].notna()]
    angle, trained_with = rows["angle"].astype(int), rows["train_angle"].astype(int)
    rows = rows[trained_with == (0 if trained == "upright" else angle)]
    return rows.astype({"angle": int}).sort_values(["method", "feature", "angle"], ignore_index=True)


def by_seed(runs: Runs) -> dict[Line, SeedValues]:
    """Test accuracies of probes by seed, of images turned by up to an angle."""
    values = runs.values("probe_accuracy", split="test", kind="maximal")
    found: dict[Line, SeedValues] = {}
    keys = ("method", "feature", "angle", "train_angle", "seed", "value")
    for method, feature, angle, trained, seed, value in zip(*(values.get(key, ()) for key in keys), strict=True):
        line = method, str(feature), int(angle), int(trained)
        found.setdefault(line, SeedValues(first=runs.first, within=(0.0, 100.0)))[int(seed)] = float(value)
    for (method, *_), own in found.items():
        own.lost = method.without_value(own)
    return found


def constant(seeds: Mapping[Line, Mapping[int, float]], upright: DataFrame) -> dict[Method, list[int]]:
    """The seeds of each method whose probes say the same of every image: as accurate at every angle, to the digit.

    Features that are the same for all images do so, such as those of a network that collapsed. The probes of all
    features of a method count, since there may be one angle alone.

    Args:
        seeds: from `by_seed`.
        upright: from `turned_up_to`.
    """
    found: dict[Method, list[int]] = {}
    for _, rows in upright.groupby("method", sort=False):
        by_angle = [seeds.get(_line(row), {}) for row in rows.to_dict("records")]
        method: Method = rows["method"].iloc[0]
        common = sorted(set.intersection(*map(set, by_angle))) if len(by_angle) > 1 else []
        if same := [seed for seed in common if len({one[seed] for one in by_angle}) == 1]:
            found[method] = same
    return found


def gains(seeds: Mapping[Line, Mapping[int, float]], upright: DataFrame) -> "Series[Any]":
    """The lead of each row over uniform routing, in points, paired by seed; empty without uniform routing.

    Args:
        seeds: from `by_seed`.
        upright: from `turned_up_to`, of main features only.
    """
    rows = upright.to_dict("records")
    base = {(row["method"], row["angle"]): seeds.get(_line(row), {}) for row in rows if row["method"].is_base}
    known = [*dict.fromkeys(method for method, _ in base)]
    bases = [base_of(row["method"], BASELINE, known) for row in rows]
    ahead = [
        difference(seeds.get(_line(row), {}), base.get((theirs, row["angle"]), {}) if theirs else {})
        for row, theirs in zip(rows, bases, strict=True)
    ]
    return Series(ahead, upright.index, dtype=object)


def _line(row: Row) -> Line:
    return row["method"], row["feature"], row["angle"], 0
