"""The answer in a few sentences: which routing is best here, and does routing matter."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pandas import DataFrame

from routebench.analysis import wording
from routebench.analysis._result import Analysis, place_of, reads
from routebench.analysis._runs import Runs
from routebench.analysis._table import Row
from routebench.analysis.comparison import Comparison, compare, difference_between
from routebench.registry import analyses
from routebench.report._asking import ask
from routebench.report._lead import Leader, title_of, told_apart
from routebench.statistics import OVER_SAMPLES

ALPHA = 0.05
PRESETS = {
    "smoke": "The smoke preset only shows that everything runs: do not read anything into its numbers.",
    "quick": "The quick preset trains small networks briefly: a first look, not a finding.",
}


@dataclass(frozen=True)
class Headline:
    """What a report says first.

    Args:
        title: one sentence.
        which: sentences on which routing is best.
        matters: sentences on whether routing, and iterating it, gains anything.
        caveats: what keeps the answer from being more than it is.
        figures: a large number, its unit and what it is, in words.
        beside_table: how to read the comparison table, where it stands without its notes.
    """

    title: str
    which: tuple[str, ...]
    matters: tuple[str, ...]
    caveats: tuple[str, ...]
    figures: tuple[tuple[str, str, str], ...]
    beside_table: str = ""

    def __str__(self) -> str:
        below = (self.beside_table,) if self.beside_table else ()
        return "\n".join((self.title, *self.which, *self.matters, *self.caveats, *below))


def headline_of(runs: Runs, known: Mapping[str, Analysis] | None = None) -> Headline | None:
    """The headline of a suite: for any other than accuracy, the reading of its first analysis; None without one.

    Args:
        runs: of the suite.
        known: what its analyses found, by name, where they were asked already.
    """
    if runs.protocol not in ("accuracy", ""):
        return _from_reading(runs, known)
    found = compare(runs)
    measured = found.measured if not found.table.empty else found.table
    if measured.empty:
        return Headline("Nothing was measured yet.", (), (), (_finished(found.table),), ())
    leader = Leader.of(found.table)
    if len(measured) == 1 or leader.best is None:
        return Headline(
            title=_too_little(leader, len(measured)),
            which=(f"{leader.lead['name']} reaches {_accuracy(leader.lead)}.",),
            matters=(),
            caveats=_caveats(runs, found),
            figures=_figures(leader, found),
        )
    return Headline(
        title=f"{title_of(leader)}; {_verdict(leader.best, found)}.",
        which=_which(leader, measured),
        matters=_matters(runs, leader.best, found),
        caveats=_caveats(runs, found),
        figures=_figures(leader, found),
        beside_table=_beside_table(found),
    )


def first_analysis(protocol: str) -> Callable[[Runs], Analysis | None] | None:
    """The analysis that stands first in the report of a protocol, among those of its own."""
    own = (analyses[name] for name in analyses if getattr(analyses[name], "protocol", "") == protocol != "")
    return min((analysis for analysis in own if reads(analysis, protocol)), key=place_of, default=None)


def _from_reading(runs: Runs, known: Mapping[str, Analysis] | None) -> Headline | None:
    analysis = first_analysis(runs.protocol)
    if analysis is None or known is None:
        found = None if analysis is None else ask(analysis, "headline", runs)
    else:
        found = next((known[name] for name in known if analyses[name] is analysis), None)
    if not isinstance(found, Analysis):
        return None
    caveats = (PRESETS["smoke"],) if runs.preset == "smoke" else ()
    return Headline(found.reading, (), (), caveats, ())


def _too_little(leader: Leader, measured: int) -> str:
    if measured == 1:
        return f"Only {leader.lead['name']} has finished: nothing can be compared yet."
    return "Only controls have finished: which routing is best was not measured."


def _verdict(best: Row, found: Comparison) -> str:
    if found.baseline is None or math.isnan(best["gain"]):
        return "whether routing matters was not measured"
    if best["p_holm"] < ALPHA:
        better = best["gain"] > 0
        return f"routing {'gains' if better else 'loses'} {abs(best['gain']):.2f} points against uniform coupling"
    if math.isnan(best["p_holm"]):
        return "whether routing matters could not be tested"
    return "a gain over uniform coupling is not shown"


def _which(leader: Leader, measured: DataFrame) -> tuple[str, ...]:
    best = leader.best or leader.lead
    sentences = [f"{best['name']} reaches {_accuracy(best)}.", *told_apart(leader)]
    for network in measured[measured["label"] == "cnn"].to_dict("records"):
        gap = round(best["mean"] - network["mean"], 2)
        far = "as much" if gap == 0 else f"{abs(gap):.2f} points {'less' if gap > 0 else 'more'}"
        sentences.append(
            f"A plain CNN of matched size, the control without capsules, reaches {network['mean']:.2f} %: {far}."
        )
    return tuple(sentences)


def _accuracy(row: Row) -> str:
    accuracy = wording.mean_with_interval(row["mean"], row["low"], row["high"], row["interval"])
    return f"{accuracy} % on test images ({wording.plural(int(row['n_ok']), 'seed')})"


def _matters(runs: Runs, best: Row, found: Comparison) -> tuple[str, ...]:
    if found.baseline is None or math.isnan(best["gain"]):
        return (
            "The control `uniform`, every child split evenly over the parents, has no finished run to compare with.",
        )
    over = "test images, one seed" if best["gain_interval"] == OVER_SAMPLES else wording.plural(found.seeds, "seed")
    against = f"Against uniform coupling, which does not route at all, {best['name']} differs by"
    limits = f"(95 % interval over {over}, of this gain alone; corrected p {_equals(best['p_holm'])})"
    sentences = [f"{against} {wording.gain_with_interval(best)} points {limits}."]
    others = found.measured[found.measured["role"] != "control"]
    ahead = int(((others["p_holm"] < ALPHA) & (others["gain"] > 0)).sum())
    behind = int(((others["p_holm"] < ALPHA) & (others["gain"] < 0)).sum())
    sentences.append(
        f"Of {wording.plural(len(others), 'routing configuration')}, {_many(ahead)} significantly better than "
        f"uniform and {_many(behind)} significantly worse (Holm over the gains of the table, not over all pairs)."
    )
    if not math.isnan(found.detectable):
        sentences.append(f"Differences below about {found.detectable:.2f} points would likely go unnoticed here.")
    return (*sentences, *_iterating(runs, best, found))


def _iterating(runs: Runs, best: Row, found: Comparison) -> tuple[str, ...]:
    """Whether the best method needs more than one iteration: one paired test, not corrected."""
    same = found.measured[(found.measured["label"] == best["label"]) & (found.measured["model"] == best["model"])]
    single = same[same["iterations"].fillna(0).astype(int) == 1]
    if single.empty or str(single["name"].iloc[0]) == best["name"]:
        return ()
    known = {one.name: one for one in found.contenders.values()}
    gain = difference_between(runs, known[best["name"]], known[single["name"].iloc[0]])
    verdict = "a difference" if gain.p < ALPHA else "no difference that is shown"
    return (f"Against a single iteration of the same method: {gain:+.2} points, {verdict}.",)


def _many(number: int) -> str:
    return {0: "none is", 1: "one is"}.get(number, f"{number} are")


def _equals(p_value: float) -> str:
    text = wording.probability(p_value)
    return text if text.startswith("<") else f"= {text}" if text != wording.NOTHING else "not computable"


def _finished(table: DataFrame) -> str:
    if table.empty:
        return "No run is planned."
    done, planned = int(table["n_ok"].sum()), int(table["n_planned"].sum())
    return f"{done} of {wording.plural(planned, 'planned run')} finished."


def _caveats(runs: Runs, found: Comparison) -> tuple[str, ...]:
    caveats = [PRESETS[runs.preset]] if runs.preset in PRESETS else []
    if int(found.measured["n_ok"].max()) < 3:
        caveats.append("Fewer than three seeds: how much another seed would change is hardly known.")
    elif found.seeds < 3:
        caveats.append("Some comparisons rest on fewer than three seeds.")
    if found.test_samples and found.test_samples < 5000:
        caveats.append(f"{found.test_samples:,} test images: one image is {100 / found.test_samples:.2g} points.")
    if int(found.table["n_ok"].sum()) < int(found.table["n_planned"].sum()):
        caveats.append(_finished(found.table))
    return tuple(caveats)


def _beside_table(found: Comparison) -> str:
    """For the reader who sees the table without what its columns mean."""
    gains = int(found.table["gain"].notna().sum())
    if gains < 2:
        return ""
    return (
        f"In the table, an interval is for one number alone, p (Holm) for all {gains} gains together, and the group "
        "for all pairs together: the more is asked at once, the less is significant."
    )


def _figures(leader: Leader, found: Comparison) -> tuple[tuple[str, str, str], ...]:
    best = leader.best or leader.lead
    among = "" if best is leader.lead else " among routing methods"
    done, planned = int(found.table["n_ok"].sum()), int(found.table["n_planned"].sum())
    figures = [(wording.percent(best["mean"]), "%", f"highest mean accuracy{among}, {best['name']}")]
    if not math.isnan(best["gain"]):
        limits = f"95 %: {wording.signed(best['gain_low'])} to {wording.signed(best['gain_high'])}"
        known = "" if math.isnan(best["gain_low"]) else f"; {limits}"
        figures.append((wording.signed(best["gain"]), "points", f"its gain over uniform coupling{known}"))
    if not math.isnan(found.detectable):
        figures.append((f"{found.detectable:.2f}", "points", "smallest gain these seeds would likely show"))
    figures.append((f"{done} / {planned}", "runs", "finished, of those planned"))
    return tuple(figures)
