"""Requirements of every method: it runs, is finite and deterministic, keeps images apart, and passes gradients."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from routebench.claims import Claim
from routebench.conformance._calls import DTYPES, Case, CheckInputs, Trial, call, in_one_line
from routebench.conformance._claims import TESTS
from routebench.conformance._findings import Deviation, Finding, Kind, Status, judged
from routebench.conformance._method import CheckedMethod, subject_of
from routebench.conformance._problems import (
    BATCHES_OF_ONE,
    DENSE,
    ORDINARY,
    SHAPES,
    SMALL,
    WINDOWS,
    Problem,
    Shape,
    draw,
)
from routebench.errors import nearest
from routebench.quantities import plural
from routebench.registry import routing
from routebench.routing import RoutingMethod

GROUPS = {
    "ordinary shapes": (ORDINARY, "what the message says; shapes are (lane, child, parent, pose)"),
    "one child or parent": (SMALL, "squeeze() without an axis, and standard deviations over one number"),
    "batch of one": (BATCHES_OF_ONE, "squeeze() without an axis: name the axis, or use an index"),
}
EXTREMES = (1.0, 1e-6, 1e6, 0.0)
ITERATIONS = range(1, 11)
MOST = (10,)
"""Numbers of iterations that shapes other than the dense one are tried with, besides the method's own."""
NO_BIT = 1e-30
"""A difference that is allowed where every bit has to be the same."""
CANCELLED = 1e-4
"""A gradient for activations below this share of the parents' size is rounding, or a constant in a denominator."""


def runs(subject: CheckedMethod, seed: int) -> tuple[list[Finding], tuple[Shape, ...]]:
    """Calls the method, forward and backward, on every shape; gives the shapes on which it raised nothing, too.

    Where it raises with ordinary shapes, one fault is found: the special ones say nothing more.
    """
    cases = {shape: Case(subject, draw(shape, seed)) for shape in SHAPES}
    errors = {shape: case.trial(gradients=True).error for shape, case in cases.items()}
    found: list[Finding] = []
    for name, (shapes, advice) in GROUPS.items():
        failed = [shape for shape in shapes if errors[shape]]
        if failed and any(finding.name == "ordinary shapes" and finding.wrong for finding in found):
            found.append(Finding(name, Kind.REQUIRED, Status.NOT_CHECKED, "it raises with ordinary shapes already"))
        elif failed:
            seen = f"it raises, with {_names(failed)}: {errors[failed[0]]}"
            found.append(Finding(name, Kind.REQUIRED, Status.WRONG, seen, str(cases[failed[0]]), advice))
        else:
            found.append(Finding(name, Kind.REQUIRED, Status.OK, f"it runs, with {_names(shapes)}"))
    return found, tuple(shape for shape, error in errors.items() if not error)


def precision(inputs: CheckInputs) -> Finding:
    """Parents have the precision of the votes."""
    for shape in inputs.among(ORDINARY):
        for dtype in DTYPES:
            case = Case(inputs.subject, draw(shape, inputs.seed, dtype=dtype))
            if case.base.error:
                return _imprecise(f"it raises: {case.base.error}", case)
            for output, value in case.base.outputs.items():
                if value.dtype != dtype:
                    return _imprecise(f"{output} are {_word(value.dtype)} for votes of {_word(dtype)}", case)
    return Finding("precision", Kind.REQUIRED, Status.OK, "parents have that of the votes: float64, float32")


def first_iteration(inputs: CheckInputs) -> list[Finding]:
    """Finds whether one iteration is the method that `first_is` names, to the last bit; nothing where it names none."""
    subject, name, title = inputs.subject, inputs.subject.method.first_is, "first_is"
    if not name or subject.params:  # other hyperparameters are another function, of which reports believe nothing
        return []
    advice = "correct `first_is` in the class, or leave it out: reports believe it"
    if name not in routing:
        seen = f"no method is called {name!r}{nearest(name, routing)}"
        return [Finding(title, Kind.REQUIRED, Status.WRONG, seen, advice=advice)]
    when, other = f"between one iteration and {name!r}", subject_of(name)
    tried = [replace(case, changes={"iterations": 1}) for case in inputs.plain]
    apart = [
        case.deviation(case.base, replace(case, subject=other, changes={}).trial(), NO_BIT, when) for case in tried
    ]
    return [judged(title, apart, advice, repeats=inputs.repeats)]


