"""Runs in which a claim is planted as the paper has it, the other way, or hidden by noise."""

from dataclasses import replace

import pandas as pd

from routebench.analysis import Verdict
from routebench.analysis.judging import every_claim
from routebench.registry import analyses
from tests.analysis.made_up_runs import made_up_records, made_up_runs

EVERY = {claim.claim: claim for claim in every_claim()}


def methods(known):
    """Lines of `made_up_runs.METHODS`: labels with their accuracies, all with T=2."""
    return {label: ([2], "method", "capsnet-small", [accuracy]) for label, accuracy in known.items()}


def fitted(known, protocol="accuracy", **options):
    """Five seeds of lines as in `made_up_runs.METHODS`."""
    records = made_up_records(**{"seeds": 5, "spread": 0.4, "failures": False, "methods": known, **options})
    return replace(made_up_runs(records), protocol=protocol)


def verdicts(runs):
    """By claim, as the page has them."""
    return analyses["qualitative-claims"]((runs,)).numbers.set_index("claim")["verdict"]


def measured(protocol, cells, model="matrix-capsules-small", lost=None, **known):
    """Runs with three seeds of each `(label, metric, value, where)`; the n-th grows by n/1000 from seed to seed.

    `lost` says of labels which seeds diverged.
    """
    rows, planned = [], {}
    for place, (label, metric, value, where) in enumerate(cells, start=1):
        steps = {"em": 3, "dynamic": 3, "inverted-attention": 2, "inverted-attention[start=random]": 2}.get(label)
        for seed in range(3):
            cell = {"cell": f"{label}{model}{seed}", "label": label, "iterations": steps, "seed": seed, "model": model}
            status = "diverged" if seed in (lost or {}).get(label, ()) else "ok"
            planned[cell["cell"]] = {**cell, "method": label.split()[0], "status": status, "role": "method"}
            if status != "ok":
                continue
            noisy = {"metric": metric, "value": value * (1 + 0.001 * place * seed), "unit": ""}
            rows.append({**cell, "test_iterations": pd.NA, **noisy, **where})
    kinds = {"iterations": "Int64"}
    return replace(
        made_up_runs(seeds=1), model=model, data="rendered-shapes-small-azimuth", **{"protocol": protocol, **known},
        results=pd.DataFrame(rows).astype({**kinds, "test_iterations": "Int64"}),
        planned=pd.DataFrame([*planned.values()]).astype(kinds),
    )  # fmt: skip


def verdict(claim, runs, *others):
    """The verdict of one claim on the runs, beside other parts of a folder."""
    return EVERY[claim].test(runs, (runs, *others)).verdict


def planted_is_found(claim, protocol, as_claimed, otherwise, where):
    """Asserts verdicts on values by `(label, metric)`, as claimed and otherwise, at one place of the results."""
    for values, expected in ((as_claimed, Verdict.HOLDS), (otherwise, Verdict.FAILS)):
        cells = [(label, metric, value, where) for (label, metric), value in values.items()]
        assert verdict(claim, measured(protocol, cells)) == expected
        others = as_claimed if values is otherwise else otherwise
        other = measured(protocol, [(label, metric, value, where) for (label, metric), value in others.items()])
        found = EVERY[claim].test(beside(measured(protocol, cells), other))
        assert found.verdict == expected, "another network has no part in it"
        assert found.of.endswith("(in matrix-capsules-small)")


def beside(runs, other, model="another-network"):
    """The runs, with others in a network of their own in the same part."""
    tables = [[table, more.assign(model=model, cell=more["cell"] + model)]
              for table, more in ((runs.results, other.results), (runs.planned, other.planned))]  # fmt: skip
    results, planned = (pd.concat(both, ignore_index=True) for both in tables)
    return replace(runs, results=results, planned=planned)
