"""README.md, the figure and its data, from results.csv."""

from pathlib import Path

import pandas as pd

from reports.speed.cases import CASES, Case
from routebench.errors import UserError

COLUMNS = (
    "case",
    "part",
    "implementation",
    "iterations",
    "batch",
    "repeat",
    "seconds",
    "iqr",
    "runs",
    "extra",
    "peak",
    "used",
    "error_outputs",
    "error",
    "rounding",
    "threads",
    "backend",
    "processor",
    "torch",
    "quick",
    "neighbours",
)
ITERATION_GOAL = 0.8
MEMORY_GOAL = 1.1
"""Memory counts as unchanged below this ratio: parents of each iteration are kept for backward."""
MIB, GIB = 2**20, 2**30
TITLES = {"dense-dynamic": "dense, dynamic", "conv-attention": "conv, inverted attention", "conv-em": "conv, EM"}
SERIES = {"ours": ("#0072b2", "o", "-"), "yardstick": ("#d55e00", "s", "--")}  # Okabe and Ito: told apart by all


def write(folder: Path) -> None:
    """Writes all that is made from the results in a folder."""
    path = folder / "results.csv"
    if not path.exists():
        raise UserError(f"expected results in {path}, found none; run without --page-only")
    rows = pd.read_csv(path)
    memory = rows[rows["part"] == "memory"]
    if not memory.empty:
        memory = memory[["case", "implementation", "iterations", "batch", "extra"]]
        memory.to_csv(folder / "memory_against_T.csv", index=False)
        _figure(memory, folder / "memory_against_T.svg")
    public = (
        pd.read_csv(folder / "public.csv", dtype={"commit": str})
        if (folder / "public.csv").exists()
        else pd.DataFrame()
    )
    (folder / "README.md").write_text("\n".join(_page(rows, public, figure=not memory.empty)) + "\n")


def _page(rows: pd.DataFrame, public: pd.DataFrame, *, figure: bool) -> list[str]:
    names = [name for name in CASES if name in set(rows["case"])]
    tables = {name: _of(rows, name, "table") for name in names}
    measured = [name for name in names if not tables[name].empty]
    layers = [name for name in names if not _of(rows, name, "iterations").empty]
    warning = ["**Tiny sizes (`--quick`): these numbers show nothing.**", ""] if bool(rows["quick"].any()) else []
    return [
        "# Speed and memory of routing",
        "",
        *warning,
        *_machine(rows),
        "",
        "## Against published code",
        "",
        "Forward and backward; yardsticks are our plain PyTorch in the way of published code (`yardstick.py`).",
        "Ratio: yardstick by ours, median over repeats, with its range.",
        "",
        "| work | yardstick | ours | faster | goal | extra memory, yardstick | ours | less | goal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(line for name in measured for line in _case_lines(CASES[name], tables[name])),
        *_refusals(rows),
        "",
        *(f"- {CASES[name].note}" for name in measured if CASES[name].note),
        *(line for name in measured for line in _floor(CASES[name], tables[name])),
        "",
        *_public(public),
        *(_iterations(rows, layers) if layers else []),
        *_beside(rows, names),
        *(["## Memory against T", "", "![Extra memory against T](memory_against_T.svg)", ""] if figure else []),
        *_agreement(rows, names),
        "## Noise",
        "",
        "Ours against ours (A/A): slowest repeat by fastest, and the number of repeats. What is closer to its goal",
        "than this is undecided.",
        "",
        *(f"- {name}: {_noise(tables[name])}" for name in measured),
        "",
        *HOW,
    ]


HOW = (
    "## How it was measured",
    "",
    "    python reports/speed/measure.py              # all; --only CASE for one, whose results replace its old ones",
    "    python reports/speed/measure.py --beside     # ours beside a busy process, and nothing else",
    "    python reports/speed/measure.py --page-only  # this page again, from results.csv",
    "",
    "Each measurement is made by a process of its own, ours and the yardstick in turn. The first step, of two images,",
    "loads libraries and compiles kernels; the second, of the whole batch, gives the memory: peak resident memory less",
    "what was resident before it. Time is the median of further runs (`torch.utils.benchmark`); their number and",
    "interquartile range are in `results.csv`. A case whose outputs or gradients differ from the yardstick's by more",
    "than 1e-4 of the largest value of a tensor, in single precision, is not timed; beyond the T of the table, by more",
    "than that and than five times the yardstick's own rounding.",
)


