"""Measures: what is known of each number that protocols yield, declared once.

Those of the core stand here, those of a paper or a study in a file `measures.py` of its folder. A plug-in declares its
own in any of its files, with `declare`, or yields a plain `Metric` with a unit and a direction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from routebench.errors import unknown
from routebench.registry import extensions
from routebench.units import COUNTED, TIMED, YARDSTICKS, is_of_machine

Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
INDEX: Range = (0.0, 1.0)
POSITIVE: Range = (0.0, math.inf)
CORRELATION: Range = (-1.0, 1.0)
AT_MOST_ONE: Range = (-math.inf, 1.0)
GAIN: Range = (-100.0, 100.0)
"""A difference of two percentages."""
NEVER_NEGATIVE = (
    "margin", "spread", "spread-sigmoid", "cross-entropy", "cross-entropy-of-scores", "binary-cross-entropy",
)  # fmt: skip
"""The losses to train with that are never negative, of those that ship: to ask `routebench.losses` imports torch."""
MORE, LESS, NEITHER = True, False, None
"""Directions: what is better."""


@dataclass(frozen=True)
class Measure:
    """A measure, of which protocols yield values by its name.

    Args:
        name: as records have it, such as `top_share`.
        title: its name in tables and figures, without its unit.
        unit: `%`, `s`, `count`; empty for a pure number.
        higher_is_better: its direction; None where neither is better.
        digits: decimals of a value in a table; None for two significant digits.
        meaning: what it is, in a line of Markdown without an end stop.
        limits: the smallest and the largest possible value; None for those of its unit.
        share: a share of a whole, which is never negative and never larger; by default what is in % and has its limits.
        beside: tells of the measurement itself, such as how often it was repeated: nothing is judged by it.
        main: the first choice of who looks at all numbers of its suite.
    """

    name: str
    title: str
    unit: str = ""
    higher_is_better: bool | None = NEITHER
    digits: int | None = 2
    meaning: str = ""
    limits: Range | None = None
    share: bool | None = None
    beside: bool = False
    main: bool = False

    @property
    def sign(self) -> str:
        """Its unit as shown: a count needs none."""
        return "" if self.unit == "count" else self.unit

    @property
    def heading(self) -> str:
        """The title of its column, with the unit."""
        return f"{self.title}, {self.sign}" if self.sign else self.title

    @property
    def plain(self) -> str:
        """Its meaning as plain text."""
        return self.meaning.replace("`", "")

    @property
    def form(self) -> str:
        """The form of its mean in a table, as `Column` has it."""
        return "~" if self.digits is None else f"±.{self.digits}"

    @property
    def whole(self) -> float | None:
        """The whole, in its unit, where it is a share; else None."""
        is_share = self.unit == "%" and self.limits is None if self.share is None else self.share
        return (100.0 if self.unit == "%" else 1.0) if is_share else None

    @property
    def range(self) -> Range:
        """The smallest and the largest possible value, in its unit; infinite where there is no limit."""
        if self.limits is not None:
            return self.limits
        if self.whole is not None:
            return 0.0, self.whole
        if self.unit == "points":
            return GAIN
        return POSITIVE if self.unit in (*COUNTED, *TIMED) or is_of_machine(self.unit) else ANY

    @property
    def is_of_machine(self) -> bool:
        """Tells whether another machine gives another value, or another measurement on the same does."""
        return self.beside or is_of_machine(self.unit)


def declare(*measures: Measure) -> None:
    """Makes measures known by their names.

    Args:
        measures: the declarations. The same again changes nothing.

    Raises:
        UserError: a name is taken.
    """
    extensions.measures()  # a name that ships is taken
    for measure in measures:
        extensions.declare(measure.name, measure)


def declared() -> Mapping[str, Measure]:
    """Every measure by name: of the core first, then of papers, studies and loaded plug-ins."""
    return extensions.measures()


def measure_of(name: str) -> Measure:
    """The declaration of a measure.

    Args:
        name: its name.

    Raises:
        UserError: nobody has declared it.
    """
    if name not in declared():
        raise unknown("measure", name, declared())
    return declared()[name]


def as_recorded(name: str, unit: str) -> Measure:
    """The declaration of a recorded metric, or, where there is none, a measure of its name and unit.

    Args:
        name: the metric, as recorded.
        unit: its unit, as recorded. A declaration with another does not count.
    """
    known = declared().get(name)
    return known if known is not None and known.unit == unit else Measure(name, name.replace("_", " "), unit)


CORE = (
    # Answers.
    Measure("accuracy", "Accuracy", "%", MORE, 1, "test images that are answered rightly", main=True),
    Measure("loss", "Loss", "", LESS, 3, "the loss that the network was trained with, mean over test images", POSITIVE),
    Measure("balanced_accuracy", "Balanced", "%", MORE, 2, "mean over classes of the share of a class's test images "
            "that is right; what answers one class alone has 100 % over the number of classes"),
    Measure("commonest_share", "Commonest class", "%", NEITHER, 1, "test images of the commonest class"),
    Measure("right_answers", "Right answers", "%", NEITHER, 1, "accuracy on test images as they are; methods are "
            "compared by `accuracy`, in other suites"),
    Measure("exact_match", "Exact match", "%", MORE, 1, "test images of which exactly what they show is answered. A "
            "class is answered if its score is above one threshold for all classes, the best on held-out images",
            main=True),
    Measure("exact_match_given_count", "Exact match, told how many", "%", MORE, 1, "the same, if the network is told "
            "how many classes the image shows"),
    Measure("chosen_threshold", "Threshold", "", NEITHER, 2, "score above which a class is answered: the best on "
            "held-out images"),
    # Training.
    Measure("train_loss", "Training loss", "", LESS, 3, "loss on training images after an epoch", POSITIVE),
    Measure("added_loss", "Added loss", "", NEITHER, 3, "the part of the training loss that routing methods add, after "
            "an epoch"),
    Measure("train_accuracy", "Training accuracy", "%", MORE, 1, "accuracy on training images after an epoch"),
    Measure("held_out_loss", "Held-out loss", "", LESS, 3, "loss on held-out images after an epoch", POSITIVE),
    Measure("held_out_accuracy", "Held-out accuracy", "%", MORE, 1, "accuracy on held-out images after an epoch"),
    Measure("test_accuracy", "Test accuracy", "%", MORE, 1, "accuracy on test images after an epoch"),
    Measure("best_test_accuracy", "Best test accuracy", "%", NEITHER, 1, "the highest accuracy on test images after "
            "any epoch: what a selection by test images would report"),
    Measure("parameters", "Parameters", "count", NEITHER, 0, "trained numbers"),
    Measure("fit_seconds", "Training", "s", LESS, 0, "time of one fit"),
    Measure("score", "Tuning score", "%", MORE, 2, "images of a fold that are answered rightly by a network trained on "
            "the others"),
    Measure("diverged", "Diverged", "", NEITHER, 0, "1 if training diverged on the fold, else 0"),
    Measure("absent", "Absent", "", NEITHER, 0, "1 for what could not be measured: `what` it is, and `why`"),
    # Iterations to a fixed point.
    Measure("updates", "Updates", "count", NEITHER, 1, "updates that an image took, mean over test images"),
    Measure("residual", "Residual", "", LESS, 4, "length of the last step over its size: 0 at the fixed point",
            POSITIVE),
    Measure("at_rest", "Images at rest", "%", MORE, 1, "test images whose last step was below the tolerance"),
    # Activity of capsules.
    Measure("hoyer", "Hoyer", "", NEITHER, 3, "Hoyer's sparsity: 0 is spread evenly, 1 is one capsule alone", INDEX),
    Measure("gini", "Gini", "", NEITHER, 3, "Gini's index: 0 is spread evenly", INDEX),
    Measure("top_share", "Top-1 share", "", NEITHER, 3, "share of the most active capsule in the sum: 1 / capsules is "
            "spread evenly, 1 is one alone", share=True),
    Measure("norm_entropy", "Entropy of activity", "", NEITHER, 3, "entropy of the shares, over that of equal ones: 1 "
            "is spread evenly, 0 is one alone", INDEX),
    Measure("population_sparsity", "Population sparsity", "", NEITHER, 3, "Treves-Rolls sparsity over capsules, mean "
            "over images: 0 is spread evenly", INDEX),
    Measure("lifetime_sparsity", "Lifetime sparsity", "", NEITHER, 3, "the same over images, mean over capsules",
            INDEX),
    Measure("active_above_0.1", "Above 0.1", "", NEITHER, 1, "capsules whose activity is above 0.1, mean over test "
            "images"),
    Measure("active_above_0.5", "Above 0.5", "", NEITHER, 1, "capsules whose activity is above 0.5, mean over test "
            "images"),
    Measure("dead_share", "Dead capsules", "", NEITHER, 3, "share of capsules whose activity is above 0.1 for no test "
            "image", share=True),
    Measure("d_score", "D-score", "", NEITHER, 3, "largest standard deviation over test images of any capsule's "
            "activity (Peer et al.)"),
    # Coupling.
    Measure("coupling_entropy", "Entropy of coupling", "", NEITHER, 3, "entropy of a child's coupling, in nats, mean "
            "over children", POSITIVE),
    Measure("effective_parents", "Parents per child", "", NEITHER, 1, "exp of the entropy of a child's coupling",
            POSITIVE),
    Measure("t_score", "T-score", "", NEITHER, 3, "1 where every child has one parent, 0 where it has all alike", INDEX,
            main=True),
    Measure("t_score_weighted", "Weighted T-score", "", NEITHER, 3, "the same, where a child counts by its activation",
            INDEX),
    Measure("share_between", "Coupling between images", "", NEITHER, 3, "part of the variance of coupling that lies "
            "between images; the rest lies between pairs of child and parent", INDEX),
    Measure("starved_share", "Starved parents", "", NEITHER, 3, "share of parents that get less than a tenth of an "
            "equal share of their children over all test images together", share=True),
    Measure("static_accuracy", "Accuracy, coupling held", "%", MORE, 1, "accuracy on test images with the coupling "
            "that 1,000 training images have on average, sweep by sweep"),
    Measure("static_loss", "Lost, coupling held", "%", NEITHER, 1, "points of accuracy less than with the network's "
            "own coupling", GAIN),
    Measure("gradient_norm", "Gradient of poses", "", NEITHER, None, "norm of the gradient of an image's loss with "
            "respect to the poses of a layer, mean over 250 training images"),
    Measure("gathered", "Gathered votes", "%", NEITHER, 1, "excess weight of votes near the mean of the right class "
            "over that near another's, in per cent of all weight", GAIN),
    Measure("pose_r2", "Pose R²", "", MORE, 2, "R² of poses that a linear map with an offset predicts", AT_MOST_ONE),
    # Linear probes.
    Measure("probe_accuracy", "Probe", "%", MORE, 1, "accuracy of a linear probe on features of the network",
            main=True),
    Measure("network_accuracy", "Network", "%", MORE, 1, "accuracy of the network itself on the same images"),
    Measure("probe_C", "C of the probe", "", NEITHER, None, "inverse strength of a probe's regularisation, which "
            "held-out images choose"),
    Measure("probe_loss", "Loss of the probe", "", LESS, 3, "cross-entropy of a probe on held-out images, in nats"),
    Measure("probe_steps", "Steps of the probe", "count", NEITHER, 0, "steps that fitting a probe took"),
    Measure("probe_converged", "Probe converged", "", MORE, 0, "1 if fitting a probe converged, else 0"),
    Measure("feature_size", "Size of features", "count", NEITHER, 0, "numbers that a probe reads"),
    # Attacks and corruptions.
    Measure("clean_accuracy", "Unattacked", "%", MORE, 1, "accuracy on the images that are attacked"),
    Measure("attacked_images", "Attacked images", "count", NEITHER, 0, "test images that are attacked"),
    Measure("main_eps", "Main eps", "", NEITHER, None, "the L-infinity budget of the comparison, pixels from 0 to 1"),
    Measure("attacked_accuracy", "Accuracy under attack", "%", MORE, 1, "images that are right and stay so within the "
            "budget: an upper bound on the true robustness", main=True),
    Measure("attack_success", "Success of the attack", "%", LESS, 1, "images that are right, and that the attack "
            "breaks"),
    Measure("accuracy_taken", "Accuracy taken", "points", LESS, 1, "points of accuracy that it takes from what the "
            "white-box attacks before it left"),
    Measure("targeted_success", "Targeted success", "%", LESS, 1, "images that come out as a wrong class that was "
            "chosen, mean over the classes chosen, of those right before the attack"),
    Measure("source_accuracy", "Accuracy of the source", "%", NEITHER, 1, "images that the network they were made for "
            "withstands, of those this one has right"),
    Measure("median_distance", "Smallest change", "", MORE, 2, "L2 distance of the smallest change that any attack "
            "found, pixels from 0 to 1, median over images", POSITIVE),
    Measure("queries", "Queries", "count", NEITHER, 0, "times that the attack asked the network, mean over images"),
    Measure("check", "Check", "", NEITHER, None, "what a check of the attacks measured, in a unit of its own"),
    Measure("check_fired", "Check fired", "", NEITHER, 0, "1 if the check gives a reason to doubt the attacks, else 0",
            INDEX),
    Measure("suspicions", "Suspicions", "count", LESS, 0, "serious checks that fired"),
    Measure("zero_gradient_elements", "Pixels without gradient", "%", NEITHER, 1, "pixels whose input gradient is "
            "exactly zero"),
    Measure("zero_gradient_images", "Images without gradient", "%", NEITHER, 1, "images whose input gradient is zero "
            "everywhere"),
    Measure("broken_gradient_images", "Images with a broken gradient", "%", NEITHER, 1, "images with an input gradient "
            "that is not finite"),
    Measure("gradient_magnitude", "Size of gradients", "", NEITHER, None, "mean absolute value of the input gradient, "
            "per unit of pixels from 0 to 1"),
    Measure("pixel_std", "Spread of pixels", "", NEITHER, 3, "standard deviation of training pixels", POSITIVE),
    Measure("corrupted_accuracy", "Accuracy, corrupted", "%", MORE, 1, "accuracy by `corruption` and `severity`; "
            "`none` is the images as they are, `all` and `mean` are means"),
    Measure("calibration_error", "Calibration error", "%", LESS, 1, "expected calibration error: distance of "
            "confidence and accuracy over 15 bins of confidence, by a softmax of logits. 0 is calibrated"),
    # Cost.
    Measure("training_time", "Training step", "ms", LESS, 1, "time of a step of training", main=True),
    Measure("inference_time", "Inference", "ms", LESS, 1, "time of a batch"),
    Measure("training_time_iqr", "Spread of training steps", "ms", LESS, 1, "interquartile range of its times",
            beside=True),
    Measure("inference_time_iqr", "Spread of inference", "ms", LESS, 1, "interquartile range of its times",
            beside=True),
    Measure("training_runs", "Timed steps", "count", NEITHER, 0, "times that training was timed", beside=True),
    Measure("inference_runs", "Timed batches", "count", NEITHER, 0, "times that inference was timed", beside=True),
    Measure("training_cpu_time", "CPU time of training", YARDSTICKS, LESS, 1, "CPU time of a step of training, in "
            "units of a small piece of work that is timed in turn with it"),
    Measure("inference_cpu_time", "CPU time of inference", YARDSTICKS, LESS, 1, "the same of a batch"),
    Measure("training_memory", "Memory", "bytes", LESS, 0, "peak memory of a step of training"),
    Measure("training_flops", "Arithmetic", "flop", LESS, 0, "floating-point operations of a step of training in "
            "matrix products and convolutions"),
    Measure("training_least_bytes", "Least traffic", "bytes", LESS, 0, "bytes that a step of training moves at least"),
    Measure("training_floor", "Least time", "ms", NEITHER, 1, "time that arithmetic or traffic of a step takes at "
            "least on this machine"),
    Measure("largest_batch", "Largest batch", "images", MORE, 0, "largest batch that fits the budget of memory"),
    Measure("largest_batch_tried", "Largest batch tried", "images", NEITHER, 0, "where the search ended"),
    Measure("peak_flops", "Arithmetic of the machine", "flop/s", MORE, None, "the fastest product of matrices on this "
            "machine", beside=True),
    Measure("bandwidth", "Bandwidth of the machine", "bytes/s", MORE, None, "the fastest copy on this machine",
            beside=True),
)  # fmt: skip
