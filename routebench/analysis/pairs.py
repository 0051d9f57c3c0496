"""Every pair of methods of one suite: how far apart, how sure, and whether too little to matter."""

import math
from itertools import combinations

import numpy as np
from pandas import DataFrame

from routebench import statistics
from routebench.analysis._runs import Runs
from routebench.analysis.comparison import Contender, contenders_of, difference_between

MARGIN = 0.5
"""Points of accuracy; smaller differences count as equal."""
ALPHA = 0.05

BETTER, EQUAL, OPEN, UNTESTABLE = "better", "equal", "not told apart", "cannot be tested"
BETTER_BY_LITTLE = "better by little"


def pairs_of(runs: Runs, margin: float = MARGIN) -> DataFrame:
    """One row per pair of measured methods, the one with the higher mean accuracy first; differences in points.

    Columns: `first, second, difference, low, high, interval, n, p, p_holm`, as `difference_between` has them, Holm's
    family being all pairs; `effect*`, Hedges' g of the paired differences; `wins, seeds`; `both_low, both_high, both_p,
    both_interval`, over seeds and test images; `odds`, of an image that only one has right; `deviation` of the
    differences; `discordant`, the share of such images; `p_equal, p_equal_holm` of a difference beyond the margin;
    `verdict`, a constant of this module.
    """
    measured = [entry for entry in contenders_of(runs) if entry.accuracies]
    measured.sort(key=lambda entry: -float(np.mean(list(entry.accuracies.values()))))
    table = DataFrame([_row(runs, first, second, margin) for first, second in combinations(measured, 2)])
    if not table.empty:
        table["p_holm"] = statistics.holm(table["p"].to_numpy(dtype=float))
        table["p_equal_holm"] = statistics.holm(table["p_equal"].to_numpy(dtype=float))
        table["verdict"] = [verdict(row["p_holm"], row["p_equal_holm"]) for row in table.to_dict("records")]
    return table


def verdict(p_value: float, p_equal: float) -> str:
    """What corrected p-values of 'no difference' and 'a difference beyond the margin' say of a pair."""
    if math.isnan(p_value):
        return UNTESTABLE
    if p_value < ALPHA:
        return BETTER_BY_LITTLE if p_equal < ALPHA else BETTER
    return EQUAL if p_equal < ALPHA else OPEN


def detectable_in(table: DataFrame, tests: int = 1) -> float:
    """The smallest difference, in points, that one of the tests finds 8 times in 10, at 5 % over all of them.

    From the median spread of the pairs and the smallest number of seeds of any; with one seed from the median share of
    images that only one has right.

    Args:
        table: from `pairs_of`.
        tests: how many share the 5 %, as Holm's first step has it.

    Returns:
        NaN where the spread is unknown.
    """
    by_seed = table[table["interval"].isin([statistics.OVER_SEEDS, statistics.CONSTANT])]
    if len(by_seed):
        spread = math.sqrt(float((by_seed["deviation"] ** 2).median()))
        return statistics.smallest_detectable_difference(spread, int(by_seed["n"].min()), ALPHA / tests)
    by_image = table[table["interval"] == statistics.OVER_SAMPLES]
    if by_image.empty:
        return math.nan
    share = float(by_image["discordant"].median())
    return 100 * statistics.smallest_detectable_share(share, int(by_image["n"].min()), ALPHA / tests)


def _row(runs: Runs, first: Contender, second: Contender, margin: float) -> dict[str, object]:
    found = difference_between(runs, first, second)
    effect = statistics.standardised_difference(first.accuracies, second.accuracies)
    seeds = sorted(set(first.accuracies) & set(second.accuracies))
    gains = statistics.shared_differences(first.accuracies, second.accuracies)
    return {
        "first": first.method.exact,
        "second": second.method.exact,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "interval": found.kind,
        "n": found.n,
        "p": found.p,
        "effect": effect.mean,
        "effect_low": effect.low,
        "effect_high": effect.high,
        "wins": int((gains > 0).sum()),
        "seeds": len(seeds),
        "deviation": float(gains.std(ddof=1)) if len(seeds) > 1 else math.nan,
        "p_equal": statistics.equivalence_p(first.accuracies, second.accuracies, margin),
        **_by_image(runs, first, second, seeds),
    }


def _by_image(runs: Runs, first: Contender, second: Contender, seeds: list[int]) -> dict[str, object]:
    """What the outcomes per test image add, where they were kept for every shared seed."""
    kept = [(runs.correct(first.cells[seed]), runs.correct(second.cells[seed])) for seed in seeds]
    right = [(one, other) for one, other in kept if one is not None and other is not None]
    sizes = {array.size for pair in right for array in pair}
    if len(right) < max(len(seeds), 1) or len(sizes) != 1:
        nothing = dict.fromkeys(("both_low", "both_high", "both_p", "odds", "discordant"), math.nan)
        return {**nothing, "both_interval": statistics.NO_VALUE}
    ours, theirs = (np.stack(arrays) for arrays in zip(*right, strict=True))
    both = statistics.crossed_difference(ours, theirs)
    return {
        "both_low": 100 * both.low,
        "both_high": 100 * both.high,
        "both_p": both.p_value,
        "both_interval": both.kind,
        "odds": statistics.discordant_odds(ours.ravel(), theirs.ravel()).mean,
        "discordant": float((ours != theirs).mean()),
    }
