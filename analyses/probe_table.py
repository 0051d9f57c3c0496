"""Accuracy of a linear classifier on frozen features, by rotation or transformation of test digits."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    BASELINE,
    SEEDS,
    Analysis,
    Column,
    Estimate,
    Main,
    Row,
    Runs,
    analysis_of,
    answer_of,
    best_first,
    gains_over,
    run,
    wording,
)
from routebench.analysis.probe import OWN_ANSWER, by_seed, constant, probed, turned_up_to

FEATURES = {  # in the order of the table
    "both": "all features of the class capsules (lengths and poses), or of the model, side by side",
    "lengths": "scores of class capsules: lengths or activations",
    "logits": "log odds of the scores",
    "presences": "whether objects are there (t0), as log odds",
    "prior": "presences of objects as the stacked capsule autoencoder predicts them",
    "posterior": "the same, weighed by the parts that agree",
    "poses": "poses of class capsules, or of objects (A0)",
    "hidden": "the last hidden layer",
    "mu": "means of latents",
    "sigma": "standard deviations of latents",
    OWN_ANSWER: "no probe: the class with the highest score",
}
METRIC = "linear-probe accuracy"
QUESTION = "How well does a linear classifier tell classes by these features?"
LEFT_OPEN = {
    "generative-capsules": "Priors, optimizer and training time of generative capsules are not given there.",
    "vae": "The VAE is not described there, so that ours may be another.",
}
"""Details that a paper does not give of its models."""


class ProbeView(NamedTuple):
    """A way in which test images are shown."""

    kind: str  # turned by a `maximal` or a `fixed` angle, `affine`, or `alike` in training
    what: Any  # degrees, or the name of a data set

    @property
    def column(self) -> str:
        """The name of its column in the saved table."""
        return f"{self.kind}_{self.what}"


AS_THEY_ARE = ProbeView("maximal", 0)


@analysis_of("linear-probe", "probe-table", place=10)
def probe_table(runs: Runs) -> Analysis | None:
    """Accuracy (%) of linear probes per method and feature, upright, turned by up to an angle, and transformed."""
    found = probed(runs)
    found = runs.without_twins(found[found["train_angle"].notna()])
    if found.empty:
        return None
    views = _views(found)
    ours = _wide(found, views)
    table = _with_published(ours, runs, views)
    main = _main(runs, ours, views)
    return Analysis(
        title="What a linear classifier reads off features",
        reading=" ".join([answer_of(main, runs) or QUESTION, *_collapsed(runs, found)]),
        table=table,
        columns=_columns(views),
        notes=(*_notes(ours, found), *_published_notes(table)),
        main=main,
        hidden=_apart(table),
    )


def _apart(table: DataFrame) -> tuple[bool, ...]:
    """The rows of single features: a page shows what is read off all features of a method together."""
    rows = table.to_dict("records")
    together = {(row["method"], row["feature"]) for row in rows if row["main"]}
    return tuple((row["method"], row["feature"]) not in together for row in rows)


def _main(runs: Runs, ours: DataFrame, views: dict[ProbeView, str]) -> Main:
    """The probe of all features of a method, at the largest angle or on the suite's other images.

    Models that never saw labels are left out beside those that did: they are compared among themselves alone.
    """
    furthest, main = _compared(views)[-1], ours[ours["main"]]
    main = main if main["unsupervised"].all() else main[~main["unsupervised"]]
    title, gains = f"Probe, {views[furthest].lower()}", {}
    if furthest.kind == "maximal" and furthest != AS_THEY_ARE:
        title, seeds = f"Turned {views[furthest]}, probe", by_seed(runs)
        lines = zip(main["method"], main["feature"], strict=True)
        gains = gains_over(BASELINE, {one: seeds.get((one, feature, furthest.what, 0), {}) for one, feature in lines})
    return Main.of("probe_accuracy", furthest.column, title, table=main, gains=gains)


def _compared(views: dict[ProbeView, str]) -> list[ProbeView]:
    """The views in the sentence: all largest angles, or upright digits and other views."""
    maximal = [view for view in views if view.kind == "maximal"]
    if len(maximal) > 1:
        return maximal
    others = [view for view in views if view.kind in ("alike", "affine")]
    return [*maximal, *others[-1:]] or [*views][:1]


def _views(found: DataFrame) -> dict[ProbeView, str]:
    """A title for each way in which test images are shown."""
    views = {}
    turned = found["train_angle"].astype(int) > 0
    for kind, sign in (("maximal", "≤ "), ("fixed", "= ")):
        angles = found.loc[(found["kind"] == kind) & found["angle"].notna() & ~turned, "angle"].astype(int)
        for angle in sorted(set(angles)):
            views[ProbeView(kind, angle)] = "Upright" if angle == 0 else f"{sign}{angle}°"
    for name in sorted(set(found.loc[found["kind"] == "affine", "tested_on"].dropna())):
        views[ProbeView("affine", name)] = str(name)
    for angle in sorted(set(found.loc[turned, "angle"].astype(int))):
        views[ProbeView("alike", angle)] = f"Trained ≤ {angle}°"
    # Beside no others, digits as they are may be turned by the data set itself, as those of affNIST are.
    return {AS_THEY_ARE: "Test digits"} if [*views] == [AS_THEY_ARE] else views


def _wide(found: DataFrame, views: dict[ProbeView, str]) -> DataFrame:
    """One row per method and feature, best at the largest angle first; mean and limits per view."""
    shown = [_view(row).column for row in found[["kind", "angle", "tested_on", "train_angle"]].to_dict("records")]
    rows = []
    keys = ["method", "unsupervised", "feature", "main"]
    for values, group in found.assign(view=shown).groupby(keys, sort=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        row |= {
            "name": row["method"].exact,
            "iterations": row["method"].iterations,
            "n": max(one.n for one in group["mean"]),
        }
        known = group.drop_duplicates("view").set_index("view")["mean"]
        rows.append(row | {view.column: known.get(view.column, Estimate()) for view in views})
    table = DataFrame(rows)
    by = [view for view in views if view.kind == "maximal"][-1:] or list(views)[:1]
    ranked = best_first(table[table["main"]].sort_values("method", kind="stable"), by[0].column)["method"]
    best = {method: place for place, method in enumerate(ranked)}
    order = {name: place for place, name in enumerate(FEATURES)}
    table = table.assign(
        best=table["method"].map(best).fillna(len(best)), place=table["feature"].map(order).fillna(len(order))
    )
    table = table.sort_values(["best", "method", "place"], ascending=True, kind="stable")
    return table.drop(columns=["best", "place"]).reset_index(drop=True)


def _view(row: Row) -> ProbeView:
    if row["train_angle"] > 0:
        return ProbeView("alike", int(row["angle"]))
    return ProbeView(row["kind"], row["tested_on"] if row["kind"] == "affine" else int(row["angle"]))


def _with_published(table: DataFrame, runs: Runs, views: dict[ProbeView, str]) -> DataFrame:
    """Adds published numbers below each model and feature measured on the same data."""
    known = published.load_published()
    known = known[(known["metric"] == METRIC) & (known["unit"] == "fraction")]
    known = known.assign(feature=known["variant"].map(_feature_of))
    parts: list[dict[Any, Any]] = []
    for row in table.to_dict("records"):
        parts.append(row | {"published_id": "", "published": False})
        own = known[(known["method"] == row["method"].label) & (known["feature"] == row["feature"])]
        if own.empty:
            continue
        beside = {}
        for view in views:
            data = {"maximal": f"rotated-{runs.data}-{view.what}", "affine": view.what}.get(view.kind, "")
            beside[view] = own[(own["data"] == data) & (data != "")]
        if any(len(same) for same in beside.values()):
            parts.append(_published_row(row, beside))
    return DataFrame(parts)


def _feature_of(variant: str) -> str:
    """The name in routebench of a paper's features."""
    named = {"(mu, sigma)": "both", "(t0, A0)": "both", "t0 only": "presences"}
    return next((name for words, name in named.items() if words in variant), "")


