"""Networks that answer every test image with one class, from the answers that were kept."""

import math

import numpy as np

from routebench.analysis import wording
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs


def one_class(runs: Runs) -> dict[Method, dict[int, bool]]:
    """Seeds with which every test image got the same answer, by method; each with whether that is the commonest.

    Only of runs whose answers were kept.
    """
    shares, right = (
        dict(zip(rows["cell"], rows["value"], strict=True))
        for rows in (runs.values("commonest_share"), runs.accuracies())
    )
    found: dict[Method, dict[int, bool]] = {}
    done = runs.planned[runs.planned["status"] == "ok"]
    for cell, seed in zip(done["cell"], done["seed"], strict=True):
        answers = np.asarray(runs.arrays(cell).get("predicted", ()))
        if answers.ndim == 1 and answers.size > 1 and (answers == answers[0]).all():
            is_commonest = math.isclose(shares.get(cell, math.nan), right.get(cell, math.nan), rel_tol=1e-9)
            found.setdefault(runs.methods[cell], {})[int(seed)] = is_commonest
    return found


def one_class_in_words(runs: Runs) -> str:
    """`Every test image gets one answer, the commonest class, from EM, T = 2 with 2 of 3 seeds.`; empty for none."""
    found = one_class(runs)
    if not found:
        return ""
    told = [
        f"{method} with {len(seeds)} of {wording.plural(max(len(method.finished), len(seeds)), 'seed')}"
        for method, seeds in sorted(found.items())
    ]
    commonest = all(is_commonest for seeds in found.values() for is_commonest in seeds.values())
    return (
        f"Every test image gets one answer{', the commonest class,' if commonest else ''} from {wording.listed(told)}."
    )
