"""Whether a method can be called on every shape at all, and keeps the precision of what it is given."""

from routebench.conformance.case import Case
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import DTYPES, Inputs
from routebench.conformance.problem import BATCHES_OF_ONE, ORDINARY, SHAPES, SMALL, Shape, draw
from routebench.conformance.subject import Subject

GROUPS = {
    "ordinary shapes": (ORDINARY, "what the message says; shapes are (lane, child, parent, pose)"),
    "one child or parent": (SMALL, "squeeze() without an axis, and standard deviations over one number"),
    "batch of one": (BATCHES_OF_ONE, "squeeze() without an axis: name the axis, or use an index"),
}


def runs(subject: Subject, seed: int) -> tuple[list[Finding], tuple[Shape, ...]]:
    """Calls the method, forward and backward, on every shape; gives the shapes on which it raised nothing, too."""
    cases = {shape: Case(subject, draw(shape, seed)) for shape in SHAPES}
    errors = {shape: case.trial(gradients=True).error for shape, case in cases.items()}
    found = []
    for name, (shapes, advice) in GROUPS.items():
        failed = [shape for shape in shapes if errors[shape]]
        if failed:
            seen = f"it raises, with {_names(failed)}: {errors[failed[0]]}"
            found.append(Finding(name, Kind.REQUIRED, Outcome.WRONG, seen, str(cases[failed[0]]), advice))
        else:
            found.append(Finding(name, Kind.REQUIRED, Outcome.OK, f"it runs, with {_names(shapes)}"))
    return found, tuple(shape for shape, error in errors.items() if not error)


def precision(inputs: Inputs) -> Finding:
    """Parents have the precision of the votes."""
    for shape in inputs.among(ORDINARY):
        for dtype in DTYPES:
            case = Case(inputs.subject, draw(shape, inputs.seed, dtype=dtype))
            if case.base.error:
                return _imprecise(f"it raises: {case.base.error}", case)
            for output, value in case.base.outputs.items():
                if value.dtype != dtype:
                    return _imprecise(f"{output} are {_word(value.dtype)} for votes of {_word(dtype)}", case)
    return Finding("precision", Kind.REQUIRED, Outcome.OK, "parents have that of the votes: float64, float32")


def _imprecise(seen: str, case: Case) -> Finding:
    advice = "tensors made without `dtype=` or `_like`, and casts"
    return Finding("precision", Kind.REQUIRED, Outcome.WRONG, seen, str(case), advice)


def _word(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _names(shapes: tuple[Shape, ...] | list[Shape]) -> str:
    return ", ".join(shape.name for shape in shapes)
