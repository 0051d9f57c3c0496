"""Networks of one seed start alike, whatever the routing, as far as their parameters have the same shapes."""

import pytest
import torch

from routebench.models import build
from routebench.registry import routing


@pytest.mark.parametrize("method", sorted(routing))
def test_convolutions_of_one_seed_start_alike(method):
    started = []
    for name in (method, "dynamic"):
        torch.manual_seed(3)
        network = build("capsnet-small", shape=(1, 28, 28), classes=10, method=name)
        started.append({key: value for key, value in network.named_parameters() if not key.startswith("layers.")})
    assert len(started[1]) >= 4 and started[1].keys() <= started[0].keys()  # some have a linear readout besides
    assert all(torch.equal(started[0][key], value) for key, value in started[1].items())
