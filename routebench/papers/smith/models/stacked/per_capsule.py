"""Small networks, one per capsule."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn


class PerCapsuleMLP(nn.Module):
    """One multilayer perceptron per capsule, with ReLU between its layers.

    Weights start as truncated normal numbers with variance 1 / inputs, and biases as zeros.

    Args:
        capsules: how many there are.
        widths: widths of the input, of every hidden layer, and of the output.
        last_bias: whether the last layer has biases.
    """

    def __init__(self, capsules: int, widths: tuple[int, ...], *, last_bias: bool = True):
        super().__init__()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for below, above in pairwise(widths):
            weights = torch.empty(capsules, below, above)
            self.weights.append(nn.init.trunc_normal_(weights, std=below**-0.5, a=-2 * below**-0.5, b=2 * below**-0.5))
        for above in widths[1:] if last_bias else widths[1:-1]:
            self.biases.append(torch.zeros(capsules, 1, above))

    def forward(self, inputs: Float[Tensor, "batch capsule below"]) -> Float[Tensor, "batch capsule above"]:
        """Applies each capsule's network to its own row."""
        values = inputs.transpose(0, 1)  # capsule b below
        for layer, weights in enumerate(self.weights):
            values = values.relu() if layer else values
            known = layer < len(self.biases)
            values = torch.baddbmm(self.biases[layer], values, weights) if known else torch.bmm(values, weights)
        return values.transpose(0, 1)
