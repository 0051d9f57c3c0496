"""Intervals, paired tests and ranks for methods measured with a few seeds.

Pure functions of numbers. A NaN is a failed measurement and raises an error: callers drop failed runs first and report
their number. Too few values give NaN limits and a `kind` that says why, and no error, so that a report can show what is
there.

Choose the function by what would vary if the study were repeated:

| what varies | functions |
| --- | --- |
| seeds, on the same test samples | `accuracy_interval`, `paired_difference`, `equivalence_p` |
| test samples, one network each | `accuracy_interval`, `paired_samples`, `discordant_odds` |
| test samples, these networks of several seeds | `paired_samples_of_seeds` |
| seeds and test samples | `crossed_difference`, `crossed_equivalence_p` |
| another laboratory's runs | `predicted_mean`, `predicted_best` |
| seeds, on two machines that share a baseline | `apart_difference`, `apart_equivalence_p` |
| the same, and test samples | `crossed_apart_difference` |
| seeds, as many as a width asks for | `two_stage_difference`, `two_stage_equivalence_p`, `seeds_needed` |
| data sets | `friedman`, `nemenyi_difference`, `wilcoxon_holm` |
| runs within tasks | `interquartile_mean_over_tasks`, `probability_of_improvement`, `performance_profile` |

Effect sizes: `standardised_difference` of paired seeds, in the reports. Family-wise error: `holm` and
`rank_intervals`. Spreads of several rows, each of few seeds: `moderated_variances`. Tuning budgets: `expected_best` and
`stable_from`. Seeds that fall out of the others: `collapses`.
"""

from routebench.statistics._across_data import (
    TOO_FEW_DATA,
    Ranking,
    cliques,
    friedman,
    nemenyi_difference,
    wilcoxon_holm,
    wilcoxon_p,
)
from routebench.statistics._apart import (
    OVER_MACHINES,
    apart_difference,
    apart_equivalence_p,
    crossed_apart_difference,
)
from routebench.statistics._best_of import expected_best, stable_from
from routebench.statistics._by_sample import (
    BY_SAMPLE,
    NO_DISCORDANT,
    OVER_SAMPLES_ONLY,
    by_view,
    discordant_odds,
    paired_samples,
    paired_samples_of_seeds,
)
from routebench.statistics._by_seed import (
    equivalence_p,
    paired_difference,
    paired_differences,
    shared_differences,
    smallest_sign_flip_p,
)
from routebench.statistics._collapses import Collapses, collapses
from routebench.statistics._crossed import BOTH_CONSTANT, OVER_BOTH, crossed_difference, crossed_equivalence_p
from routebench.statistics._effects import (
    TOO_FEW,
    hedges_correction,
    standardised_difference,
)
from routebench.statistics._families import holm, rank_intervals
from routebench.statistics._intervals import (
    ALPHA,
    CONFIDENCE,
    CONSTANT,
    NO_VALUE,
    ONE_VALUE,
    OVER_SAMPLES,
    OVER_SEEDS,
    OVER_SEEDS_LOGIT,
    Difference,
    Interval,
    accuracy_interval,
    mean_interval,
    wilson_interval,
)
from routebench.statistics._moderation import moderated_variances
from routebench.statistics._power import smallest_detectable_difference, smallest_detectable_share
from routebench.statistics._prediction import PREDICTED, predicted_best, predicted_mean
from routebench.statistics._stopping import (
    OVER_SEEDS_TWO_STAGES,
    seeds_needed,
    two_stage_difference,
    two_stage_equivalence_p,
)
from routebench.statistics._summary import (
    OVER_STRATA,
    TOO_FEW_RUNS,
    interquartile_mean_over_tasks,
    performance_profile,
    probability_of_improvement,
)

__all__ = [
    "ALPHA",
    "BOTH_CONSTANT",
    "BY_SAMPLE",
    "CONFIDENCE",
    "CONSTANT",
    "NO_DISCORDANT",
    "NO_VALUE",
    "ONE_VALUE",
    "OVER_BOTH",
    "OVER_MACHINES",
    "OVER_SAMPLES",
    "OVER_SAMPLES_ONLY",
    "OVER_SEEDS",
    "OVER_SEEDS_LOGIT",
    "OVER_SEEDS_TWO_STAGES",
    "OVER_STRATA",
    "PREDICTED",
    "TOO_FEW",
    "TOO_FEW_DATA",
    "TOO_FEW_RUNS",
    "Collapses",
    "Difference",
    "Interval",
    "Ranking",
    "accuracy_interval",
    "apart_difference",
    "apart_equivalence_p",
    "by_view",
    "cliques",
    "collapses",
    "crossed_apart_difference",
    "crossed_difference",
    "crossed_equivalence_p",
    "discordant_odds",
    "equivalence_p",
    "expected_best",
    "friedman",
    "hedges_correction",
    "holm",
    "interquartile_mean_over_tasks",
    "mean_interval",
    "moderated_variances",
    "nemenyi_difference",
    "paired_difference",
    "paired_differences",
    "paired_samples",
    "paired_samples_of_seeds",
    "performance_profile",
    "predicted_best",
    "predicted_mean",
    "probability_of_improvement",
    "rank_intervals",
    "seeds_needed",
    "shared_differences",
    "smallest_detectable_difference",
    "smallest_detectable_share",
    "smallest_sign_flip_p",
    "stable_from",
    "standardised_difference",
    "two_stage_difference",
    "two_stage_equivalence_p",
    "wilcoxon_holm",
    "wilcoxon_p",
    "wilson_interval",
]