def _public(rows: pd.DataFrame) -> list[str]:
    """The section on public repositories as they are; nothing without measurements of them."""
    if rows.empty:
        return []
    repeats, error = rows["repeat"].nunique(), rows["error"].max()
    lines = [
        "## Against public repositories as they are",
        "",
        f"Their files unchanged, {rows['work'].iloc[0]}; ours stops the same gradients.",
        f"Outputs and gradients agree to {error:.1g} of the largest value. Medians of {repeats} processes each, in",
        "turn, with the range of ratios. `reports/speed/public.py CHECKOUTS` measures it.",
        "",
        "| repository | commit | theirs | ours | faster | extra memory, theirs | ours | less |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (name, commit), own in rows.groupby(["repository", "commit"], sort=False):
        times, extra = (
            own.pivot_table(values=key, index="repeat", columns="implementation") for key in ("seconds", "extra")
        )
        ratios, memory = times["public"] / times["ours"], extra.median()
        told = [f"[{name}](https://github.com/{name})", f"`{commit}`"]
        told += [_seconds(times[one].median()) for one in ("public", "ours")]
        told += [f"{ratios.median():.1f} ({ratios.min():.1f} to {ratios.max():.1f})"]
        told += [*(_memory(memory[one]) for one in ("public", "ours")), f"{memory['public'] / memory['ours']:.1f}"]
        lines.append(f"| {' | '.join(told)} |")
    return [*lines, ""]


def _machine(rows: pd.DataFrame) -> list[str]:
    facts = rows[rows["part"].isin(["table", "iterations", "memory"])]
    machines = facts[["processor", "threads", "torch", "backend"]].drop_duplicates()
    used = sorted(
        {name for names in facts.loc[facts["implementation"] != "yardstick", "used"] for name in _used(names)}
    )
    lines = [
        f"Processor {row.processor}, {int(row.threads)} threads, torch {row.torch}, back end asked for: {row.backend}."
        for row in machines.itertuples()
    ]
    return [*lines, f"Back ends that did the sweeps of ours: {', '.join(used) or 'none'}."]


def _used(names: str) -> list[str]:
    return [] if names == "no sweep" else str(names).split()


def _of(rows: pd.DataFrame, name: str, part: str) -> pd.DataFrame:
    return rows[(rows["case"] == name) & (rows["part"] == part)]


def _case_lines(case: Case, table: pd.DataFrame) -> list[str]:
    return [
        _case_line(case, table, implementation)
        for implementation in case.implementations
        if implementation.startswith("ours")
    ]


def _case_line(case: Case, table: pd.DataFrame, implementation: str) -> str:
    ours, theirs = (_by_repeat(table, which) for which in (implementation, "yardstick"))
    faster = theirs["seconds"] / ours["seconds"]
    leaner = (theirs["extra"] / ours["extra"].clip(lower=1)).median()
    with_goal = implementation == "ours"
    if with_goal and case.fits is not None:
        peak = ours["peak"].max() / GIB
        memory_goal = f"whole process fits {case.fits:g} GiB: {_met(peak <= case.fits)} ({peak:.2f} GiB)"
    else:
        memory_goal = _goal(case.leaner if with_goal else None, leaner)
    cells = (
        case.work + implementation.removeprefix("ours"),
        _duration(case, theirs["seconds"].median()),
        _duration(case, ours["seconds"].median()),
        f"{faster.median():.1f} ({faster.min():.1f} to {faster.max():.1f})",
        _goal(case.faster if with_goal else None, faster.median()),
        _memory(theirs["extra"].median()),
        _memory(ours["extra"].median()),
        f"{leaner:.1f}",
        memory_goal,
    )
    return f"| {' | '.join(cells)} |"


def _by_repeat(table: pd.DataFrame, implementation: str) -> pd.DataFrame:
    return table[table["implementation"] == implementation].set_index("repeat")


def _duration(case: Case, seconds: float) -> str:
    step = _seconds(seconds)
    return step if case.steps is None else f"{seconds * case.steps / 60:.2g} min ({step} a step)"


def _seconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _memory(extra: float) -> str:
    return f"{extra / MIB:,.0f} MiB"


def _goal(goal: float | None, found: float) -> str:
    return "none" if goal is None else f"{goal:g}: {_met(round(found, 1) >= goal)}"  # by the number that is shown


def _met(reached: bool) -> str:
    return "met" if reached else "**not met**"


def _refusals(rows: pd.DataFrame) -> list[str]:
    refused = rows[rows["part"] == "refused"]
    return [f"| {CASES[row.case].work} | refused: {row.used} | | | | | | | |" for row in refused.itertuples()]


def _floor(case: Case, table: pd.DataFrame) -> list[str]:
    alone = _by_repeat(table, "convolutions")
    if alone.empty:
        return []
    ours = _by_repeat(table, "ours")["seconds"].median()
    floor = alone["seconds"].median()
    return [f"- {case.work}: the convolutions alone take {_seconds(floor)}, {100 * floor / ours:.0f} % of our step."]


def _iterations(rows: pd.DataFrame, layers: list[str]) -> list[str]:
    last = int(rows.loc[rows["part"] == "iterations", "iterations"].max())
    steps = " | ".join(f"{count} to {count + 1}" for count in range(1, last))
    return [
        "## One more iteration",
        "",
        f"What T + 1 costs beyond T, as a share of T = 1; the goal is under {ITERATION_GOAL} for each. Memory: the",
        f"largest ratio of one T to the one before, which counts as unchanged up to {MEMORY_GOAL:g}.",
        "",
        f"| work | T = 1 | {steps} | goal | memory | unchanged |",
        f"| --- | --- |{' --- |' * (last - 1)} --- | --- | --- |",
        *(_iteration_line(name, _of(rows, name, "iterations")) for name in layers),
        "",
        "The first iteration is the cheap one: with equal coupling it makes no votes, and in the dense layer it is one",
        "matrix product. What grows with T in ours is what autograd keeps of the parents:",
        "",
        *(_growth_line(name, _of(rows, name, "memory")) for name in layers if not _of(rows, name, "memory").empty),
        "",
    ]


def _growth_line(name: str, table: pd.DataFrame) -> str:
    extra = table.pivot_table(index="iterations", columns="implementation", values="extra")
    slope = (extra.iloc[-1] - extra.iloc[0]) / (extra.index[-1] - extra.index[0])
    where = f"B = {int(table['batch'].iloc[0])}, T = 1 to {int(extra.index[-1])}"
    grown = f"{_memory(slope['ours'])} an iteration, yardstick {_memory(slope['yardstick'])}"
    return f"- {TITLES.get(name, name)}: {grown} ({where})"


def _iteration_line(name: str, table: pd.DataFrame) -> str:
    seconds = table.pivot_table(index="repeat", columns="iterations", values="seconds")
    first = seconds[1]
    shares = seconds.diff(axis=1).iloc[:, 1:].div(first, axis=0).median()
    extra = table.groupby("iterations")["extra"].median().clip(lower=1)
    growth = (extra / extra.shift()).max()
    cells = (
        TITLES.get(name, name),
        f"{1e3 * first.median():.3g} ms",
        *(f"{share:.2f}" for share in shares),
        _met(bool((shares < ITERATION_GOAL).all())),
        f"{growth:.2f} ({_memory(extra.iloc[0])} at T = 1, {_memory(extra.iloc[-1])} at T = {int(extra.index[-1])})",
        _met(growth <= MEMORY_GOAL),
    )
    return f"| {' | '.join(cells)} |"


def _beside(rows: pd.DataFrame, names: list[str]) -> list[str]:
    """The section on ours beside a busy process; nothing without measurements of it."""
    measured = [name for name in names if not _of(rows, name, "beside").empty]
    if not measured:
        return []
    return [
        "## Beside other work",
        "",
        "Ours alone, and with one other process that keeps a core busy; medians of processes in turn. Threads that",
        "wait spin where OpenMP is left as it is; routebench lets them give way (`GOMP_SPINCOUNT`).",
        "",
        "| work | alone | busy | times | alone, threads spin | busy, threads spin | times |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_beside_line(name, _of(rows, name, "beside")) for name in measured),
        "",
    ]


def _beside_line(name: str, table: pd.DataFrame) -> str:
    cells = [TITLES.get(name, name)]
    for _, own in table.groupby("implementation"):  # "ours" comes first
        alone, busy = (own.loc[own["neighbours"] == count, "seconds"].median() for count in (0, 1))
        cells += [_seconds(alone), _seconds(busy), f"{busy / alone:.2f}"]
    return f"| {' | '.join(cells)} |"


def _agreement(rows: pd.DataFrame, names: list[str]) -> list[str]:
    lines = [
        f"| {row.case} | {row.implementation} | {int(row.iterations)} | {row.error_outputs:.1e} | {row.error:.1e} | "
        f"{f'{row.rounding:.1e}' if row.rounding else ''} |"
        for name in names
        for row in _of(rows, name, "check").itertuples()
    ]
    return [
        "## Agreement",
        "",
        "Largest difference, as a share of the largest value of the same tensor: `ours` against the yardstick, a",
        "variant of it against plain torch that stores votes; and for layers, the yardstick against itself in double",
        "precision. Fewer images than are timed; `cases.py` says how many.",
        "",
        "| case | what | T | outputs | outputs and gradients | yardstick's rounding |",
        "| --- | --- | --- | --- | --- | --- |",
        *lines,
        "",
    ]


def _noise(table: pd.DataFrame) -> str:
    seconds = _by_repeat(table, "ours")["seconds"]
    return f"{seconds.max() / seconds.min():.2f} of {len(seconds)}" if len(seconds) > 1 else "unknown, of one repeat"


def _figure(memory: pd.DataFrame, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(memory["case"]))
    with plt.rc_context({"font.size": 11, "svg.hashsalt": "routebench", "svg.fonttype": "none"}):
        figure, axes = plt.subplots(1, len(names), figsize=(1 + 3.4 * len(names), 3.6), sharey=True, squeeze=False)
        for axis, name in zip(axes[0], names, strict=True):
            part = memory[memory["case"] == name]
            for implementation, (colour, marker, line) in SERIES.items():
                own = part[part["implementation"] == implementation]
                style = {"color": colour, "marker": marker, "linestyle": line, "label": implementation}
                axis.plot(own["iterations"], own["extra"].clip(lower=1) / MIB, **style)
            axis.set(title=f"{TITLES.get(name, name)}, B = {part['batch'].iloc[0]:g}", yscale="log")
            axis.set_xlabel("T, routing iterations")
            axis.grid(alpha=0.3)
        axes[0, 0].set_ylabel("extra memory, MiB")
        axes[0, 0].legend(frameon=False)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
