"""The whole check, in the order in which its findings are shown."""

import torch

from routebench import kernels
from routebench.conformance._agreement import back_ends, devices
from routebench.conformance._calls import CheckInputs
from routebench.conformance._claims import claims
from routebench.conformance._findings import Checkup, Finding, Kind
from routebench.conformance._method import CheckedMethod, seeded, subject_of
from routebench.conformance._options import options
from routebench.conformance._requirements import (
    deterministic,
    finite,
    first_iteration,
    forgetful,
    images_apart,
    noiseless,
    precision,
    reach,
    runs,
    tested_otherwise,
)
from routebench.notation import Spec
from routebench.routing import RoutingMethod


def check(method: str | Spec | type[RoutingMethod], *, seed: int = 0, device: str = "cpu") -> Checkup:
    """Measures what is required of a routing method, and every claim that it makes or could make.

    It runs on random inputs in several shapes, scales and precisions, with plain torch unless it says otherwise, and
    leaves torch's random generators as they were. What a method raises is a finding.

    >>> from routebench.conformance import check
    >>> checkup = check("uniform")  # doctest: +SKIP
    >>> assert checkup.conforms, checkup  # doctest: +SKIP

    Args:
        method: a registered method, `dynamic` or `dynamic[detach=true]`; or a class, which need not be registered.
        seed: the seed of the random inputs.
        device: `cuda` compares the processor with the GPU, too; `cpu` leaves that out.

    Raises:
        UserError: the name or a hyperparameter is unknown, or a value is not allowed.
    """
    subject, where = subject_of(method), None if device == "cpu" else torch.device(device)
    if where is not None and where.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]  # first, so that its generators are put back, too
    with kernels.using("reference"), seeded(seed):
        found = _findings(subject, seed, where)
    order = list(Kind)
    return Checkup(str(subject), seed, device, tuple(sorted(found, key=lambda finding: order.index(finding.kind))))


def _findings(subject: CheckedMethod, seed: int, device: torch.device | None) -> list[Finding]:
    found, shapes = runs(subject, seed)
    if not shapes:
        return found
    repeated = deterministic(CheckInputs(subject, seed, shapes))
    inputs = CheckInputs(subject, seed, shapes, repeats=not repeated.wrong)
    return [
        *found,
        precision(inputs),
        *finite(inputs),
        images_apart(inputs),
        repeated,
        noiseless(inputs),
        forgetful(inputs),
        *reach(inputs),
        *first_iteration(inputs),
        *tested_otherwise(inputs),
        *options(inputs),
        back_ends(inputs),
        devices(inputs, device),
        *claims(inputs),
    ]
