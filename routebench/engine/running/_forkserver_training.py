"""Imported besides `forkserver` where cells train: torch imports some 900 modules when it makes its first optimiser."""

import torch

READY = torch.optim.Adam([torch.zeros(1)])
