"""Rounds: BASE and HEAD measured in turn, again and again, which shows how far the same code lies from itself."""

from itertools import groupby
from operator import itemgetter

import numpy as np

from routebench.comparing.settings import FloatArray, Setting

NOT_IN_TURN = (
    "BASE and HEAD were not measured in turn, so that nothing tells noise from change; "
    "`python -m routebench alternate` measures them so"
)


def changes_by_round(setting: Setting) -> FloatArray:
    """log(HEAD / BASE) in each round, in the order of time.

    A turn is all that one side measured before the other side measured again, and a round is a turn of BASE and one of
    HEAD. What a process measures has its luck in common (where its memory lies, how fast the machine is just then): a
    turn is one value, however many repeats and seeds it has.
    """
    told = sorted(
        (str(getattr(pair, side).provenance.get("finished")), side, float(np.log(values[seed]).mean()))
        for side, values in (("base", setting.base), ("head", setting.head))
        for seed, pair in setting.cells.items()
    )
    turns: dict[str, list[float]] = {"base": [], "head": []}
    for side, own in groupby(told, key=itemgetter(1)):
        turns[side].append(float(np.mean([value for *_, value in own])))
    rounds = min(map(len, turns.values()))
    return np.subtract(turns["head"][:rounds], turns["base"][:rounds], dtype=np.float64)
