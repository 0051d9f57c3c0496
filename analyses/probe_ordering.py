"""Whether presences and poses say more of the class than presences alone, and those more than a VAE, under rotation."""

import math
from collections.abc import Mapping
from itertools import chain

from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import script, wording
from routebench.analysis.means import by_seed
from routebench.analysis.probe import BOTH, probed
from routebench.analysis.result import Analysis, Column, Row, Runs, belongs_to
from routebench.registry import analyses

METHOD, VAE = "generative-capsules", "vae"
PRESENCES = "presences"
ALPHA = 0.05
FEATURES = {"(t0, A0)": (METHOD, BOTH), "t0": (METHOD, PRESENCES), "VAE": (VAE, BOTH)}
PAIRS = (("(t0, A0)", "t0"), ("t0", "VAE"), ("(t0, A0)", "VAE"))
CHAIN = PAIRS[:2]
YES, REVERSED, OPEN = "yes", "reversed", "not shown"
VARIANTS = {
    "features: top-level presences and poses (t0, A0)": "(t0, A0)",
    "features: top-level presences t0 only": "t0",
}
VAE_VARIANT = "features: latent mean and standard deviation (mu, sigma)"


@analyses.register("probe-ordering")
@belongs_to("linear-probe", place=12)
def probe_ordering(runs: Runs) -> Analysis | None:
    """Differences of probes on t0 and A0, on t0 and on a VAE, paired by seed; table 1 of Smith et al."""
    table = _table(runs)
    if table.empty or not (table["angle"] != 0).any():  # upright digits alone are no question
        return None
    return Analysis(
        title="Does (t0, A0) > t0 > VAE hold under rotation?",
        reading=_reading(table),
        table=table,
        columns=(
            Column("Model", "name", lambda row: str(row["name"]), "that t0 and A0 are of", numeric=False),
            Column("Digits", "view", lambda row: str(row["view"]), "trained upright", numeric=False),
            Column("Pair", "pair", lambda row: str(row["pair"]), "features that a linear probe reads", numeric=False),
            Column("First, %", "first", lambda row: f"{row['first']:.1f}", "accuracy of the probe of the first"),
            Column("Second, %", "second", lambda row: f"{row['second']:.1f}"),
            Column("Lead", "gain", wording.gain_with_interval, "points, paired by seed, with its 95 % interval"),
            Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), "over all pairs of a model"),
            Column("Holds", "holds", lambda row: str(row["holds"]), "yes or reversed: p below 0.05", numeric=False),
            Column("Published lead", "published_gain", _published, "points, without an interval"),
            Column("Seeds", "n", lambda row: str(row["n"]), "that both were measured with", extra=True),
        ),
        notes=_notes(table),
    )


def _table(runs: Runs) -> DataFrame:
    """One row per model of generative capsules, view of the digits and pair of features."""
    found = probed(runs)
    if found.empty:
        return found
    found = found[found["train_angle"].fillna(-1).astype(int) == 0]
    names = [name for name in dict.fromkeys(found["name"]) if _is_ours(found[found["name"] == name])]
    parts = []
    for name in names:
        own = DataFrame(
            chain.from_iterable(
                _pair(runs, name, view, where, pair) for view, where in _views(found).items() for pair in PAIRS
            )
        )
        if not own.empty:
            own = own.assign(p_holm=statistics.holm(own["p"].to_numpy(dtype=float)))
            parts += [{**row, "holds": _holds(row)} for row in own.to_dict("records")]
    return DataFrame(parts)


def _is_ours(rows: DataFrame) -> bool:
    method = str(rows["label"].iloc[0]).partition("[")[0].partition(" (")[0]
    return method == METHOD and PRESENCES in set(rows["feature"])


def _views(found: DataFrame) -> dict[str, dict[str, object]]:
    """Each way in which digits are shown that the paper has, in words, and the coordinates of its results."""
    turned = found[(found["kind"] == "maximal") & found["angle"].notna()]
    views: dict[str, dict[str, object]] = {
        "upright" if angle == 0 else f"up to {angle}°": {"kind": "maximal", "angle": angle}
        for angle in sorted(set(turned["angle"].astype(int)))
    }
    for name in sorted(set(found.loc[found["kind"] == "affine", "tested_on"].dropna())):
        views[str(name)] = {"kind": "affine", "tested_on": name}
    return views