def _published_row(row: Row, beside: dict[ProbeView, DataFrame]) -> dict[Any, Any]:
    """Means in %, with the paper's standard deviation as the half-width."""
    ids = [str(same["id"].iloc[0]) for same in beside.values() if len(same)]
    told = {"name": f"{row['method'].label}, published", "main": False, "n": 5, "published": True}
    found = {**row, **told, "published_id": " to ".join(dict.fromkeys((ids[0], ids[-1])))}
    for view, same in beside.items():
        cells = [100 * float(same[key].iloc[0]) for key in ("value", "uncertainty")] if len(same) else []
        found[view.column] = Estimate(cells[0], cells[0] - cells[1], cells[0] + cells[1]) if cells else Estimate()
    return found


def _columns(views: dict[ProbeView, str]) -> tuple[Column, ...]:
    return (
        Column("Method", "name", _name, "routing method with T, or model; (labels unseen): trained without", False),
        Column("Feature", "feature", explained="what the classifier reads", numeric=False),
        *(
            Column(title, view.column, _shown(view.column), _explained(view), extra=view.kind == "fixed")
            for view, title in views.items()
        ),
        SEEDS,
    )


def _name(row: Row) -> str:
    marks = {"baseline": row["method"].is_control, "labels unseen": row["unsupervised"]}
    told = [] if row["published"] else [mark for mark, holds in marks.items() if holds]
    name = f"{row['method'].title}, published" if row["published"] else row["method"].together
    return f"{name} ({', '.join(told)})" if told else name


