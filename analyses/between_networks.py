"""One method on several networks: the difference in accuracy, paired by seed."""

from collections.abc import Iterator

from pandas import DataFrame

from routebench.analysis import (
    METHOD,
    Analysis,
    Column,
    Estimate,
    Role,
    Row,
    Runs,
    analysis_of,
    corrected,
    mean_of,
    run,
)
from routebench.analysis.comparison import OTHER_IMAGES, Contender, contenders_of, difference_between, with_other_images


@analysis_of("", "between-networks", place=21, folder=True, role=Role.NETWORKS)
def between_networks(parts: tuple[Runs, ...]) -> Analysis | None:
    """Accuracy (%) of every method and T on each further network of a suite, less that on its first (points)."""
    rows = [row for group in _groups(parts) for row in _rows(*group)]
    if not rows:
        return None
    several = len({row["of"] for row in rows}) > 1
    return Analysis(
        title="Between networks",
        reading="On which network is each method more accurate?",
        table=DataFrame(rows),
        columns=(
            *((Column("Of", "of", numeric=False),) if several else ()),
            METHOD,
            Column("Network", "network", numeric=False),
            Column("Accuracy, %", "accuracy", "±.1"),
            Column("Against", "against", numeric=False),
            Column("There, %", "there", "±.1"),
            Column("Difference, points", "difference", "+.2", "on the seeds of both, paired by seed"),
            Column("p (Holm)", "difference.p_holm", "p", "corrected for all differences between networks of a suite"),
            *((OTHER_IMAGES,) if any(row["both"].known for row in rows) else ()),
        ),
        notes=(
            (
                "The same method, T, data and seeds in two networks. These may differ in more than one respect, and in "
                "settings tuned for each: a difference is one of whole networks."
            ),
        ),
    )


def _groups(parts: tuple[Runs, ...]) -> Iterator[tuple[Runs, ...]]:
    """The parts of each suite, preset and data set that was run on several networks, in the order of its plan."""
    groups: dict[tuple[str, ...], list[Runs]] = {}
    for runs in parts:
        if runs.strength.judges:
            groups.setdefault((runs.suite, runs.preset, runs.data, runs.protocol), []).append(runs)
    yield from (tuple(group) for group in groups.values() if len(group) > 1)


def _rows(first: Runs, *others: Runs) -> list[Row]:
    """One row per further network and method that both networks have results of."""
    base = {_key(one): one for one in contenders_of(first) if one.accuracies}
    pairs = [
        (runs, one, base[_key(one)])
        for runs in others
        for one in contenders_of(runs)
        if one.accuracies and _key(one) in base and one.method.model != base[_key(one)].method.model
    ]
    gains = corrected(difference_between(*pair) for pair in pairs)
    return [_row(*pair, gain) for pair, gain in zip(pairs, gains, strict=True)]


def _key(one: Contender) -> tuple[str, int | None]:
    return one.method.label, one.method.iterations


def _row(runs: Runs, ours: Contender, theirs: Contender, difference: Estimate) -> Row:
    both = with_other_images(runs, ours, theirs)
    where = {"suite": runs.suite, "preset": runs.preset, "data": runs.data}
    where["of"] = ", ".join(where.values())
    values = {"accuracy": mean_of(ours.values, 100), "there": mean_of(theirs.values, 100)}
    networks = {"network": ours.method.model, "against": theirs.method.model}
    return {"method": ours.method, **where, **networks, **values, "difference": difference, "both": both}


if __name__ == "__main__":
    run(between_networks)
