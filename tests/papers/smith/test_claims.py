"""Claims of Smith et al. on runs in which they were planted, or the opposite."""

import pytest

from routebench.analysis import Verdict
from routebench.papers.smith.claims import CAPSULES, CLAIMS, FROM_START, SWITCHED
from tests.analyses.planted import EVERY, measured, planted_is_found, verdict

UPRIGHT = {"kind": "maximal", "angle": 0, "train_angle": 0, "split": "test"}
TURNS = tuple({"change": f"turn by {degrees}°", "layer": "objects"} for degrees in (90, 15))
PLANTED = {
    "Free-form inference improves classification by presences": (
        "generation",
        {(CAPSULES, "free_form_gain"): 2.0},
        {(CAPSULES, "free_form_gain"): -2.0},
        {"angle": 0},
    ),
    "A full posterior gives a tighter bound where training starts with certain poses": (
        "generation",
        {(SWITCHED, "bound"): 200.0, (FROM_START, "bound"): 180.0},
        {(SWITCHED, "bound"): 180.0, (FROM_START, "bound"): 200.0},
        {"term": "total"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", PLANTED)
def test_what_is_planted_is_found(claim):
    planted_is_found(claim, *PLANTED[claim])


@pytest.mark.parametrize(
    ("both", "presences", "vae", "expected"),
    [(95, 90, 80, (Verdict.HOLDS, Verdict.HOLDS)), (80, 90, 95, (Verdict.FAILS, Verdict.FAILS))],
)
def test_what_probes_read(both, presences, vae, expected):
    cells = [
        (label, "probe_accuracy", float(value), {**UPRIGHT, "feature": feature})
        for label, feature, value in (
            (CAPSULES, "both", both),
            (CAPSULES, "presences", presences),
            ("vae", "both", vae),
        )
    ]
    runs = measured("linear-probe", cells)
    claims = [claim.claim for claim in CLAIMS if "table 1" in claim.source]
    assert tuple(verdict(claim, runs) for claim in claims) == expected


def test_a_variant_is_not_the_plain_model():
    variant = f"{CAPSULES} (absence is free)"
    turned = {**UPRIGHT, "angle": 180, "train_angle": 180}
    cells = [
        (label, "probe_accuracy", value, {**where, "feature": "presences"})
        for label, where, value in ((CAPSULES, UPRIGHT, 90.0), (CAPSULES, turned, 40.0), (variant, turned, 95.0))
    ]
    found = EVERY["Probes on presences read less after training on turned digits"].test(measured("linear-probe", cells))
    assert (found.verdict, found.statistic.mean) == (Verdict.HOLDS, pytest.approx(50, rel=0.01))


@pytest.mark.parametrize(("same", "expected"), [(-0.5, Verdict.HOLDS), (0.85, Verdict.FAILS)])
def test_poses_that_hardly_change_are_not_equivariant_and_the_largest_turn_counts(same, expected):
    cells = [
        (label, metric, value, TURNS[0])
        for label, values in ((CAPSULES, (0.9, same)), ("vae", (0.6, -0.5)))
        for metric, value in zip(("pose_r2", "pose_r2_same"), values, strict=True)
    ]
    smaller = [(label, metric, 0.5, TURNS[1]) for label in (CAPSULES, "vae") for metric in ("pose_r2", "pose_r2_same")]
    runs = measured("equivariance", [*cells, *smaller])
    found = EVERY["Poses of objects are equivariant, more than latents of a VAE"].test(runs)
    assert found.verdict == expected
    assert found.statistic.mean == pytest.approx((1 - 0.1 / (1 - same)) - (1 - 0.4 / 1.5), abs=0.02)
