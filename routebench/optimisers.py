"""The optimizers that a recipe may name."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from routebench.recipe import Recipe


def make_optimiser(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer of all parameters; Adam and SGD on CUDA take a step in one kernel."""
    groups = _groups(network, recipe)
    common: dict[str, Any] = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
    if recipe.optimiser == "rmsprop":  # as Kosiorek et al. set it for stacked capsule autoencoders
        return TensorFlowRMSProp(groups, momentum=recipe.momentum, eps=0.01 / recipe.batch_size**2, **common)
    if _steps_in_one_kernel([*network.parameters()]):
        common["fused"] = True
    if recipe.optimiser in {"adam", "adamw"}:
        kind = torch.optim.Adam if recipe.optimiser == "adam" else torch.optim.AdamW
        return kind(groups, **common)
    return torch.optim.SGD(groups, momentum=recipe.momentum, **common)


def _groups(network: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """The parameters that decay, and those that do not."""
    kept = {name for name, one in network.named_parameters() if one.ndim < 2 or name.rpartition(".")[2] != "weight"}
    kept = kept if recipe.decayed == "weights" else set()
    decaying = [one for name, one in network.named_parameters() if name not in kept]
    others = [one for name, one in network.named_parameters() if name in kept]
    groups: list[dict[str, Any]] = [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


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


def _steps_in_one_kernel(parameters: Sequence[Tensor]) -> bool:
    """Tells whether the optimizer takes its fused step: on CUDA, where each small kernel costs its start."""
    return all(one.is_cuda and one.is_floating_point() for one in parameters)