def _pair(
    runs: Runs, name: str, view: str, where: Mapping[str, object], pair: tuple[str, str]
) -> list[dict[str, object]]:
    """A row, or none where one of the two was not measured with a shared seed."""
    ours, theirs = (_values(runs, name, key, where) for key in pair)
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        return []
    found = statistics.paired_difference(ours, theirs)
    first, second = (sum(one[seed] for seed in shared) / len(shared) for one in (ours, theirs))
    gain, ids = _published_lead(runs.data, where, pair)
    row = {"name": name, "view": view, "angle": where.get("angle", math.nan), "pair": " > ".join(pair)}
    row |= {"first": first, "second": second, "gain": found.mean, "gain_low": found.low, "gain_high": found.high}
    row |= {"n": found.n, "p": found.p_value, "published_gain": gain, "published_ids": ids}
    return [row]


def _values(runs: Runs, name: str, key: str, where: Mapping[str, object]) -> dict[int, float]:
    """Accuracies of the probe by seed, of `t0` and `t0, A0` of the model or of the VAE."""
    method, feature = FEATURES[key]
    at = {"split": "test", "train_angle": 0, "feature": feature, **where}
    return by_seed(runs, "probe_accuracy", at).get(name if method == METHOD else VAE, {})


def _published_lead(data: str, where: Mapping[str, object], pair: tuple[str, str]) -> tuple[float, str]:
    """In points, and the two rows that it is the difference of."""
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


def _holds(row: Row) -> str:
    if math.isnan(row["p_holm"]) or row["p_holm"] >= ALPHA:
        return OPEN
    return YES if row["gain"] > 0 else REVERSED


def _published(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["published_gain"]) else wording.signed(row["published_gain"], 0)


def _reading(table: DataFrame) -> str:
    """The answer for each model, and the leads at the largest angle."""
    links = [" > ".join(pair) for pair in CHAIN]
    turned = table[(table["angle"] > 0) & table["pair"].isin(links)]
    if turned.empty:
        moved = table[(table["angle"] != 0) & table["pair"].isin(links)]
        return f"No turned digits were looked at; {'; '.join(_on_a_canvas(row) for row in moved.to_dict('records'))}."
    return f"{'; '.join(_answer(str(name), rows, links) for name, rows in turned.groupby('name', sort=False))}."


def _on_a_canvas(row: Row) -> str:
    holds = {YES: "holds", REVERSED: "is reversed"}.get(str(row["holds"]), "is not shown")
    return f"on {row['view']}, {row['pair']} {holds} for {row['name']} ({wording.gain_with_interval(row)} points)"


def _answer(name: str, rows: DataFrame, links: list[str]) -> str:
    views = list(dict.fromkeys(rows["view"]))
    missing = [link for link in links if link not in set(rows["pair"])]
    by_view = {view: rows[rows["view"] == view] for view in views}
    whole = [view for view, own in by_view.items() if len(own) == len(links) and (own["holds"] == YES).all()]
    reversed_ = [view for view, own in by_view.items() if (own["holds"] == REVERSED).any()]
    if missing:
        told = f"for {name}, {' and '.join(missing)} was not measured under rotation"
    elif len(whole) == len(views):
        told = (
            f"for {name}, (t0, A0) > t0 > VAE holds under rotation at all {wording.plural(len(views), 'largest angle')}"
        )
    elif whole:
        told = f"for {name}, (t0, A0) > t0 > VAE holds under rotation {wording.listed(whole, 9)} only"
    else:
        told = f"for {name}, (t0, A0) > t0 > VAE is not shown to hold under rotation, at none of {_angles(views)}"
    if reversed_:
        told += f", and is reversed in part {wording.listed(reversed_, 9)}"
    last = [f"{row['pair']} {wording.gain_with_interval(row)}" for row in by_view[views[-1]].to_dict("records")]
    fewest = int(rows["n"].min())
    alone = " (one seed: nothing can be tested)" if fewest == 1 else ""
    return f"{told[0].upper()}{told[1:]}: {views[-1]} the leads are {' and '.join(last)} points{alone}"


def _angles(views: list[str]) -> str:
    return wording.plural(len(views), "largest angle")


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
    script.run(probe_ordering, "probe-ordering")
