"""Accuracy under attack: every method's worst case over all attacks, with the verdict of the checks."""

from collections.abc import Callable, Iterator, Mapping

from pandas import DataFrame, concat

from routebench import published
from routebench.analysis import (
    BASELINE,
    METHOD,
    Analysis,
    Column,
    Estimate,
    Main,
    Mean,
    Method,
    Row,
    Runs,
    Verdict,
    analysis_of,
    answer_of,
    numbers,
    run,
    table_of,
    wording,
)
from routebench.analysis.attacked import (
    LINF,
    NAMES,
    budgets,
    compared,
    main_eps,
    of_all,
    under,
    verdicts,
    with_other_images,
    without_attacks,
)

BASELINES = {BASELINE: "uniform routing", "cnn": "the CNN"}
ON_SURVIVORS = ("apgd-ce", "apgd-t", "fab-t", "square")
ALONE = ("noise", "fgsm", "bim", "pgd", "momentum", "transfer")
OTHERS = (
    "All seeds attack the same images. Intervals and p over seeds say nothing of other images; those of 'other "
    "images' do, for each difference alone."
)
NONE = (
    "All seeds attack the same images. Intervals and p over seeds say nothing of other images, and nothing else here "
    "does: which images withstood was not kept, or which of them show one object is unknown."
)
QUESTION = "How much accuracy is left under attack?"


@analysis_of("robustness", "robustness-table", place=10)
def robustness_table(runs: Runs) -> Analysis | None:
    """Accuracy per method under the worst of all attacks, against uniform routing and the CNN, with a verdict."""
    eps = main_eps(runs)
    if eps is None:
        return None
    means, count = _means(runs, eps), int(of_all(runs, "attacked_images"))
    ways = {"gain": compared, "both": with_other_images}
    gains = {
        f"{key}_{base}": way(runs, base, under("worst", eps=eps)) for base in BASELINES for key, way in ways.items()
    }
    table = _table(runs, means, gains)
    main = Main.of(
        "attacked_accuracy",
        "worst",
        f"Under attack, ε {eps}, {count} images",
        gains=gains[f"gain_{BASELINE}"],
        both=gains[f"both_{BASELINE}"],
    )
    return Analysis(
        title=f"Accuracy under attack, eps {eps}",
        reading=_reading(main, runs, table),
        table=table,
        columns=_columns(table, means),
        notes=(*_notes(runs, eps), *_of_fewer_images(runs), *_of_images(table), *_published_notes(runs, table)),
        main=main,
    )


def _means(runs: Runs, eps: str) -> list[Mean]:
    """The measured columns; the first two come first."""
    accuracy = "attacked_accuracy"
    return [
        Mean.of("clean_accuracy", "clean"),
        Mean.of(accuracy, "worst", f"Worst case, % (eps {eps})", "images that no attack of this budget breaks: an "
                "upper bound on the true robustness", where=under("worst", eps=eps)),
        *(Mean.of(accuracy, attack, f"{NAMES[attack]}, %", "accuracy under it alone", extra=True,
                  where=under(attack, eps=eps)) for attack in ALONE),
        *(Mean.of("accuracy_taken", f"taken_{attack}", f"{NAMES[attack]} takes", extra=True,
                  where={**LINF, "attack": attack, "eps": eps}) for attack in ON_SURVIVORS),
        *(Mean.of(accuracy, f"worst_{other}", f"Worst case, % (eps {other})", extra=True,
                  where=under("worst", eps=other)) for other in budgets(runs) if other != eps),
        Mean.of("median_distance", "l2", extra=True, where={"attack": "worst", "norm": "l2"}),
    ]  # fmt: skip


def _table(runs: Runs, means: list[Mean], gains: Mapping[str, Mapping[Method, Estimate]]) -> DataFrame:
    """One row per method, the highest worst-case accuracy first.

    Args:
        gains: differences to a baseline, by column of the table.
    """
    table = table_of(runs, means, order="worst")
    table = table[numbers(table["worst"]).notna()]
    known, lacking = verdicts(runs), without_attacks(runs)
    behind = table["method"].map(lambda method: method in lacking)
    table = concat([table[~behind], table[behind]], ignore_index=True)
    for key, found in gains.items():
        table[key] = table["method"].map(lambda method, found=found: found.get(method, Estimate()))
    return table.assign(verdict=table["method"].map(lambda method: known.get(method, "not judged")))


