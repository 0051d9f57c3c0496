"""Children that are not there: whatever stands in their place, and however many they are, they change nothing."""

import pytest
import torch
from torch import nn

from routebench import kernels
from routebench.capsules import Capsules, Votes
from routebench.capsules.layers import ConvCapsules, DenseCapsules
from routebench.capsules.schedules import SCHEDULES
from routebench.models import build
from routebench.ops import ABSENT, AXES, Competition
from routebench.registry import routing
from routebench.routing import RoutingLayer, factory

WITHOUT = {"divide-and-conquer"}
"""Methods that cannot leave children out, for a mathematical reason that their pages say."""
STEADY = {"mesh": {"noise": 0.0}}
"""Settings of methods that draw numbers for each child in training: for more children, they draw others."""
SHORT, LONG, NUMBERS, CLASSES = 9, 13, 12, 4


def masked(method: str, **options):
    """Two networks of the same weights, for nine and for thirteen tokens, and what they are given."""
    torch.manual_seed(0)
    few, many = (
        build(
            "token-capsules", shape=(tokens, NUMBERS), classes=CLASSES, method=method, method_params=options, types=2
        ).double()
        for tokens in (SHORT, LONG)
    )
    with torch.no_grad():
        for value in few.parameters():  # some start at zero, and would hide what they weigh
            value.add_(0.1 * torch.randn_like(value))
    copied(few, many)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randn(6, SHORT, NUMBERS, generator=draw, dtype=torch.float64)
    mask = torch.rand(6, SHORT, generator=draw) < 0.7
    mask[:, 0] = True
    return few, many, tokens, mask


@torch.no_grad()
def copied(few: nn.Module, many: nn.Module) -> None:
    """Gives the larger network the weights of the smaller one; what it has for further children stays as it is."""
    theirs = dict(many.named_parameters()) | dict(many.named_buffers())
    for name, value in [*few.named_parameters(), *few.named_buffers()]:
        theirs[name][tuple(slice(size) for size in value.shape)] = value


def answer(network: nn.Module, tokens, mask, like=None):
    """Logits, and the gradients of a fixed sum of them."""
    torch.manual_seed(2)
    tokens = tokens.clone().requires_grad_()
    logits = network(tokens, mask).logits
    weights = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)
    wanted = {name: value for name, value in network.named_parameters() if value.requires_grad}
    gradients = torch.autograd.grad((logits * weights).sum(), [tokens, *wanted.values()], allow_unused=True)
    named = dict(zip(["tokens", *wanted], gradients, strict=True))
    return logits.detach(), {name: value for name, value in named.items() if value is not None}


@pytest.mark.parametrize("filled", [float("nan"), 1e30, -float("inf")])
@pytest.mark.parametrize("method", sorted(set(routing) - WITHOUT))
@pytest.mark.parametrize("training", [False, True])
def test_padding_changes_neither_logits_nor_gradients(method, filled, training):
    few, many, tokens, mask = masked(method, **STEADY.get(method, {}))
    few.train(training), many.train(training)
    padded = torch.full((6, LONG, NUMBERS), filled, dtype=torch.float64)
    longer = torch.zeros(6, LONG, dtype=torch.bool)
    longer[:, :SHORT] = mask
    padded[:, :SHORT] = tokens
    padded[~longer] = filled
    expected, of_few = answer(few, tokens, mask)
    found, of_many = answer(many, padded, longer)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert bool((of_many["tokens"][~longer] == 0).all())
    for name, gradient in of_few.items():
        corner = of_many[name][tuple(slice(size) for size in gradient.shape)]
        assert torch.allclose(corner, gradient, rtol=1e-7, atol=1e-10), name


@pytest.mark.parametrize("method", sorted(set(routing) - WITHOUT))
def test_a_mask_is_as_leaving_the_children_out(method):
    """For methods without weights of their own for each child, and without batch statistics of them."""
    few, many, tokens, _ = masked(method)
    longer = torch.zeros(6, LONG, dtype=torch.bool)
    longer[:, :SHORT] = True
    padded = torch.cat([tokens, torch.full((6, LONG - SHORT, NUMBERS), torch.nan, dtype=torch.float64)], dim=1)
    expected, _ = answer(few.eval(), tokens, None)
    found, _ = answer(many.eval(), padded, longer)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", sorted(WITHOUT))
