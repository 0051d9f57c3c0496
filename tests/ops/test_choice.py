"""The best few of each row: how many, and which of equal ones."""

import torch

from routebench.ops import highest


def test_the_highest_of_each_row_are_taken():
    scores = torch.tensor([[0.1, 0.9, 0.5], [3.0, -1.0, 2.0]])
    assert highest(scores, 2).tolist() == [[False, True, True], [True, False, True]]


def test_of_equal_scores_the_first_are_taken():
    scores = torch.tensor([0.5, 0.2, 0.5, 0.5, 0.2])
    assert highest(scores, 2).tolist() == [True, False, True, False, False]
    assert highest(torch.zeros(1000), 400).nonzero().flatten().tolist() == list(range(400))


def test_each_row_can_have_a_number_of_its_own():
    scores = torch.arange(4.0).expand(3, 2, 4)
    taken = highest(scores, torch.tensor([0, 1, 3])[:, None, None])
    assert taken.sum(dim=-1).tolist() == [[0, 0], [1, 1], [3, 3]]
    assert taken[1, 0].tolist() == [False, False, False, True]


def test_more_than_there_are_is_all_of_them():
    assert highest(torch.tensor([-torch.inf, 0.0]), 5).tolist() == [True, True]


def test_what_has_no_score_comes_last():
    assert highest(torch.tensor([-torch.inf, -1e38, 0.0]), 2).tolist() == [False, True, True]