def _shown(column: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        half = row[column].half_width
        return f"{row[column]:.1} ± {half:.1f}" if half > 0 else f"{row[column]:.1}"

    return text


def _explained(view: ProbeView) -> str:
    kind, what = view
    if kind == "affine":
        return f"trained on digits placed on a canvas, tested on those of {what}; accuracy, %"
    if kind == "alike":
        return f"networks and probes of their own, trained and tested on digits turned by up to {what}°; accuracy, %"
    if what == 0:
        return "test digits as they are; accuracy, %"
    told = f"each test digit turned by up to {what}°" if kind == "maximal" else f"all test digits turned by {what}°"
    return f"{told}, trained upright; accuracy, %"


def _collapsed(runs: Runs, found: DataFrame) -> list[str]:
    same = constant(by_seed(runs), turned_up_to(found[found["feature"] != OWN_ANSWER]))
    told = [f"{method} with {wording.plural(len(seeds), 'seed')}" for method, seeds in same.items()]
    if not told:
        return []
    return [f"Features that are constant, so that a probe says one class of every image: {wording.listed(told, 9)}."]


def _notes(table: DataFrame, found: DataFrame) -> list[str]:
    notes = [
        (
            "Trained on upright digits, but for columns that say otherwise. Mean accuracy (%) over seeds with its 95 % "
            "t interval, or alone for one seed."
        ),
        "Features: "
        + "; ".join(f"{name}: {FEATURES[name]}" for name in FEATURES if name in set(table["feature"]))
        + ".",
        "The page has all features of a method side by side; its CSV file has each feature alone, too.",
        "C of the classifier is chosen on held-out training digits. Rotation is bilinear; zeros move in.",
    ]
    if (found["kind"] == "affine").any():
        notes.append("On the canvas networks of their own are trained; only the column `affnist` is affNIST itself.")
    return notes


def _published_notes(table: DataFrame) -> list[str]:
    if not table["published"].any():
        return []
    told = table[table["published"]]
    known = published.load_published().set_index("id").loc[str(told["published_id"].iloc[0]).split(" ")[0]]
    ids = wording.listed(list(told["published_id"]), 9)
    methods = [text for method, text in LEFT_OPEN.items() if method in {one.label for one in told["method"]}]
    return [
        (
            f"Published ({ids}): {known['citation']}, {known['where']}; ± is the "
            f"{known['uncertainty_kind']}{_runs_of(str(known['statistic']))}. {' '.join(methods)}"
        )
    ]


def _runs_of(statistic: str) -> str:
    """` over 5 runs` where the number is a mean of that many; empty for one run, or where nobody says."""
    kind, _, count = statistic.rpartition(" of ")
    return f" over {count} runs" if kind == "mean" and count.isdigit() else ""


if __name__ == "__main__":
    run(probe_table)
