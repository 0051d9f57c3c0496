"""Tells whether probes under rotation rank presences and poses above presences alone, and these above a VAE."""

import math
from collections.abc import Mapping
from typing import Any

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    Analysis,
    Column,
    Method,
    Runs,
    Verdict,
    analysis_of,
    corrected,
    difference,
    run,
)
from routebench.analysis.contenders import untested
from routebench.analysis.probe import BOTH

METHOD, VAE = "generative-capsules", "vae"
PRESENCES = "presences"
FEATURES = {"(t0, A0)": (METHOD, BOTH), "t0": (METHOD, PRESENCES), "VAE": (VAE, BOTH)}
PAIRS = (("(t0, A0)", "t0"), ("t0", "VAE"), ("(t0, A0)", "VAE"))
HOLDS = {Verdict.BETTER: "yes", Verdict.WORSE: "reversed"}
NOT_SHOWN = "not shown"
VARIANTS = {
    "features: top-level presences and poses (t0, A0)": "(t0, A0)",
    "features: top-level presences t0 only": "t0",
}
VAE_VARIANT = "features: latent mean and standard deviation (mu, sigma)"


@analysis_of("linear-probe", "probe-ordering", place=12)
def probe_ordering(runs: Runs) -> Analysis | None:
    """Differences of probes on t0 and A0, on t0 and on a VAE, paired by seed; table 1 of Smith et al."""
    table = _table(runs)
    if table.empty or not (table["angle"] != 0).any():  # upright digits alone are no question
        return None
    return Analysis(
        title="Does (t0, A0) > t0 > VAE hold under rotation?",
        reading="Which of these leads are shown, and which are reversed?",
        table=table,
        columns=(
            Column("Model", "method", explained="that t0 and A0 are of", numeric=False),
            Column("Digits", "view", explained="trained upright", numeric=False),
            Column("Pair", "pair", explained="features that a linear probe reads", numeric=False),
            Column("First, %", "first", ".1f", "accuracy of the probe of the first"),
            Column("Second, %", "second", ".1f"),
            Column("Lead", "gain", "+.2", "points, paired by seed, with its 95 % interval"),
            Column("p (Holm)", "gain.p_holm", "p", "over all pairs of a model"),
            Column("Holds", "holds", "", "yes or reversed: p below 0.05", numeric=False),
            Column("Published lead", "published_gain", "+.0", "points, without an interval"),
            Column("Seeds", "gain.n", "", "that both were measured with", extra=True),
        ),
        notes=(*_notes(table), *untested(runs, table["gain"])),
    )


def _table(runs: Runs) -> DataFrame:
    """One row per model of generative capsules, view of the digits and pair of features."""
    values = runs.values("probe_accuracy", split="test", train_angle=0)
    ours = sorted(set(values.loc[values["feature"] == PRESENCES, "method"])) if len(values) else []
    rows = []
    for method in ours:
        if method.name == METHOD:
            own = [_row(runs, method, view, where, pair) for view, where in _views(values).items() for pair in PAIRS]
            rows += _corrected([row for row in own if row["gain"].n])
    return DataFrame(rows)


def _views(values: DataFrame) -> dict[str, dict[str, object]]:
    """The paper's ways of showing digits, in words, with the coordinates of their results."""
    turned = values[(values["kind"] == "maximal") & values["angle"].notna()]
    views: dict[str, dict[str, object]] = {
        "upright" if angle == 0 else f"up to {angle}°": {"kind": "maximal", "angle": angle}
        for angle in sorted(set(turned["angle"].astype(int)))
    }
    moved = values.loc[values["kind"] == "affine", "tested_on"].dropna() if "tested_on" in values else ()
    return views | {str(name): {"kind": "affine", "tested_on": name} for name in sorted(set(moved))}


def _row(runs: Runs, method: Method, view: str, where: Mapping[str, object], pair: tuple[str, str]) -> dict[str, Any]:
    ours, theirs = (_values(runs, method, key, where) for key in pair)
    shared = sorted(set(ours) & set(theirs))
    means = [sum(one[seed] for seed in shared) / max(len(shared), 1) for one in (ours, theirs)]
    lead, ids = _published_lead(runs.data, where, pair)
    return {
        "method": method,
        "view": view,
        "angle": where.get("angle", math.nan),
        "pair": " > ".join(pair),
        "first": means[0],
        "second": means[1],
        "gain": difference(ours, theirs),
        "published_gain": lead,
        "published_ids": ids,
    }


def _corrected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds the corrected p and the verdict of each lead."""
    gains = corrected(row["gain"] for row in rows)
    told = [HOLDS.get(gain.verdict, NOT_SHOWN) for gain in gains]
    return [{**row, "gain": gain, "holds": holds} for row, gain, holds in zip(rows, gains, told, strict=True)]


def _values(runs: Runs, method: Method, key: str, where: Mapping[str, object]) -> Mapping[int, float]:
    """Accuracies of the probe by seed, of `t0` and `t0, A0` of the model or of the VAE."""
    name, feature = FEATURES[key]
    found = runs.by_seed("probe_accuracy", split="test", train_angle=0, feature=feature, **where)
    if name == METHOD:
        return found.get(method, {})
    return next((values for other, values in found.items() if other.label == VAE), {})


def _published_lead(data: str, where: Mapping[str, object], pair: tuple[str, str]) -> tuple[float, str]:
    """The published lead in points, and its two rows."""
    name = str(where["tested_on"]) if where["kind"] == "affine" else f"rotated-{data}-{where['angle']}"
    known = published.load_published()
    known = known[(known["metric"] == "linear-probe accuracy") & (known["data"] == name)]
    found = []
    for key in pair:
        method = FEATURES[key][0]
        variant = VAE_VARIANT if method == VAE else next(text for text, short in VARIANTS.items() if short == key)
        found.append(known[(known["method"] == method) & (known["variant"] == variant)])
    if any(rows.empty for rows in found):
        return math.nan, ""
    first, second = (rows.iloc[0] for rows in found)
    return 100 * float(first["value"] - second["value"]), f"{first['id']}, {second['id']}"


def _notes(table: DataFrame) -> tuple[str, ...]:
    notes = [
        "t0: log odds of the presences of objects; A0: their poses; VAE: means and standard deviations of its latents.",
        "Paired t-tests over seeds, corrected by Holm over all pairs and views of one model. Not shown is not refuted.",
    ]
    if table["published_ids"].ne("").any():
        ids = sorted({one for text in table["published_ids"] for one in text.split(", ") if one})
        notes.append(
            f"Published leads are differences of means of Smith et al., table 1 ({ids[0]} to {ids[-1]}, 5 runs each), "
            "which says of no difference whether it is significant."
        )
    return tuple(notes)


if __name__ == "__main__":
    run(probe_ordering)