def test_methods_that_cannot_leave_children_out_say_so(method):
    few, _, tokens, mask = masked(method)
    with pytest.raises(ValueError, match="without a mask, got one, and DivideAndConquerRouting does not claim PADDING"):
        few(tokens, mask)
    assert few(tokens).logits.shape == (6, CLASSES)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("em", {"mass_normalisation": "ratio"}),
        ("em", {"misfit": "votes", "activation": "mixing"}),
        ("dynamic", {"competition": "children"}),
        ("dynamic", {"leaky": True}),
        ("inverted-attention", {"activations": True}),
        ("inverted-attention", {"competition": "children"}),
        ("slot-attention", {"sinkhorn": 3}),
        ("slot-attention", {"aggregation": "sum"}),
        ("mesh", {"detach": False}),
        ("heinsen", {"presence": "activations"}),
        ("heinsen", {"competition": "children"}),
        ("self-attention", {"prior": False}),
        ("self-routing", {"pose_norm": False}),
        ("expert-choice", {"capacity": 0.5}),
        ("sinkhorn-token-choice", {"weight": "plan", "parents_per_child": 2}),
        ("variational-bayes", {"covariance": "full"}),
        ("wang-liu", {"competition": "children"}),
    ],
)
def test_padding_changes_nothing_with_options(method, options):
    few, many, tokens, mask = masked(method, **options)
    padded = torch.full((6, LONG, NUMBERS), torch.nan, dtype=torch.float64)
    padded[:, :SHORT] = tokens
    longer = torch.zeros(6, LONG, dtype=torch.bool)
    longer[:, :SHORT] = mask
    expected, found = answer(few.eval(), tokens, mask)[0], answer(many.eval(), padded, longer)[0]
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(answer(few, tokens, None)[0], expected), "the mask has an effect"


@pytest.mark.parametrize("backend", ["fused", "triton"])
@pytest.mark.parametrize("method", ["dynamic", "em", "inverted-attention", "slot-attention", "variational-bayes"])
def test_every_kernel_respects_masks(method, backend):
    if obstacle := kernels.unavailable(backend, torch.device("cpu")):
        pytest.skip(obstacle)
    few, _, tokens, mask = masked(method)
    few, tokens = few.float().eval(), tokens.float()
    with kernels.using("reference"):
        expected, of_reference = answer(few, tokens, mask)
    with kernels.using(backend):
        found, of_kernel = answer(few, tokens, mask)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
    for name, gradient in of_reference.items():
        scale = float(gradient.abs().max()) + 1e-6
        assert float((of_kernel[name] - gradient).abs().max()) < 1e-3 * scale, name


