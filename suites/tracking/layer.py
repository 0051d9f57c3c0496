"""Time and memory of one routed layer, for every registered routing method, in plain torch and by kernels."""

import contextlib
import time

import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import factory


class Layer:
    """The class capsules of CapsNet: 1,152 children with poses of 8, 10 parents with poses of 16, in float32.

    One thread, because times on shared cores vary less with one.
    """

    params = (sorted(routing), ("reference", "auto"))
    param_names = ("method", "backend")
    batch = 8

    def setup(self, method: str, backend: str) -> None:
        """Children and weights, the same in every run; a first pass, which may compile, is not timed."""
        if method not in routing:
            raise NotImplementedError  # asv's word for "does not apply", here to a commit before the method existed
        with contextlib.suppress(ImportError):  # a commit before there were back ends is plain torch in both
            from routebench import kernels

            kernels.use(backend)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.layer = DenseCapsules((6, 6, 32), 10, 8, 16, factory(method), weight_std=0.1)
        poses = squash(torch.randn(self.batch, 6 * 6 * 32, 8)).requires_grad_()
        self.children = Capsules(poses, length(poses).detach())
        self.forward_and_backward()
        self.layer.zero_grad()

    def forward(self) -> None:
        """Inference, without a graph."""
        with torch.no_grad():
            self.layer(self.children)

    def forward_and_backward(self) -> None:
        """Gradients of the weights and of the children's poses."""
        parents = self.layer(self.children)
        torch.autograd.backward(parents.poses.square().sum() + parents.activations.sum())


class Time(Layer):
    """CPU time in seconds, the median of asv's samples. On one thread, other programs hardly change it."""

    timer = time.process_time

    def time_forward(self, method: str, backend: str) -> None:
        self.forward()

    def time_forward_and_backward(self, method: str, backend: str) -> None:
        self.forward_and_backward()


class Memory(Layer):
    """Peak resident memory in bytes: of the whole process, so that a few hundred MB of it are torch."""

    batch = 64

    def peakmem_forward_and_backward(self, method: str, backend: str) -> None:
        self.forward_and_backward()