def finite(inputs: CheckInputs) -> list[Finding]:
    """One finding about parents, and one about gradients where parents are finite."""
    tried = list(_extremes(inputs))
    parents, gradients = [], []
    for case in tried:
        trial = case.trial(gradients=True)
        if trial.error or not trial.finite:
            parents.append((case, _words(trial, trial.outputs)))
        elif bad := _not_finite(trial.gradients):
            gradients.append((case, f"the gradient for the children's {bad}" if bad != "weight" else "that of weights"))
    floors = "divisions, logarithms and roots: add a floor under what may be zero"
    roots = "norms, roots and divisions at zero, which have no gradient there: add a small number inside"
    return [_finding("finite parents", parents, tried, floors), _finding("finite gradients", gradients, tried, roots)]


def deterministic(inputs: CheckInputs) -> Finding:
    """Two fresh methods, the same input, the same seed of torch: the same bits, gradients included."""
    advice = "numbers drawn from another source than torch's generator, time, and the order of sets"
    cases = (inputs.case(shape, training=training) for shape in inputs.among(ORDINARY) for training in (False, True))
    otherwise = "with one seed, the same bits, in evaluation and in training"
    return judged("deterministic", map(_bits, cases), advice, repeats=True, otherwise=otherwise)


def noiseless(inputs: CheckInputs) -> Finding:
    """Another seed of torch gives the same bits in evaluation mode: what is tested does not depend on luck."""
    advice = "draw random numbers only `if self.training`, or once, when it is made"
    deviations, otherwise = map(_luck, inputs.plain), "another seed of torch gives the same bits"
    return judged("no noise in evaluation", deviations, advice, repeats=inputs.repeats, otherwise=otherwise)


def forgetful(inputs: CheckInputs) -> Finding:
    """A method that was called on something else gives what a fresh one gives. In evaluation mode nothing may stay."""
    advice = "what route() stores on self; make it anew in each call"
    deviations, otherwise = map(_remembered, inputs.plain), "a used method gives the same bits as a fresh one"
    return judged("no state between calls", deviations, advice, repeats=inputs.repeats, otherwise=otherwise)


def images_apart(inputs: CheckInputs) -> Finding:
    """Images in a batch do not influence each other, in evaluation mode."""
    test = TESTS[Claim.BATCH_INDEPENDENCE]
    deviations = (test.measure(case) for case in (inputs.compared if inputs.repeats else ()))
    return judged("batch independence", deviations, test.advice, repeats=inputs.repeats)


def reach(inputs: CheckInputs) -> list[Finding]:
    """Tells whether gradients of poses and activations reach votes, activations take part, and parameters can learn."""
    cases = [inputs.case(shape, training=training) for shape in inputs.among(ORDINARY) for training in (False, True)]
    cases = [case for case in cases if case.base.finite]
    found = [_reaches_votes("gradient of parents' poses", "poses", cases)]
    if any("activations" in case.base.outputs for case in cases):
        found.append(_reaches_votes("gradient of parents' activations", "activations", cases))
    return [*found, _activations_count(inputs), _parameters_learn(inputs)]


def tested_otherwise(inputs: CheckInputs) -> list[Finding]:
    """Tells whether a method that was made for some iterations runs with others, as suites test trained networks."""
    name, default = "test iterations", inputs.subject.settings.get("iterations")
    if default is None or not inputs.among((DENSE,)):
        return []
    problem, failed = draw(DENSE, inputs.seed), list[tuple[str, str]]()
    for made in sorted({1, default}):
        for tested in ITERATIONS:
            case = f"T = {tested}, made for {made}"
            try:
                method = inputs.subject.make(DENSE.sizes, problem.dtype, changes={"iterations": made})
            except Exception:  # noqa: BLE001  # a finding of its own
                break
            if not hasattr(method, "iterations"):
                seen = "it has no `self.iterations`, which suites set to test a trained network with another number"
                advice = "keep the number in self.iterations, and read it in each call"
                return [Finding(name, Kind.REQUIRED, Status.WRONG, seen, case, advice)]
            if error := _with_iterations(method, problem, tested):
                failed.append((case, error))
    if not failed:
        return [Finding(name, Kind.REQUIRED, Status.OK, "it runs with 1 to 10, whatever number it was made for")]
    (case, error), count = failed[0], len(failed)
    seen = (
        f"it raises with other iterations than it was made for, in {count} cases: {error}; such values will be missing"
    )
    return [Finding(name, Kind.MEASURED, Status.BESIDES, seen, case)]


