"""Inference over class capsules against a plain transcription with every pose below and gradients by autograd."""

import pytest
import torch

from routebench.capsules.layers import DenseCapsules
from routebench.errors import UserError
from routebench.models import build
from routebench.ops import length, squash
from routebench.papers.kiefer.predictive_coding.forward import Forward, class_layer, forward_pass
from routebench.papers.kiefer.predictive_coding.inference import Rule, infer, lengths_at_rest, targets_for

RULES = [Rule(), Rule(l1=0.1), Rule(l2=0.5), Rule(l1=0.05, l2=0.3)]
BOTH = [*RULES, *(Rule(l1=rule.l1, l2=rule.l2, free="children") for rule in RULES)]


def network_of(method="none", model="capsnet-small", **params):
    torch.manual_seed(0)
    return build(model, shape=(1, 28, 28), classes=10, method=method, method_params=params).eval()


@pytest.fixture(scope="module")
def network():
    return network_of()


@pytest.fixture(scope="module")
def images():
    return torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(1))


def few(seed=0, batch=3, children=6, classes=4, pose_in=3, pose=5, scale=0.5):
    """Children, weights and targets of a small problem, and its forward pass by plain sums."""
    draws = torch.Generator().manual_seed(seed)
    below = squash(torch.randn(batch, children, pose_in, generator=draws, dtype=torch.float64))
    weight = scale * torch.randn(children, classes, pose_in, pose, generator=draws, dtype=torch.float64)
    flat = torch.stack([
        torch.stack([weight[i, j, k, m] for j in range(classes) for m in range(pose)])
        for i in range(children) for k in range(pose_in)
    ])  # fmt: skip
    forward = Forward(torch.einsum("bik,ijkm->bjm", below, weight), flat.T @ flat)
    labels = torch.arange(batch) % classes
    return below, weight, forward, torch.nn.functional.one_hot(labels, classes).double()


def plain_squash(sums):
    squared = (sums * sums).sum(-1, keepdim=True)
    return squared / (1 + squared) * sums / (squared + 1e-8).sqrt()


def smooth_energy(poses, below, start, weight, targets, rule):
    """One image's energy without L1: every vote is made, and every error written out."""
    votes = torch.einsum("ik,ijkm->ijm", below, weight)
    found = 0.5 * (below - start).square().sum()
    for j in range(weight.shape[1]):
        found = found + 0.5 * (poses[j] - plain_squash(votes[:, j].sum(0))).square().sum()
        found = found + 0.5 * rule.l2 * poses[j].square().sum()
        if targets is not None:
            found = found + 0.5 * (targets[j] - poses[j].norm()).square()
    return found


def transcribed(below, weight, targets, rule, steps):
    """Energies and class capsules of one image, by gradients of torch's and the group-lasso proximal step."""
    start, free = below, below.clone()
    poses = plain_squash(torch.einsum("ik,ijkm->jm", below, weight))
    energies = []
    for _ in range(steps + 1):
        poses, free = poses.detach().requires_grad_(), free.detach().requires_grad_()
        smooth = smooth_energy(poses, free, start, weight, targets, rule)
        energies.append(float(smooth.detach()) + rule.l1 * float(poses.detach().norm(dim=1).sum()))
        last, moved = poses.detach(), free.detach()
        to_poses, to_free = torch.autograd.grad(smooth, (poses, free))
        poses = poses - rule.step_size * to_poses
        lengths = poses.norm(dim=1, keepdim=True)
        poses = poses * (1 - rule.step_size * rule.l1 / lengths).clamp(min=0)
        if rule.free == "children":
            free = free - rule.step_size * to_free
    return torch.tensor(energies, dtype=torch.float64), last, moved


@pytest.mark.parametrize("rule", BOTH, ids=str)
@pytest.mark.parametrize("clamped", [True, False])
def test_iterates_and_energies_are_those_of_the_transcription(rule, clamped):
    below, weight, forward, targets = few()
    targets = targets if clamped else None
    rule = Rule(rule.l1, rule.l2, rule.free, steps=15, step_size=0.05)
    found = infer(forward, targets, rule)
    for image in range(3):
        own = None if targets is None else targets[image]
        energies, poses, free = transcribed(below[image], weight, own, rule, 15)
        assert torch.allclose(found.energies[:, image], energies, atol=1e-10)
        assert torch.allclose(found.poses[image], poses, atol=1e-10)
        moved = torch.einsum("jm,ijkm->ik", found.below[image].unflatten(0, (4, 5)), weight)
        assert torch.allclose(below[image] + moved, free, atol=1e-10)
    assert torch.equal(found.step_size, torch.full((3,), 0.05, dtype=torch.float64))  # no step was refused


@pytest.mark.parametrize("rule", BOTH, ids=str)
@pytest.mark.parametrize("kind", ["label", "predicted", "none"])
def test_energy_never_increases_in_a_network(network, images, rule, kind):
    forward = forward_pass(network, images)
    targets = targets_for(kind, forward.poses, torch.tensor([3, 1, 4, 1]))
    energies = infer(forward, targets, Rule(rule.l1, rule.l2, rule.free, steps=20, step_size=0.03)).energies
    assert (energies.diff(dim=0) <= 1e-12 * energies[:-1]).all()


def test_a_step_that_is_too_long_is_halved_and_energy_still_never_rises():
    _, _, forward, targets = few(scale=3.0)
    found = infer(forward, targets, Rule(free="children", step_size=4.0))
    assert (found.step_size < 4).all()
    assert (found.energies.diff(dim=0) <= 1e-12 * found.energies[:-1]).all()
    careful = infer(forward, targets, Rule(free="children", step_size=0.1, steps=700))
    assert torch.allclose(found.energies[-1], careful.energies[-1], atol=1e-3)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("clamped", [True, False])
