"""Data made of tokens: parts that share one store, masks, fingerprints, and what is refused."""

import pytest
import torch

from routebench.data import Dataset, Images, Tokens, fingerprint, load
from routebench.errors import UserError

CPU = torch.device("cpu")


def tokens(count: int = 30, *, kind: torch.dtype = torch.float32, masked: bool = False, seed: int = 0) -> Tokens:
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(count, 5, 3, generator=draw).to(kind)
    mask = torch.rand(count, 5, generator=draw) < 0.6
    mask[:, 0] = True
    return Tokens(values, torch.arange(count) % 3, mask if masked else None)


@pytest.mark.parametrize("masked", [False, True])
def test_parts_share_their_store_and_give_their_own_items(masked):
    whole = tokens(masked=masked)
    chosen = torch.tensor([7, 3, 3, 29])
    some = whole.at(chosen).at(torch.tensor([3, 0]))
    assert some.values is whole.values and some.labels.tolist() == [2, 1]
    for ours, theirs in zip(some.inputs(slice(0, 2), CPU), whole.inputs(torch.tensor([29, 7]), CPU), strict=True):
        assert torch.equal(ours, theirs)
    both = whole.at(chosen).joined(whole.at(torch.tensor([1])))
    assert both.values is whole.values and both.labels.tolist() == [1, 0, 0, 2, 1]


def test_items_of_two_stores_are_joined():
    plain, masked = tokens(4), tokens(3, masked=True, seed=1)
    both = plain.joined(masked)
    assert len(both) == 7 and both.mask is not None and bool(both.mask[:4].all())
    values, mask = both.inputs(slice(4, 7), CPU)
    expected, expected_mask = masked.inputs(slice(None), CPU)
    assert torch.equal(values, expected) and torch.equal(mask, expected_mask)


@pytest.mark.parametrize("filled", [0.0, 1e4, float("nan"), float("inf")])
def test_what_stands_where_there_is_no_token_changes_nothing(filled):
    given = tokens(masked=True)
    assert given.mask is not None
    other = Tokens(given.values.masked_fill(~given.mask[..., None], filled), given.labels, given.mask)
    assert fingerprint(other) == fingerprint(given)
    assert torch.equal(other.inputs(slice(None), CPU)[0], given.inputs(slice(None), CPU)[0])
    assert list(other.each()) == list(given.each())


def test_a_fingerprint_tells_types_masks_labels_and_order_apart():
    given = tokens()
    others = [
        tokens(kind=torch.float16),
        Tokens(given.values, given.labels, torch.ones(30, 5, dtype=torch.bool)),
        Tokens(given.values, given.labels.flip(0)),
        given.at(torch.arange(30).flip(0)),
        Tokens(given.values.reshape(30, 3, 5), given.labels),
    ]
    assert len({fingerprint(one) for one in [given, *others]}) == 6
    assert fingerprint(given.at(torch.arange(30))) == fingerprint(given)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"values": torch.zeros(30, 5, 3).double()}, r"float16 or float32 \(n, tokens, numbers\), got float64"),
        ({"values": torch.zeros(30, 5)}, r"got float32 \(30, 5\)"),
        ({"values": torch.zeros(30, 0, 3)}, "at least one item of one token"),
        ({"labels": torch.arange(29)}, r"labels as int64 \(30,\), one per item.*got int64 \(29,\)"),
        ({"labels": torch.zeros(30)}, "got float32"),
        ({"mask": torch.ones(30, 4, dtype=torch.bool)}, r"mask as bool \(30, 5\).*got bool \(30, 4\)"),
        ({"mask": torch.ones(30, 5)}, "got float32"),
        ({"mask": torch.arange(30)[:, None].expand(30, 5) != 4}, "leaves each item a token, got none for item 4"),
    ],
)
def test_wrong_shapes_and_types_are_refused(changed, expected):
    given = tokens()
    with pytest.raises(UserError, match=expected):
        Tokens(**{"values": given.values, "labels": given.labels, **changed})


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_named_unless_it_is_masked(wrong):
    values, mask = torch.zeros(30, 5, 3), torch.ones(30, 5, dtype=torch.bool)
    values[7, 2, 1] = wrong
    with pytest.raises(UserError, match="token 2 of item 7"):
        Tokens(values, torch.zeros(30).long())
    mask[7, 2] = False
    assert bool(Tokens(values, torch.zeros(30).long(), mask).inputs(slice(None), CPU)[0].isfinite().all())


def test_a_data_set_is_of_one_kind():
    images = Images(torch.zeros(6, 1, 2, 2, dtype=torch.uint8), torch.arange(6) % 3)
    with pytest.raises(UserError, match="parts of one kind, got Images beside Tokens"):
        Dataset.of("x", tuple("abc"), tokens(), images, "here")


def test_items_of_several_classes_keep_those_of_one():
    given = tokens(3)
    several = Tokens(given.values, torch.tensor([[True, False], [True, True], [False, True]]))
    alone = several.with_one_label()
    assert alone.labels.tolist() == [0, 1]
    assert torch.equal(alone.inputs(slice(None), CPU)[0], given.inputs(torch.tensor([0, 2]), CPU)[0])


@pytest.mark.parametrize(
    ("name", "sizes", "pairs"),
    [("token-pairs", (3_600, 400, 1_000), (3, 5)), ("token-pairs-longer", (3_600, 400, 1_000), (6, 8))],
)
def test_the_answer_of_token_pairs_is_the_class_whose_tokens_agree(name, sizes, pairs):
    data = load(name)
    assert tuple(map(len, (data.train, data.held_out, data.test))) == sizes
    values, mask = data.test.inputs(slice(None), CPU)
    blocks = values.unflatten(2, (10, 8))
    owners = blocks.square().sum(dim=3).argmax(dim=2).masked_fill(~mask, -1)
    counts = torch.stack([(owners == number).sum(dim=1) for number in range(10)], dim=1)
    assert set(counts.unique().tolist()) == {0, 2}
    assert {int(number) for number in mask.sum(dim=1).unique() // 2} == set(range(pairs[0], pairs[1] + 1))
    alike = []
    for number in range(10):
        both = blocks[:, :, number] * (owners == number)[..., None]
        alike.append(both.sum(dim=1).norm(dim=1) ** 2 - both.square().sum(dim=(1, 2)))  # twice the inner product
    agreeing = torch.stack(alike, dim=1).masked_fill(counts == 0, -torch.inf).argmax(dim=1)
    assert float((agreeing == data.test.labels).double().mean()) > 0.9


def test_a_loader_of_elsewhere_cannot_say_what_stands_for_its_numbers():
    """Else results of other numbers would count as those of the same data set."""

    def made(number):
        part = Tokens(torch.full((20, 2, 3), number), torch.arange(20) % 2, origin="mine")
        return Dataset.of("mine", ("a", "b"), part, part, "here").looked_at("mine")

    assert made(1.0).fingerprint != made(2.0).fingerprint and made(1.0).fingerprint == made(1.0).fingerprint
    assert not made(1.0).train.origin