def _with_iterations(method: RoutingMethod, problem: Problem, count: int) -> str:
    """The error that a method raises once its iterations are set; empty if none."""
    try:
        method.iterations = count  # type: ignore[assignment]  # as `routebench.models.network.set_iterations`
    except Exception as error:  # noqa: BLE001  # as in `call`
        return in_one_line(error)
    return call(method, problem).error


def _imprecise(seen: str, case: Case) -> Finding:
    advice = "tensors made without `dtype=` or `_like`, and casts"
    return Finding("precision", Kind.REQUIRED, Status.WRONG, seen, str(case), advice)


def _word(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _names(shapes: tuple[Shape, ...] | list[Shape]) -> str:
    return ", ".join(shape.name for shape in shapes)


def _extremes(inputs: CheckInputs) -> Iterator[Case]:
    for dtype in DTYPES:
        for scale in EXTREMES:
            for shape in inputs.among(SHAPES):
                case = Case(inputs.subject, draw(shape, inputs.seed, dtype=dtype, scale=scale))
                yield case
                if inputs.subject.iterative and dtype == torch.float32:  # where numbers end first
                    yield from map(case.with_iterations, ITERATIONS if shape is DENSE else MOST)
                if scale == 1.0 and shape in ORDINARY:
                    yield _absent(case)


def _absent(case: Case) -> Case:
    """No child is present: all their activations are 0."""
    shape = replace(case.problem.shape, name=f"{case.problem.shape.name}, all activations 0")
    problem = replace(case.problem, shape=shape, activations=torch.zeros_like(case.problem.activations))
    return replace(case, problem=problem)


def _words(trial: Trial, tensors: Mapping[str, Tensor | None]) -> str:
    return f"it raises: {trial.error}" if trial.error else f"{_not_finite(tensors)}"


def _not_finite(tensors: Mapping[str, Tensor | None]) -> str:
    """`poses are NaN`, of the first tensor that is not finite; empty if all are."""
    for name, value in tensors.items():
        if value is not None and not bool(torch.isfinite(value).all()):
            return f"{name} are {'NaN' if bool(value.isnan().any()) else 'infinite'}"
    return ""


def _finding(name: str, bad: list[tuple[Case, str]], tried: list[Case], advice: str) -> Finding:
    if not bad:
        counts = "1 to 10 iterations, " if tried and tried[0].subject.iterative else ""
        seen = f"finite at {len(tried)} inputs: {counts}all shapes, poses of 0, 1e-6, 1 and 1e6, no child present"
        return Finding(name, Kind.REQUIRED, Status.OK, seen)
    case, words = bad[0]
    always = _always([case for case, _ in bad], tried)
    common = f", always with {', '.join(always)}" if always else ""
    seen = f"{words} at {len(bad)} of {plural(len(tried), 'input')}{common}"
    return Finding(name, Kind.REQUIRED, Status.WRONG, seen, str(case), advice)


def _always(bad: list[Case], tried: list[Case]) -> list[str]:
    """The traits of inputs that fail: those of which every input fails; none if everything fails."""
    failed, all_of = (Counter(trait for case in cases for trait in _traits(case)) for cases in (bad, tried))
    return [] if len(bad) == len(tried) else [trait for trait, count in all_of.items() if failed[trait] == count]


def _traits(case: Case) -> tuple[str, ...]:
    shape, iterations = case.problem.shape.name, case.changes.get("iterations")
    counted = () if iterations is None or case.problem.shape is not DENSE else (f"T = {iterations}",)
    return (shape, f"poses of {case.problem.scale:g}", *counted)


def _luck(case: Case) -> Deviation:
    return case.deviation(case.trial(seed=0), case.trial(seed=1), NO_BIT, "between two seeds of torch")


def _bits(case: Case) -> Deviation:
    again = "when the same call is made again, with the same seed of torch"
    return case.deviation(case.trial(gradients=True), case.trial(gradients=True), NO_BIT, again)


def _remembered(case: Case) -> Deviation:
    """A method called on other images, on one image alone, and then on what a fresh one is called on."""
    used = case.subject.make(case.problem.shape.sizes, case.problem.dtype, changes=case.changes)
    other = replace(case.problem, poses=-2 * case.problem.poses.flip(0), activations=0.5 * case.problem.activations)
    call(used, other, gradients=True)
    call(used, case.problem.image(0))
    found = call(used, case.problem, gradients=True)
    seen = case.deviation(found, case.trial(gradients=True), NO_BIT, "after calls on other images")
    return replace(seen, words=f"after a call on one image, it raises: {found.error}") if found.error else seen


def _reaches_votes(name: str, output: str, cases: list[Case]) -> Finding:
    """Activations may be made of the children's poses alone, and then no gradient of theirs reaches weights."""
    advice = "detach(), .data, no_grad(), argmax and hard decisions between votes and parents"
    least, from_votes = 1.0, output == "poses"
    for case in cases:
        gradients = case.trial(gradients=True, of=(output,)).gradients
        share = _share(gradients.get("poses"))
        if from_votes or gradients.get("weight") is not None:
            share, from_votes = min(share, _share(gradients.get("weight"))), True
        if share == 0:
            how = "is zero" if gradients.get("weight") is not None else "stops before them"
            seen = f"no gradient of the parents' {output} reaches the votes: it {how}"
            return Finding(name, Kind.REQUIRED, Status.WRONG, seen, str(case), advice)
        least = min(least, share)
    rest = " and weights" if from_votes else ", and needs no votes"
    seen = f"it reaches {least:.0%} of the children's poses{rest}"
    return Finding(name, Kind.REQUIRED, Status.OK if cases else Status.NOT_CHECKED, seen if cases else "no input")


def _activations_count(inputs: CheckInputs) -> Finding:
    """A method may leave the children's activations alone; if it uses them, they must not cancel."""
    name, shapes = "children's activations", inputs.among((DENSE, WINDOWS))
    sizes = []
    for shape in shapes:
        trial = inputs.case(shape).trial(gradients=True)
        gradient = trial.gradients.get("activations")
        if gradient is not None:
            parents = max(float(value.abs().max()) for value in trial.outputs.values())
            sizes.append(float(gradient.abs().max()) / max(parents, 1e-30))
    if not sizes:
        return Finding(name, Kind.MEASURED, Status.BESIDES, "they are not used: no parent depends on them")
    if max(sizes) < CANCELLED:
        seen = f"they enter the computation, but cancel: the gradient for them is {max(sizes):.1g} of the parents' size"
        advice = "a normalisation after the product of coupling and activations, which divides them out again"
        return Finding(name, Kind.REQUIRED, Status.WRONG, seen, str(inputs.case(shapes[0])), advice)
    seen = f"they matter: the gradient for them is at least {min(sizes):.1g} times the parents' size"
    if not inputs.subject.make(shapes[0].sizes).uses_activations:
        seen += "; with `uses_activations = True`, networks learn them where lengths of poses say nothing"
    return Finding(name, Kind.REQUIRED, Status.OK, seen)


def _parameters_learn(inputs: CheckInputs) -> Finding:
    """A parameter without a gradient is counted in tables, and learns nothing."""
    name, idle = "parameters learn", None
    for shape in inputs.among((DENSE, WINDOWS)):
        case = inputs.case(shape, training=True)
        method = case.subject.make(shape.sizes, training=True)
        names = [key for key, value in method.named_parameters() if value.requires_grad]
        if not names:
            return Finding(name, Kind.MEASURED, Status.BESIDES, "the method has no parameters of its own")
        votes, activations = case.problem.given_to(method)
        routed = method.route(votes, activations)  # finiteness has a finding of its own
        given = (routed.poses, routed.activations, routed.loss)
        outputs = [value for value in given if value is not None and value.requires_grad]
        total = torch.stack([value.sin().sum() for value in outputs]).sum() if outputs else None
        values = [method.get_parameter(key) for key in names]
        found = torch.autograd.grad(total, values, allow_unused=True) if total is not None else [None] * len(values)
        here = {key for key, value in zip(names, found, strict=True) if _share(value) == 0}
        idle = here if idle is None else idle & here
    if idle:
        seen = f"no gradient reaches {', '.join(sorted(idle))}: counted, but they never change"
        return Finding(name, Kind.MEASURED, Status.BESIDES, seen)
    return Finding(name, Kind.MEASURED, Status.BESIDES, "a gradient reaches every parameter")


def _share(gradient: Tensor | None) -> float:
    """The share of elements whose gradient is not zero."""
    return 0.0 if gradient is None else float((gradient != 0).double().mean())
