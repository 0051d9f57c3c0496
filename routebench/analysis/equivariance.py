"""The share of the change of poses that a linear map predicts, from the metrics `pose_r2` and `pose_r2_same`."""

from dataclasses import replace

import pandas as pd

from routebench.analysis._runs import Runs

EXPLAINED = "pose_change_explained"


def with_explained_change(runs: Runs) -> Runs:
    """Adds the metric `EXPLAINED` for each run, layer and change: 1 - (1 - `pose_r2`) / (1 - `pose_r2_same`).

    It is the share of the squared change of poses that the map predicts: 1 is all of it, 0 is no better than the
    prediction that nothing changes. A pose that never changes has no such share.
    """
    by = ["cell", "layer", "change"]
    mapped, same = (
        runs.results[runs.results["metric"] == metric].set_index(by)["value"].astype(float)
        for metric in ("pose_r2", "pose_r2_same")
    )
    explained = 1 - (1 - mapped) / (1 - same).where(same < 1)
    rows = runs.results[runs.results["metric"] == "pose_r2"].assign(metric=EXPLAINED)
    rows = rows.assign(value=explained.reindex(pd.MultiIndex.from_frame(rows[by])).to_numpy())
    return replace(runs, results=pd.concat([runs.results, rows], ignore_index=True))
