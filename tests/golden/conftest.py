"""What golden tests get: they copy and drop large networks, and page faults took a third of their time."""

import pytest
import torch

from routebench.engine.running._config import keep_freed_memory


@pytest.fixture(scope="module", autouse=True)
def quick_memory():
    """Freed memory is kept, and new memory is not filled."""
    keep_freed_memory()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False
    yield
    torch.utils.deterministic.fill_uninitialized_memory = filled
