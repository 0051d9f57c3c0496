"""Claims of Smith et al. on their generative capsules, each as a test on a folder's part.

Statistics and verdicts as in `routebench.analysis.judging`. Variants are found by the words that the suite
`smith-inference` gives them.
"""

import re
from functools import partial

from routebench.analysis import Runs, probe
from routebench.analysis.equivariance import EXPLAINED, with_explained_change
from routebench.analysis.judging import PaperClaim, Statistics, difference

CAPSULES, VAE = "generative-capsules", "vae"
PRESENCES, BOTH = "presences", "both"
SWITCHED, FROM_START = f"{CAPSULES} (full posterior)", f"{CAPSULES} (full posterior from the start)"


def _read(runs: Runs, label: str, feature: str, *, alike: bool = False) -> dict[int, dict[int, float]]:
    """Accuracies of a probe by the angle that test images are turned up to; trained upright, or `alike`."""
    found = probe.by_seed(runs)
    return {
        angle: seeds
        for (method, read, angle, trained), seeds in found.items()
        if (method.label, read) == (label, feature) and trained == (angle if alike else 0)
    }


def _reads_more(ours: tuple[str, str], theirs: tuple[str, str], runs: Runs) -> Statistics:
    """Points by which a probe of one model's feature leads that of another's, upright."""
    one, other = (_read(runs, *read).get(0, {}) for read in (ours, theirs))
    yield difference(one, other), (" ".join(ours), " ".join(theirs))


def _presences_lost_by_turning(runs: Runs) -> Statistics:
    """Upright less the largest angle; models, probes and test images all see digits turned as far."""
    found = _read(runs, CAPSULES, PRESENCES, alike=True)
    if len(found) > 1 and 0 in found:
        most = max(found)
        yield difference(found[0], found[most]), (CAPSULES, f"0 and {most} degrees")


def _gained_freely(runs: Runs) -> Statistics:
    found = runs.by_seed("free_form_gain", angle=0)
    yield next((seeds for method, seeds in found.items() if method.label == CAPSULES), {}), (CAPSULES,)


def _bound_gained_by_switching(runs: Runs) -> Statistics:
    found = {method.label: seeds for method, seeds in runs.by_seed("bound", term="total").items()}
    yield difference(found.get(SWITCHED, {}), found.get(FROM_START, {})), (SWITCHED, FROM_START)


def _equivariance_beside_vae(runs: Runs) -> Statistics:
    """Share of the change by the largest turn that a linear map predicts: poses of objects less means of the VAE."""
    turns = [change for change in runs.values("pose_r2")["change"].unique() if change.startswith("turn")]
    for turn in sorted(turns, key=lambda turn: int(re.sub(r"\D", "", turn)))[-1:]:
        shares = with_explained_change(runs).by_seed(EXPLAINED, change=turn, layer="objects")
        found = {method.label: seeds for method, seeds in shares.items()}
        yield difference(found.get(CAPSULES, {}), found.get(VAE, {})), (CAPSULES, VAE, turn)


def _of_table_1(claim: str, ours: tuple[str, str], theirs: tuple[str, str]) -> PaperClaim:
    return PaperClaim(
        claim,
        "Smith et al., section 5.1 and table 1",
        f"points of a probe, {' '.join(ours)} less {' '.join(theirs)}, upright: above 0",
        "linear-probe",
        partial(_reads_more, ours, theirs),
        "smith-probes",
    )


CLAIMS: tuple[PaperClaim, ...] = (
    _of_table_1(
        "A probe of poses and presences of objects is more accurate than one of presences alone",
        (CAPSULES, BOTH),
        (CAPSULES, PRESENCES),
    ),
    _of_table_1(
        "A probe of presences of objects is more accurate than one of a VAE", (CAPSULES, PRESENCES), (VAE, BOTH)
    ),
    PaperClaim(
        "Probes on presences read less after training on turned digits",
        "Smith et al., figure 4",
        "points of a probe on presences, trained and tested upright less trained and tested turned: above 0",
        "linear-probe",
        _presences_lost_by_turning,
        "smith-probes --preset rotated",
    ),
    PaperClaim(
        "Free-form inference improves classification by presences",
        "Smith et al., section 2.4",
        "points of a probe on presences, after free-form inference less after the encoder, upright: above 0",
        "generation",
        _gained_freely,
        "smith-inference",
    ),
    PaperClaim(
        "A full posterior gives a tighter bound where training starts with certain poses",
        "Smith et al., section 2.3",
        "nats of the bound, switched at half of the training less from the start: above 0",
        "generation",
        _bound_gained_by_switching,
        "smith-inference",
    ),
    PaperClaim(
        "Poses of objects are equivariant, more than latents of a VAE",
        "Smith et al., section 1",
        "share of the change by the largest turn that a linear map predicts, poses less means of a VAE: above 0",
        "equivariance",
        _equivariance_beside_vae,
        "smith-equivariance",
    ),
)
