import numpy as np
import pytest


@pytest.fixture
def fixed_rng():
    return np.random.default_rng(0)
