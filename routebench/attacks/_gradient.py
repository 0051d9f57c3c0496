"""Attacks within an L-infinity ball: foolbox's, of a loss of one's own."""

from collections.abc import Callable
from typing import Any

import eagerpy as ep
from foolbox.attacks import LinfAdditiveUniformNoiseAttack, LinfMomentumIterativeFastGradientMethod
from foolbox.attacks.gradient_descent_base import LinfBaseGradientDescent, normalize_lp_norms

from routebench.attacks._losses import AttackLoss
from routebench.attacks._victim import Victim


class _OwnLoss:
    """A part of foolbox's gradient attacks that gives the loss. Gradients that are not finite count as zero.

    Args:
        loss: the loss to climb; towards a target class, to descend.
        settings: the attack's settings.
    """

    def __init__(self, loss: AttackLoss, **settings: Any):
        super().__init__(**settings)
        self.loss = loss

    def get_loss_fn(self, model: Victim, labels: ep.Tensor) -> Callable[[ep.Tensor], ep.Tensor]:
        """The loss as foolbox asks for it."""
        return lambda inputs: ep.astensor(self.loss(model.output(inputs.raw), labels.raw))

    def value_and_grad(self, loss_fn: Callable[[ep.Tensor], ep.Tensor], x: ep.Tensor) -> tuple[ep.Tensor, ep.Tensor]:
        """The loss and its gradient."""
        value, gradient = ep.value_and_grad(loss_fn, x)
        return value, ep.astensor(gradient.raw.nan_to_num(nan=0.0))


class SignSteps(_OwnLoss, LinfBaseGradientDescent):  # type: ignore[misc]  # foolbox comes without types
    """FGSM (one step), BIM (several) and PGD (several, from a random start), which differ in nothing else."""


class Momentum(_OwnLoss, LinfMomentumIterativeFastGradientMethod):  # type: ignore[misc]
    """MI-FGSM of Dong et al., CVPR 2018, algorithm 1, with decay 1.

    Departure from foolbox, which adds up signs: gradients are divided by their L1 norm, as in the paper. Departure from
    the paper: `momentum` takes steps twice as long as its eps / steps, within the same ball.
    """

    def normalize(self, gradients: ep.Tensor, *, x: ep.Tensor, bounds: Any) -> ep.Tensor:
        """Line 6."""
        return normalize_lp_norms(gradients, p=1)


class UniformNoise(LinfAdditiveUniformNoiseAttack):  # type: ignore[misc]
    """Uniform noise whose largest element is eps: what any attack has to do better than.

    Departure from foolbox 3.3.4, which divides noise by its largest element instead of by the largest absolute value,
    so that it can leave the ball.
    """

    def get_epsilons(self, x: ep.Tensor, p: ep.Tensor, epsilon: float, min_: float, max_: float) -> ep.Tensor:
        """Factors that bring noise to size."""
        return ep.astensor(epsilon / p.raw.flatten(1).abs().amax(dim=1)[:, None, None, None])


def fgsm(loss: AttackLoss, steps: int = 1) -> SignSteps:  # noqa: ARG001  # one step, whatever others take
    """`x + eps sign(gradient)` (Goodfellow, Shlens and Szegedy, ICLR 2015).

    Args:
        loss: the loss to climb; towards a target class, to descend.
        steps: ignored, as this attack makes one step.
    """
    return SignSteps(loss, rel_stepsize=1.0, steps=1, random_start=False)


def bim(loss: AttackLoss, steps: int) -> SignSteps:
    """Steps of 2 eps / steps, or eps for a single one, clipped to the ball (Kurakin et al. 2017; foolbox: 0.2, 10).

    Args:
        loss: the loss to climb; towards a target class, to descend.
        steps: number of steps.
    """
    return SignSteps(loss, rel_stepsize=min(1.0, 2 / steps), steps=steps, random_start=False)


def pgd(loss: AttackLoss, steps: int) -> SignSteps:
    """Steps of 2.5 eps / steps from a random point of the ball (Madry et al., ICLR 2018).

    Args:
        loss: the loss to climb; towards a target class, to descend.
        steps: number of steps.
    """
    return SignSteps(loss, rel_stepsize=min(1.0, 2.5 / steps), steps=steps, random_start=True)


def momentum(loss: AttackLoss, steps: int) -> Momentum:
    """Steps of 2 eps / steps along the sign of a running sum of gradients; Dong et al. take eps / steps.

    Args:
        loss: the loss to climb; towards a target class, to descend.
        steps: number of steps.
    """
    return Momentum(loss, rel_stepsize=min(1.0, 2 / steps), steps=steps)


GRADIENT: dict[str, Callable[[AttackLoss, int], Any]] = {"fgsm": fgsm, "bim": bim, "pgd": pgd, "momentum": momentum}
"""Name to what makes the attack from a loss and a number of steps."""
