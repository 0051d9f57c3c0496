"""One candidate of `technology.py`, in a process of its own: NAME PROBLEM THREADS RUNS. Prints JSON.

It needs numpy and what the candidate needs, so that numba can come from an environment without torch.
"""

import json
import math
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Evaluate = Callable[[], np.ndarray]


def with_kernel(given: Arrays, backend: str) -> Evaluate:
    """A back end of routebench."""
    import torch

    from routebench import kernels
    from routebench.ops import Competition

    tensors = {name: torch.from_numpy(given[name]) for name in ("children", "weight", "query")}
    sweep = kernels.Sweep(**tensors, competition=Competition())

    def evaluate() -> np.ndarray:
        with torch.no_grad(), kernels.using(backend):
            return kernels.sweep(sweep).first.numpy()

    return evaluate


def compiled(given: Arrays, formulation: str) -> Evaluate:
    """What torch.compile makes of a few plain lines."""
    import torch

    def routed(children: torch.Tensor, weight: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        if formulation == "einsum":
            votes = torch.einsum("bid,ijde->bije", children, weight)
        else:
            votes = (children[:, :, None, :, None] * weight).sum(dim=3)  # image, child, parent, pose
        coupling = (votes * query[:, None]).sum(dim=3).softmax(dim=2)  # over parents
        return (coupling[..., None] * votes).sum(dim=1)

    function = torch.compile(routed, dynamic=False)
    tensors = [torch.from_numpy(given[name]) for name in ("children", "weight", "query")]

    def evaluate() -> np.ndarray:
        with torch.no_grad():
            return function(*tensors).numpy()

    return evaluate


def with_numba(given: Arrays) -> Evaluate:
    """Images along the inner loop, which becomes vector instructions; a tile of them at a time, tiles on threads."""
    import numba

    # Sizes from outside the function are constants to the compiler.
    width = math.gcd(16, len(given["children"]))
    _, parents, pose_in, pose = given["weight"].shape

    @numba.njit(parallel=True, fastmath=True)
    def routed(children: Any, weight: Any, query: Any) -> Any:  # (tile, child, pose, lane) and so on
        tiles, seen = children.shape[:2]
        total = np.zeros((tiles, parents, pose, width), dtype=np.float32)
        for tile in numba.prange(tiles):
            votes = np.empty((parents, pose, width), dtype=np.float32)
            shares = np.empty((parents, width), dtype=np.float32)
            for child in range(seen):
                largest = np.full(width, -np.inf, dtype=np.float32)
                for parent in range(parents):
                    shares[parent, :] = 0
                    for element in range(pose):
                        for lane in range(width):
                            vote = np.float32(0)
                            for inner in range(pose_in):
                                vote += children[tile, child, inner, lane] * weight[child, parent, inner, element]
                            votes[parent, element, lane] = vote
                            shares[parent, lane] += vote * query[tile, parent, element, lane]
                    for lane in range(width):
                        largest[lane] = max(largest[lane], shares[parent, lane])
                mass = np.zeros(width, dtype=np.float32)
                for parent in range(parents):
                    for lane in range(width):
                        shares[parent, lane] = math.exp(shares[parent, lane] - largest[lane])
                        mass[lane] += shares[parent, lane]
                for parent in range(parents):
                    for element in range(pose):
                        for lane in range(width):
                            share = shares[parent, lane] / mass[lane]
                            total[tile, parent, element, lane] += share * votes[parent, element, lane]
        return total

    def to_lanes(values: np.ndarray) -> np.ndarray:
        """(image, ...) to (tile, ..., lane)."""
        return np.ascontiguousarray(np.moveaxis(values.reshape(-1, width, *values.shape[1:]), 1, -1))

    def evaluate() -> np.ndarray:
        total = routed(to_lanes(given["children"]), given["weight"], to_lanes(given["query"]))
        return np.moveaxis(total, -1, 1).reshape(given["query"].shape)

    return evaluate


def main() -> None:
    """Time of each run, error, and the time that the first call took."""
    name, problem, threads, runs = sys.argv[1:]
    given = dict(np.load(problem))
    start = perf_counter()
    evaluate = _candidate(name, given, int(threads))
    found = evaluate()
    first = perf_counter() - start
    error = float(np.abs(found - given["expected"]).max() / np.abs(given["expected"]).max())
    seconds = []
    for _ in range(int(runs)):
        begin = perf_counter()
        evaluate()
        seconds.append(perf_counter() - begin)
    sys.stdout.write(json.dumps({"seconds": seconds, "error": error, "start": first}) + "\n")


def _candidate(name: str, given: Arrays, threads: int) -> Evaluate:
    if name == "numba":
        return with_numba(given)
    import torch

    torch.set_num_threads(threads)
    if name.startswith("compile-"):
        return compiled(given, name.removeprefix("compile-"))
    return with_kernel(given, name)


if __name__ == "__main__":
    main()
