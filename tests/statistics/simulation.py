"""What simulations of the statistics share: how many, how exact, and networks that are right or wrong per sample."""

import math

import numpy as np

RUNS = 1200
# Three standard errors of a proportion of 0.95 over RUNS simulations.
MONTE_CARLO = 3 * math.sqrt(0.95 * 0.05 / RUNS)


def seeds(values: np.ndarray | list[float]) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


def equal_networks(rng, runs: int, n_seeds: int, n: int, of_seed: float, of_sample: float) -> np.ndarray:
    """Right or wrong, (runs, 2 methods, seeds, n), of two methods that are equal on average, right on about 94 %.

    log odds = 5.5 + 3 x ease of the sample + what the seed did to the method + how the sample suits the method.
    """
    difficulty = rng.normal(0, 3, (runs, 1, 1, n))
    seed = rng.normal(0, of_seed, (runs, 2, n_seeds, 1))
    sample = rng.normal(0, of_sample, (runs, 2, 1, n))
    return rng.random((runs, 2, n_seeds, n)) < 1 / (1 + np.exp(-(5.5 + difficulty + seed + sample)))