@pytest.mark.parametrize("backend", ["reference", "fused", "triton"])
@pytest.mark.parametrize("method", sorted(set(routing) - WITHOUT))
def test_an_item_without_children_has_parents_of_zero_and_no_gradient(method, backend):
    if obstacle := kernels.unavailable(backend, torch.device("cpu")):
        pytest.skip(obstacle)
    layer = RoutingLayer(method, SHORT, CLASSES, NUMBERS, 8, **STEADY.get(method, {}))
    mask = torch.arange(SHORT) < torch.tensor([[9], [0], [4], [1]])
    poses, present = torch.randn(4, SHORT, NUMBERS), torch.rand(4, SHORT)
    poses[1, :3], present[1, :3] = torch.tensor([torch.nan, torch.inf, 1e30])[:, None], torch.nan
    poses.requires_grad_(), present.requires_grad_()
    wanted = [poses, present, *(one for one in layer.parameters() if one.requires_grad)]
    for training in (True, False):
        layer.train(training)
        with kernels.using(backend):
            found = layer.capsules(poses, mask, activations=present)
            values = [one for one in (found.poses, found.activations, found.logits) if one is not None]
            assert all(bool(one.isfinite().all()) for one in values)
            assert not found.poses[1].any() and not found.activations[1].any()
            assert found.logits is None or bool((found.logits[1] == ABSENT).all())
            of_all = torch.autograd.grad(
                sum(one.square().sum() for one in values), wanted, allow_unused=True, retain_graph=True
            )
            of_it = torch.autograd.grad(sum(one[1].sum() for one in values), wanted, allow_unused=True)
        assert all(one is None or bool(one.isfinite().all()) for one in of_all)
        assert all(one is None or not one.any() for one in of_it)
        assert not of_all[0][1].any() and of_all[0][0].any()
    others = [0, 2, 3]
    with kernels.using(backend):
        alone = layer.capsules(poses[others], mask[others], activations=present[others])
    assert torch.allclose(found.poses[others], alone.poses, rtol=1e-4, atol=1e-5)
    assert torch.allclose(found.activations[others], alone.activations, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_an_item_without_children_rests_at_zero_in_every_schedule(schedule):
    layers = [
        DenseCapsules(*sizes, factory("inverted-attention", iterations=4)) for sizes in ((6, 5, 8, 8), (5, 3, 8, 8))
    ]
    mask = torch.arange(6) < torch.tensor([[6], [0]])
    poses = torch.randn(2, 6, 8).masked_fill(~mask[..., None], torch.nan).requires_grad_()
    _, first, last = SCHEDULES[schedule](layers, Capsules(poses, mask=mask))
    assert not first.poses[1].any() and not first.activations[1].any() and first.poses[0].any()
    (gradient,) = torch.autograd.grad(last.poses.square().sum(), poses)
    assert bool(gradient.isfinite().all()) and gradient[0].any() and not gradient[1].any()


@pytest.mark.parametrize("axis", AXES)
def test_children_that_are_not_there_get_no_coupling(axis):
    present = torch.tensor([[True, False, True], [True, True, True]])
    competition = Competition(axis, present=present)
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    coupling = competition.couple(logits)
    assert bool((coupling[0, 1] == 0).all())
    if axis == "children":
        assert torch.allclose(coupling.sum(dim=1), torch.ones(2, 4))
        alone = Competition(axis).couple(logits[:1, [0, 2]])
        assert torch.allclose(coupling[:1, [0, 2]], alone)
    share = competition.uniform(logits, 4)
    expected = {"children": [0.5, 0, 0.5], "none": [1, 0, 1]}.get(axis, [0.25, 0, 0.25])
    assert torch.allclose(share[0], torch.tensor(expected, dtype=torch.float32))


def test_a_batch_that_is_worked_on_in_tiles_respects_each_images_mask(monkeypatch):
    from routebench.kernels import reference

    draw = torch.Generator().manual_seed(0)
    poses, weight = torch.randn(5, 6, 3, generator=draw), torch.randn(6, 4, 3, 8, generator=draw)
    present = torch.rand(5, 6, generator=draw) < 0.6
    present[:, 0] = True
    query = torch.randn(5, 4, 8, generator=draw)
    sums = {}
    for tile in (1, 1 << 22):
        monkeypatch.setattr(reference, "TILE", tile)
        for axis in ("types", "children"):
            with kernels.using("reference"):
                made = Votes(poses, weight, Competition(axis, present=present)).sweep(query, moments=2)
            sums.setdefault(axis, []).append(made)
    for one, other in sums.values():
        assert all(torch.allclose(ours, theirs, atol=1e-5) for ours, theirs in zip(one, other, strict=True))


def test_masks_of_a_wrong_shape_or_in_a_convolution_are_refused():
    poses = torch.randn(2, 4, 4, 3, 8)
    with pytest.raises(ValueError, match=r"mask as bool \(2, 4, 4, 3\)"):
        Capsules(poses, mask=torch.ones(2, 4, 4, 3))
    mask = torch.ones(2, 4, 4, 3, dtype=torch.bool)
    layer = ConvCapsules((4, 4, 3), 2, 8, 8, factory("uniform"))
    with pytest.raises(ValueError, match="expected a dense layer for capsules with a mask"):
        layer(Capsules(poses, mask=mask))
    dense = DenseCapsules((4, 4, 3), 2, 8, 8, factory("uniform"))
    assert torch.allclose(dense(Capsules(poses, mask=mask)).poses, dense(Capsules(poses)).poses, atol=1e-6)
