"""The first sentence of a suite that compares something other than accuracy: its decisions, and nothing else."""

from collections.abc import Mapping

from routebench.analysis import wording
from routebench.analysis._estimate import Estimate
from routebench.analysis._method import Method
from routebench.analysis._result import Main
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import Verdict

NAMED = 6
"""Methods that the sentence names; more are counted."""
OPPOSITE = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}


def answer_of(main: Main, runs: Runs) -> str:
    """The methods that are better or worse than uniform routing in a suite's main measure, and how many were tested.

    Baselines are left out, and so are methods on another network than uniform routing: what these gain is not gained
    by routing.

    Args:
        main: the measure, with its differences to uniform routing.
        runs: the runs of the suite.

    Returns:
        sentences; empty where nothing is compared, or where neither direction is better.
    """
    homes = {method.model for method in runs.methods.values() if method.is_base}
    gains = {method: one for method, one in main.gains.items() if not method.is_control and method.model in homes}
    if not gains or main.higher_is_better is None:
        return ""
    verdicts = {method: _verdict(one, main) for method, one in gains.items()}
    if {*verdicts.values()} == {Verdict.UNTESTABLE}:
        return f"No method could be tested against uniform routing ({main.title})."
    better, worse = ([m for m, one in verdicts.items() if one is way] for way in (Verdict.BETTER, Verdict.WORSE))
    told = [f"Better than uniform routing ({main.title}): {wording.listed(better, NAMED)}." if better else
            f"No method is shown to be better than uniform routing ({main.title})."]  # fmt: skip
    told += [f"Worse: {wording.listed(worse, NAMED)}."] if worse else []
    return " ".join((*told, *_with_other_images(main, [*better, *worse], verdicts)))


def _verdict(gain: Estimate, main: Main) -> Verdict:
    """Better or worse, by the direction of the measure."""
    return gain.verdict if main.higher_is_better else OPPOSITE.get(gain.verdict, gain.verdict)


def _with_other_images(main: Main, decided: list[Method], verdicts: Mapping[Method, Verdict]) -> list[str]:
    """Tells which of the decided differences stand if test images were drawn anew too; nothing where it is unknown."""
    known = [method for method in decided if method in main.both]
    if not known:
        return []
    kept = [method for method in known if _verdict(main.both[method], main) is verdicts[method]]
    who = "all of these" if len(kept) == len(known) else wording.listed(kept, NAMED) if kept else "none of these"
    return [f"With other test images too: {who}."]
