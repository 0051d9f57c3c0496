"""What linear probes found, as one table: the mean over seeds for every method, feature and view of the test images."""

from pandas import DataFrame, concat

from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis.means import means_of
from routebench.statistics import mean_interval

OWN_ANSWER = "own answer"
BOTH = "both"
WHERE = ("kind", "angle", "train_angle", "tested_on")
BASELINE = "uniform"


def probed(runs: Runs) -> DataFrame:
    """Test accuracies of probes, and of the networks themselves as the feature `own answer`.

    Returns:
        columns `name, label, iterations, role, feature, kind, angle, train_angle, tested_on, mean, low, high, interval,
        n, unsupervised, main`. `unsupervised` marks a model that says no class; `main` the feature `both`, or the only
        one. Empty where nothing was measured.
    """
    by = [column for column in WHERE if column in runs.results]
    test = {"split": "test"}
    read = means_of(runs, "probe_accuracy", ["feature", *by], test)
    own = means_of(runs, "network_accuracy", by, test).assign(feature=OWN_ANSWER)
    found = concat([part for part in (read, own) if not part.empty]) if not read.empty else read
    found = found.reindex(columns=[*read.columns, *(column for column in WHERE if column not in by)])
    if found.empty:
        return found.assign(unsupervised=False, main=False)
    has_both = found["name"].isin(found.loc[found["feature"] == BOTH, "name"])
    main = (found["feature"] == BOTH) | (~has_both & (found["feature"] != OWN_ANSWER))
    unsupervised = ~found["name"].isin(own["name"])
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
    return rows.astype({"angle": int}).sort_values(["name", "feature", "angle"]).reset_index(drop=True)


def gains(runs: Runs, found: DataFrame) -> DataFrame:
    """What each method's main probe is ahead of uniform coupling's by, paired by seed: trained upright, turned up to.

    Args:
        runs: of a suite.
        found: from `probed`.

    Returns:
        columns `name, angle, gain, gain_low, gain_high`, in points with 95 % interval; empty without uniform coupling.
    """
    rows = runs.results[(runs.results["metric"] == "probe_accuracy") & (runs.results["split"] == "test")]
    if not {"kind", "train_angle"} <= set(rows):
        return DataFrame(columns=["name", "angle", "gain", "gain_low", "gain_high"])
    rows = rows[(rows["kind"] == "maximal") & (rows["train_angle"] == 0)]
    names = [wording.name_of(label, steps) for label, steps in zip(rows["label"], rows["iterations"], strict=True)]
    main = found[found["main"]].drop_duplicates("name").set_index("name")["feature"]
    rows = rows.assign(name=names)
    rows = rows[rows["feature"] == rows["name"].map(main)]
    by_seed = rows.pivot_table(index=["angle", "seed"], columns="name", values="value", aggfunc="first")
    told = []
    for name in (name for name in by_seed if BASELINE in by_seed):
        for angle, apart in (by_seed[name] - by_seed[BASELINE]).dropna().groupby("angle"):
            interval = mean_interval(apart.to_numpy(dtype=float))
            told.append((name, int(str(angle)), interval.mean, interval.low, interval.high))
    return DataFrame(told, columns=["name", "angle", "gain", "gain_low", "gain_high"])
