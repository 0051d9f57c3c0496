"""Optimizers, which recipes name. `register` is the decorator of the registry.

A function makes one of groups of parameters, which may have a `weight_decay` of their own, and the recipe. What it
takes after a `*` are its hyperparameters:

>>> from routebench import optimizers
>>> @optimizers.register("nadam")  # doctest: +SKIP
... def nadam(groups, recipe, *, momentum_decay: float = 4e-3):
...     return torch.optim.NAdam(groups, lr=recipe.learning_rate, momentum_decay=momentum_decay)
"""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from routebench.errors import UserError
from routebench.notation import registered
from routebench.recipe import Recipe
from routebench.registry import optimizers as registry

register = registry.register
Groups = list[dict[str, Any]]
"""Groups of parameters, as torch's optimizers take them."""


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer of all parameters.

    Args:
        network: the network that is trained.
        recipe: the settings of the training run.

    Raises:
        UserError: what is registered makes none, or one that lacks trained parameters of the network, cannot step by
            gradients alone, or has no weight decay where the recipe asks for it.
    """
    made = registered(registry, recipe.optimiser)(_groups(network, recipe), recipe)
    if not isinstance(made, torch.optim.Optimizer):
        raise UserError(f"optimizer {recipe.optimiser!r}: expected a torch.optim.Optimizer, got {made!r:.80}")
    held = {id(one) for group in made.param_groups for one in group["params"]}
    named = {name: one for name, one in network.named_parameters() if one.requires_grad}
    if missing := [name for name, one in named.items() if id(one) not in held]:
        raise UserError(
            f"optimizer {recipe.optimiser!r}: expected all {len(named)} parameters of the network, got "
            f"{len(named) - len(missing)}, without {missing[0]!r}; give it every group"
        )
    arguments = inspect.signature(made.step).parameters.values()
    if needed := [one.name for one in arguments if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]:
        raise UserError(
            f"optimizer {recipe.optimiser!r}: expected a step that needs no argument, got one that needs "
            f"{needed[0]!r}; choose another"
        )
    if recipe.weight_decay and any("weight_decay" not in group for group in made.param_groups):
        raise UserError(
            f"optimizer {recipe.optimiser!r}: it takes no weight_decay, and the recipe asks for "
            f"{recipe.weight_decay:g}; set it to 0, or choose another"
        )
    return made


def _groups(network: nn.Module, recipe: Recipe) -> Groups:
    """The parameters that decay, and those that do not."""
    kept = {name for name, one in network.named_parameters() if one.ndim < 2 or name.rpartition(".")[2] != "weight"}
    kept = kept if recipe.decayed == "weights" else set()
    decaying = [one for name, one in network.named_parameters() if name not in kept]
    others = [one for name, one in network.named_parameters() if name in kept]
    groups: Groups = [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


@register("adam")
def adam(groups: Groups, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam; weight decay is added to the gradient.

    As torch has it, which adds eps of 1e-8 after the correction of the second moment, as algorithm 1 of Kingma and Ba
    does. The codes of Sabour et al. and Hinton et al. have TensorFlow 1's, which adds it before: there a gradient of
    1e-6 moves a weight 0.94 times as far in 50 steps, and one of 1e-7 0.64 times.

    Args:
        groups: groups of parameters.
        recipe: with `learning_rate` and `weight_decay`.
    """
    return torch.optim.Adam(groups, **_common(groups, recipe))


@register("adamw")
def adamw(groups: Groups, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, whose weight decay is apart from the gradient (Loshchilov and Hutter, ICLR 2019).

    As torch has it, a step takes the rate times `weight_decay` of a weight; the paper's takes its decay times the
    schedule alone.

    Args:
        groups: groups of parameters.
        recipe: with `learning_rate` and `weight_decay`.
    """
    return torch.optim.AdamW(groups, **_common(groups, recipe))


@register("sgd")
def sgd(groups: Groups, recipe: Recipe) -> torch.optim.Optimizer:
    """Stochastic gradient descent with the recipe's momentum.

    Args:
        groups: groups of parameters.
        recipe: with `learning_rate`, `momentum` and `weight_decay`.
    """
    return torch.optim.SGD(groups, momentum=recipe.momentum, **_common(groups, recipe))


@register("rmsprop", version=2)
def rmsprop(groups: Groups, recipe: Recipe) -> torch.optim.Optimizer:
    """RMSProp as TensorFlow 1 has it, with the recipe's momentum and an eps of 0.01 / batch size^2.

    Source: Kosiorek et al., NeurIPS 2019, who set it so for stacked capsule autoencoders.

    Args:
        groups: groups of parameters.
        recipe: with `learning_rate`, `momentum`, `weight_decay` and `batch_size`.
    """
    return TensorFlowRMSProp(
        groups, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, momentum=recipe.momentum,
        eps=0.01 / recipe.batch_size**2,
    )  # fmt: skip


def _common(groups: Groups, recipe: Recipe) -> dict[str, Any]:
    """Arguments of torch's optimizers."""
    fused = _steps_in_one_kernel([one for group in groups for one in group["params"]])
    return {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay, **({"fused": True} if fused else {})}


def _steps_in_one_kernel(parameters: Sequence[Tensor]) -> bool:
    """Tells whether the optimizer takes its fused step: on CUDA, where each small kernel costs its start."""
    return all(one.is_cuda and one.is_floating_point() for one in parameters)


class TensorFlowRMSProp(torch.optim.Optimizer):
    """RMSProp as TensorFlow 1 has it: means of squares start at 1, and eps is added under the root.

    Steps of gradient g: s <- decay s + (1 - decay) g^2; m <- momentum m + rate g / sqrt(s + eps); w <- w - m. A first
    step is about the rate times the gradient; torch's, whose s starts at 0, is three times the rate for any gradient.

    Args:
        params: parameters, or groups of them.
        lr: the rate.
        momentum, eps, weight_decay: as for torch's optimizers; weight decay is added to the gradient.
        decay: the share of the mean of squares that a step keeps.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        momentum: float,
        eps: float,
        decay: float = 0.9,
        weight_decay: float = 0.0,
    ):
        known = {"lr": lr, "momentum": momentum, "eps": eps, "decay": decay, "weight_decay": weight_decay}
        super().__init__(params, known)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is called
        """Moves every parameter that has a gradient."""
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is None:
                    continue
                if not self.state[one]:
                    self.state[one] = {"square": torch.ones_like(one), "momentum": torch.zeros_like(one)}
                square, speed = self.state[one]["square"], self.state[one]["momentum"]
                gradient = one.grad.add(one, alpha=group["weight_decay"])
                square.mul_(group["decay"]).addcmul_(gradient, gradient, value=1 - group["decay"])
                speed.mul_(group["momentum"]).addcdiv_(gradient, square.add(group["eps"]).sqrt(), value=group["lr"])
                one.sub_(speed)
