"""The index of agreement is that of scikit-learn."""

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score

from routebench.measures import adjusted_rand_index


def test_the_index_is_that_of_scikit_learn():
    random = np.random.RandomState(0)
    found, true = random.randint(0, 4, (30, 12)), random.randint(-2, 3, (30, 12))
    true[:, :3] = [0, 1, 2]
    expected = [adjusted_rand_score(b[b >= 0], a[b >= 0]) for a, b in zip(found, true, strict=True)]
    found, true = torch.from_numpy(found), torch.from_numpy(true)
    np.testing.assert_allclose(adjusted_rand_index(found, true, true >= 0), expected, atol=1e-12)


def test_the_same_groups_under_other_names_agree_and_all_in_one_do_not():
    true = torch.tensor([[0, 0, 1, 1, 2, 2]])
    counted = torch.ones_like(true, dtype=torch.bool)
    assert adjusted_rand_index(7 - true, true, counted).item() == 1
    assert adjusted_rand_index(torch.zeros_like(true), true, counted).item() == 0