def test_class_capsules_alone_end_where_the_formula_says(rule, clamped):
    _, _, forward, targets = few()
    targets = targets if clamped else None
    found = infer(forward, targets, Rule(rule.l1, rule.l2, steps=120, step_size=0.3))
    start = length(forward.poses)
    assert torch.allclose(length(found.poses), lengths_at_rest(start, targets, rule), atol=1e-10)
    assert (found.residual < 1e-8).all()
    turned = torch.nn.functional.cosine_similarity(found.poses, forward.poses, dim=-1)
    assert torch.allclose(turned[length(found.poses) > 0], torch.ones(()).double())


def test_without_targets_and_penalty_the_forward_pass_is_at_rest(network, images):
    forward = forward_pass(network, images)
    for free in ("classes", "children"):
        found = infer(forward, None, Rule(free=free, steps=20))
        assert torch.allclose(found.poses, forward.poses, atol=1e-14)
        assert float(found.energies.abs().max()) == 0


def test_l1_makes_absent_classes_zero_and_l2_does_not():
    _, _, forward, targets = few(scale=0.05)
    sparse, flat = infer(forward, targets, Rule(l1=0.1)), infer(forward, targets, Rule(l2=1.0))
    assert ((length(sparse.poses) == 0) == (targets == 0)).all()
    assert (length(flat.poses) > 0).all()


def test_forward_pass_is_that_of_the_network(network, images):
    forward = forward_pass(network, images)
    with torch.no_grad():
        assert torch.allclose(forward.poses.float(), network(images).layers[-1].poses, atol=1e-6)
    weight = class_layer(network).weight.detach().double()  # (child, class, pose in, pose)
    whole = torch.einsum("ijkm,ilkn->jmln", weight, weight).reshape(160, 160)
    assert torch.allclose(forward.gram, whole, atol=1e-10)


def test_one_image_is_the_same_alone_and_among_others(network, images):
    forward = forward_pass(network, images)
    targets = targets_for("label", forward.poses, torch.tensor([3, 1, 4, 1]))
    rule = Rule(l1=0.1, free="children", steps=30, step_size=0.5)
    together = infer(forward, targets, rule)
    alone = infer(forward_pass(network, images[2:3]), targets[2:3], rule)
    assert torch.allclose(alone.poses[0], together.poses[2], atol=1e-6)
    assert alone.energies.shape == (31, 1)


def test_layers_in_between_are_taken_as_they_are(images):
    network = network_of(model="capsnet-small-intermediate")
    forward = forward_pass(network, images)
    with torch.no_grad():
        assert torch.allclose(forward.poses.float(), network(images).layers[-1].poses, atol=1e-6)
    found = infer(forward, targets_for("predicted", forward.poses, torch.zeros(4).long()), Rule(free="children"))
    assert (found.energies[-1] < found.energies[0]).all()


def test_shared_weights_count_once_for_each_position():
    layer = DenseCapsules((2, 3, 4), 5, 3, 6, network_of().layers[0].routing.__class__, share=True)
    network = network_of()
    network.layers[-1] = layer
    from routebench.papers.kiefer.predictive_coding.forward import _gram

    whole = layer.weight.detach().double().repeat(6, 1, 1, 1).transpose(1, 2).flatten(0, 1).flatten(1)
    assert torch.allclose(_gram(layer), whole.T @ whole)


def test_every_setting_changes_the_answer():
    _, _, forward, targets = few()
    base = infer(forward, targets, Rule(steps=20)).poses
    others = [Rule(l1=0.1, steps=20), Rule(l2=0.1, steps=20), Rule(free="children", steps=20), Rule(steps=21)]
    others.append(Rule(steps=20, step_size=0.02))
    assert all(not torch.allclose(infer(forward, targets, rule).poses, base, atol=1e-6) for rule in others)
    assert not torch.allclose(infer(forward, None, Rule(steps=20)).poses, base, atol=1e-6)


def test_targets():
    poses = torch.zeros(2, 3, 4, dtype=torch.float64)
    poses[0, 2, 0] = poses[1, 0, 1] = 0.5
    labels = torch.tensor([1, 0])
    assert targets_for("label", poses, labels).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert targets_for("predicted", poses, labels).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert targets_for("none", poses, labels) is None


def test_what_makes_no_sense_is_refused_in_one_line(images):
    with pytest.raises(UserError, match="as method none makes them, got one with DynamicRouting"):
        forward_pass(network_of("dynamic", iterations=3), images)
    assert forward_pass(network_of("dynamic", iterations=3), images, any_routing=True).sums.shape == (4, 10, 16)
    with pytest.raises(UserError, match="vector poses"):
        forward_pass(network_of("em", "matrix-capsules-small", iterations=2), images)
    with pytest.raises(UserError, match="expected a capsule network"):
        forward_pass(build("cnn-small", shape=(1, 28, 28), classes=10).eval(), images)
    with pytest.raises(ValueError, match="free must be one of"):
        Rule(free="all")
    with pytest.raises(ValueError, match="at least 0"):
        Rule(l1=-0.1)
    with pytest.raises(ValueError, match="step_size above 0"):
        Rule(step_size=0.0)
    with pytest.raises(ValueError, match="targets must be one of"):
        targets_for("labels", torch.zeros(1, 2, 3), torch.zeros(1).long())
    with pytest.raises(ValueError, match="alone"):
        lengths_at_rest(torch.ones(1, 2), None, Rule(free="children"))