def _columns(table: DataFrame, means: list[Mean]) -> tuple[Column, ...]:
    """Columns with a number for any method."""
    told = "points of worst-case accuracy on these images, paired by seed; p in brackets, Holm over this column"
    anew = "the same, with interval and p over seeds and images: as if other images were attacked, too"
    gains = [
        column
        for base, name in BASELINES.items()
        for column in (
            Column(f"Against {name}", f"gain_{base}", _gain(f"gain_{base}"), told),
            Column(f"Against {name}, other images", f"both_{base}", _gain(f"both_{base}"), anew),
        )
    ]
    believed = Column("Verdict", "verdict", "", "whether the checks for gradient masking leave the number standing",
                      numeric=False, judges=True)  # fmt: skip
    seeds = Column("Seeds", "n", explained="that the means are over", extra=True)
    measured = [
        column for column in (means[1], *gains, means[0], *means[2:]) if numbers(table[column.key]).notna().any()
    ]
    return (METHOD, believed, *measured, seeds)


def _gain(key: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        gain = row[key]
        return f"{gain:+.2} ({wording.probability(gain.p_holm)})" if gain.known else wording.NOTHING

    return text


def _reading(main: Main, runs: Runs, table: DataFrame) -> str:
    """The decisions at the main budget, and the methods whose number a check doubts."""
    doubted = [row["method"] for row in table.to_dict("records") if row["verdict"].startswith(Verdict.SUSPECT)]
    told = f"Checks doubt the numbers of {wording.listed(doubted, 6)}." if doubted else ""
    return " ".join(filter(None, (answer_of(main, runs) or QUESTION, told)))


def _notes(runs: Runs, eps: str) -> list[str]:
    deviation, count = of_all(runs, "pixel_std"), of_all(runs, "attacked_images")
    notes = [
        (
            f"eps {eps} is L-infinity, in pixels from 0 to 1, rounded down to {int(float(eps) * 255 + 1e-6)} of 255 "
            f"grey levels; it is {float(eps) / deviation:.2f} standard deviations of the training pixels."
        ),
        (
            f"{count:.0f} test images, evenly over classes: one image is {100 / count:.2g} points. "
            "An image that the network has wrong without an attack counts as broken."
        ),
        (
            "Judged by giving the stored 8-bit images to the network again, not by the attack's own word. The worst "
            "case is over all attacks with this budget or a smaller one, image by image."
        ),
        "Mean over seeds with its 95 % t interval. A verdict is suspect if a serious check fires with any seed.",
        (
            f"Differences are tested at eps {eps} alone, which the suite names beforehand; each column is corrected "
            f"for itself. Other budgets are described, not tested: tests at {len(budgets(runs))} budgets would be one "
            "family, with a larger correction."
        ),
    ]
    if len(runs.results["seed"].unique()) == 1:
        notes.append("One seed: differences are over images (McNemar's exact test) and hold for these networks only.")
    return notes


def _of_fewer_images(runs: Runs) -> Iterator[str]:
    """The images on which attacks look for the smallest change, where these are fewer."""
    counts = {runs.options(cell).get("minimal_images") for cell in runs.methods}
    count = min((one for one in counts if type(one) is int), default=0)
    found = {*runs.results.loc[runs.results["metric"] == "queries", "attack"]}
    names = [name for attack, name in NAMES.items() if attack in found]
    if names and 0 < count < of_all(runs, "attacked_images"):
        yield f"{wording.listed(names)} look for the smallest change, on {count} of these images."


def _of_images(table: DataFrame) -> Iterator[str]:
    rows = table.to_dict("records")
    if any(row[f"gain_{base}"].known for row in rows for base in BASELINES):
        yield OTHERS if any(row[f"both_{base}"].known for row in rows for base in BASELINES) else NONE


def _published_notes(runs: Runs, table: DataFrame) -> list[str]:
    """Published numbers for the same data set and method."""
    known = published.load_published()
    known = known[(known["metric"] == "accuracy after attack") & (known["data"] == runs.data)]
    labels = {method.label.partition("[")[0] for method in table["method"]}
    return [
        f"{row['source']}, {row['where']}, {row['printed_method']}, {row['variant']}: {row['value']:g} % "
        f"({row['id']}; {row['conditions']})."
        for row in known.to_dict("records")
        if row["method"] in labels
    ]


if __name__ == "__main__":
    run(robustness_table)
