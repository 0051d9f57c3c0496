"""Tells whether a method computes the same with every back end and on every device, forward and backward."""

import warnings
from dataclasses import replace

import torch

from routebench import kernels
from routebench.conformance._calls import DTYPES, Case, CheckInputs, Trial, call, in_one_line, where_apart
from routebench.conformance._findings import Deviation, Finding, Kind, Status, judged
from routebench.conformance._problems import GRID, Shape, draw

CAPSNET = Shape("dense, as in CapsNet", images=2, children=32, parents=10, pose_in=8, pose=16)
MATRIX_WINDOWS = Shape(
    "windows of matrices", images=2, children=GRID.seen, parents=4, pose_in=16, pose=16, side=4, windows=GRID
)
USUAL = (CAPSNET, MATRIX_WINDOWS)
"""Pose sizes that networks have, for which kernels are compiled once on a machine."""


def back_ends(inputs: CheckInputs) -> Finding:
    """The back end that `auto` uses here, and plain torch, in single precision."""
    name = "back ends agree"
    shapes = USUAL if inputs.repeats else ()
    cases = [Case(inputs.subject, draw(shape, inputs.seed, dtype=torch.float32)) for shape in shapes]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with kernels.noting() as used, kernels.using("auto"):
            trials = [case.trial(gradients=True) for case in cases]
    fast = sorted(used - {"reference"})
    advice = "votes.watch is set, or tensors are changed in place between two sweeps; else the kernel: report it"
    found = judged(name, map(_from_reference, cases, trials), advice, repeats=inputs.repeats)
    if distrusted := [str(warning.message) for warning in told if "back end" in str(warning.message)]:
        return Finding(name, Kind.REQUIRED, Status.NOT_CHECKED, distrusted[0])
    if found.outcome is Status.NOT_CHECKED:
        return found
    if not fast and not found.wrong:
        seen = "nothing but plain torch is used here: no sweep of the method, or no kernel for it"
        return Finding(name, Kind.REQUIRED, Status.NOT_CHECKED, seen)
    return replace(found, seen=f"{', '.join(fast)} and plain torch: {found.seen}")


def devices(inputs: CheckInputs, device: torch.device | None) -> Finding:
    """A GPU and the processor, in both precisions.

    Args:
        inputs: the inputs of the check.
        device: the GPU; None where there is none, or none was asked for.
    """
    name = "CPU and GPU agree"
    if device is None:
        return Finding(name, Kind.REQUIRED, Status.NOT_CHECKED, "no GPU here, or none asked for")
    cases = (Case(inputs.subject, draw(shape, inputs.seed, dtype=dtype)) for shape in USUAL for dtype in DTYPES)
    deviations = (_from_reference(case, on_device(case, device)) for case in cases)
    advice = "tensors made without `device=` or `_like`, numbers drawn on the device, and buffers not registered"
    return judged(name, deviations, advice, repeats=inputs.repeats)


def on_device(case: Case, device: torch.device) -> Trial:
    """The trial of a case there, with the back end that `auto` takes there, brought back."""
    try:
        method = case.subject.make(case.problem.shape.sizes, case.problem.dtype).to(device)
        problem = case.problem.to(device)
    except Exception as error:  # noqa: BLE001  # as in `call`
        return Trial(error=in_one_line(error))
    with kernels.using("auto"):
        trial = call(method, problem, gradients=True)
    outputs = {name: value.cpu() for name, value in trial.outputs.items()}
    gradients = {name: None if value is None else value.cpu() for name, value in trial.gradients.items()}
    return replace(trial, outputs=outputs, gradients=gradients)


def _from_reference(case: Case, found: Trial) -> Deviation | None:
    expected, allowed = case.trial(gradients=True), case.rounding(gradients=True)
    if expected.error or not expected.finite:
        return None
    seen = case.deviation(found, expected, allowed)
    return replace(seen, words=f"it {where_apart(found, expected)}") if found.error else seen
