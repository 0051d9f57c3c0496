"""Checks whether an adversarial accuracy can be believed: the checks, their thresholds, and their meaning.

A defence that only hides its gradient looks robust to attacks that follow the gradient. The checks are those of
Athalye, Carlini and Wagner (ICML 2018, section 3.1) and Carlini et al. (On evaluating adversarial robustness, 2019),
and the zero-gradient check of Hinton, Sabour and Frosst (ICLR 2018, section 6). Passing them proves nothing:
adversarial accuracy is an upper bound whatever they say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

POINTS = 5.0
"""Points of accuracy from which a difference between two attacks counts."""


@dataclass(frozen=True)
class Check:
    """One reason to doubt a number.

    Args:
        question: a question to which a yes makes the number suspect.
        limit: the value beyond which the answer is yes.
        unit: unit of value and limit.
        below: whether the answer is yes below the limit instead of above it.
        serious: whether a yes makes the worst case over all attacks suspect; else it only says that some one attack
            cannot stand alone.
        short: what is wrong, in a few words.
    """

    question: str
    limit: float
    unit: str
    short: str
    below: bool = False
    serious: bool = True

    def fires(self, value: float) -> bool:
        """Tells whether a value makes the number suspect."""
        return value < self.limit if self.below else value > self.limit


CHECKS: Mapping[str, Check] = {
    "zero-gradients": Check(
        "Is the input gradient exactly zero, whatever loss is attacked? Images, for the best loss",
        POINTS, "%", "gradients are zero",
    ),
    "broken-gradients": Check(
        "Is the input gradient not finite? Images, for the worst loss", 0.0, "%", "gradients are not finite"
    ),
    "stochastic": Check(
        "Does the network answer differently when asked again? Largest difference of logits",
        1e-4, "", "the network is random",
    ),
    "around-routing": Check(
        "Does a gradient that treats coupling as constant break images that withstand the one through the routing "
        "loop? Accuracy that it takes", POINTS, "points", "the gradient through the routing loop misleads",
    ),
    "black-box": Check(
        "Do images made for another network, noise, or attacks that see scores alone break what no white-box attack "
        "breaks? Accuracy they take",
        2.0, "points", "black box beats white box",
    ),
    "decision-based": Check(
        "Do attacks that see decisions only need a smaller change than those that see gradients? Median L2 distance, "
        "as a share", 0.9, "", "attacks without gradients come closer", below=True,
    ),
    "one-step": Check(
        "Does one step break images that many steps do not? Accuracy that it takes",
        POINTS, "points", "one step beats many",
    ),
    "more-steps": Check(
        "Do four times as many steps break more? Accuracy that they take", POINTS, "points", "attacks need more steps"
    ),
    "rises": Check(
        "Is an iterative attack weaker with a larger budget? Largest rise of accuracy from one eps to the next",
        POINTS, "points", "accuracy rises with eps",
    ),
    "reach": Check(
        "Do images survive where all can be turned to one grey, at eps 0.5? Worst-case accuracy above chance",
        0.0, "points", "images survive an unlimited attack",
    ),
    "left-ball": Check(
        "Did an attack return images outside its budget, or outside the range of pixels? Images",
        0.0, "%", "an attack left its budget",
    ),
    "own-word": Check(
        "Did an attack claim success that the stored images do not show? Images", POINTS, "%", "an attack overstates"
    ),
    "failed-attacks": Check("Did an attack give up with an error? Attacks", 0.0, "", "an attack gave up"),
    "training-loss": Check(
        "Would the training loss alone have shown a higher accuracy than the best loss? Accuracy it hides, by PGD",
        POINTS, "points", "the training loss alone misleads", serious=False,
    ),
    "small-gradients": Check(
        "Is the input gradient a hundredth of the CNN's or less? Ratio of means, difference of logits",
        0.01, "", "gradients are tiny", below=True, serious=False,
    ),
}  # fmt: skip
"""Checks by name, in the order in which they are shown."""


def suspicions(fired: Iterable[str]) -> list[str]:
    """The serious ones among checks that fired, in the order of `CHECKS`."""
    known = set(fired)
    return [name for name, check in CHECKS.items() if name in known and check.serious]
