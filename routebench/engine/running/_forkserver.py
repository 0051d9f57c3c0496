"""Imports of the process that workers are forked from, so that each worker starts at once.

It imports everything that a worker needs, and reads routebench's code, which every plan hashes. It starts no thread,
because none survives a fork. Analyses, which runs do not need, take as long to import as torch; only plug-ins with
analyses import them.
"""

import gc
import os

# torch.utils.cpp_extension asks for GPUs at import. If CUDA itself answers, no process that is forked later can use it.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

from routebench import terminal
from routebench.engine.origin import code_of
from routebench.engine.running import _processes as workers
from routebench.registry import EVERY, leave_out_environment

leave_out_environment()  # no plug-in runs in the process that all others come from
NEEDED = [kind for kind in EVERY if kind != "analyses"]
terminal.prepare()
READY = workers.__name__, [len(EVERY[kind]) for kind in NEEDED]  # looks into the registries, which fills them
code_of("routebench.training", *(f"routebench.{kind}" for kind in ("models", "protocols", "routing")))  # for all plans
gc.freeze()  # no worker searches what is imported for garbage
