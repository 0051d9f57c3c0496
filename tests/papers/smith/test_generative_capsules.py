"""The generative capsule model: against a plain transcription in float64, Pyro, enumeration, and trained briefly."""

import importlib
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from routebench.errors import UserError
from routebench.models import build, set_progress
from routebench.models.network import count_parameters
from routebench.papers.smith.models.probabilistic.beliefs import Belief
from routebench.papers.smith.models.probabilistic.concrete import concrete_log_density, concrete_sample
from routebench.papers.smith.models.probabilistic.model import Scene
from routebench.papers.smith.models.probabilistic.part_whole import Layer, PartWhole, as_deviation, as_matrix
from tests.papers.smith.small_capsules import OBJECTS, PARTS, small

WITH_PYRO = "routebench.papers.smith.program"


def drawn(seed, count):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, generator=draw).double(), 0.5 * torch.randn(2, count, 6, generator=draw).double()


def plain_joint(network, objects, parts, image):
    """log p(t1, A1, s = i | t0, A0) for one image, from the equations, in loops: (choice, part)."""
    whole = network.part_whole
    rho = np.log1p(np.exp(whole.speed * whole.raw_affinity.detach().numpy()))
    gamma = whole.speed * whole.raw_log_odds.detach().numpy()
    spread = whole.least_deviation + np.log1p(np.exp(whole.speed * whole.raw_deviation.detach().numpy()))
    offsets = whole.speed * whole.raw_offsets.detach().numpy()
    t0 = 1 / (1 + np.exp(-objects.presences[image].numpy()))
    identity = np.eye(3)
    found = np.empty((OBJECTS + 1, PARTS))
    for j in range(PARTS):
        weights = [whole.clutter_affinity, *(rho[i, j] * t0[i] for i in range(OBJECTS))]
        logit = float(parts.presences[image, j])
        there = 1 / (1 + math.exp(-logit))
        pose = parts.poses[image, j].numpy()
        off = stats.norm.logpdf(pose, 0, whole.off_deviation).sum()
        for i in range(OBJECTS + 1):
            if i == 0:
                on = stats.norm.logpdf(pose, 0, whole.clutter_deviation).sum()
            else:
                whole_pose = np.vstack([objects.poses[image, i - 1].numpy().reshape(2, 3), [0, 0, 0]]) + identity
                part_pose = np.vstack([offsets[i - 1, j].reshape(2, 3), [0, 0, 0]]) + identity
                mean = (whole_pose @ part_pose - identity)[:2].ravel()
                on = stats.norm.logpdf(pose, mean, spread[i - 1, j]).sum()
            # p(l) of a logistic with location log-odds over tau and scale 1 over tau is the Concrete's at its logit
            presence = stats.logistic.logpdf(logit, gamma[i, j] / whole.temperature, 1 / whole.temperature)
            if whole.switch == "geometric":
                between = there * on + (1 - there) * off
            elif whole.switch == "anywhere":
                between = there * on + (1 - there) * stats.norm.logpdf(np.zeros(6), 0, whole.off_deviation).sum()
            else:
                between = np.logaddexp(math.log(there) + on, math.log1p(-there) + off)
            found[i, j] = math.log(weights[i] / sum(weights)) + presence + between
    return found


@pytest.mark.parametrize(
    "whole",
    [
        {},
        {"switch": "arithmetic"},
        {"switch": "anywhere", "off_deviation": 0.2},
        {"temperature": 0.5, "clutter_affinity": 0.7},
    ],
)
def test_parts_given_objects_are_those_of_the_equations(whole):
    network, _ = small(whole=whole)
    objects, parts = Layer(*drawn(1, OBJECTS)), Layer(*drawn(2, PARTS))
    joint = network.part_whole.joint(objects, parts).detach().numpy()
    density = network.part_whole.log_density(objects, parts)
    for image in range(2):
        expected = plain_joint(network, objects, parts, image)
        assert joint[image] == pytest.approx(expected, abs=1e-10)
        assert float(density[image].detach()) == pytest.approx(np.logaddexp.reduce(expected, axis=0).sum(), abs=1e-9)
    shares = network.part_whole.responsibilities(objects, parts)
    assert torch.allclose(shares.sum(dim=1), torch.ones_like(shares[:, 0]))


def test_gradients_of_the_density_are_those_of_finite_differences():
    network, _ = small()
    given = [value.requires_grad_() for value in (*drawn(1, OBJECTS), *drawn(2, PARTS))]

    def density(t0, A0, t1, A1):
        return network.part_whole.log_density(Layer(t0, A0), Layer(t1, A1))

    assert torch.autograd.gradcheck(density, given)


@pytest.fixture
def program_of():
    """The model as a Pyro program; skips the test where Pyro is not installed."""
    pytest.importorskip("pyro")
    from routebench.papers.smith.program import Program

    return Program


def test_without_pyro_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyro", None)
    monkeypatch.delitem(sys.modules, WITH_PYRO, raising=False)
    with pytest.raises(
        UserError,
        match=r"^routebench\.papers\.smith\.program: Pyro is not installed; pip install 'routebench",
    ):
        importlib.import_module(WITH_PYRO)


def test_nothing_else_needs_pyro():
    code = "import sys\nsys.modules['pyro'] = None\nfrom routebench.registry import models\nprint(len(models) > 20)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    ("posterior", "switch"),
    [(kind, switch) for kind in ("delta", "objects") for switch in ("geometric", "arithmetic", "anywhere")]
    + [("full", "geometric"), ("full", "arithmetic")],
)
def test_the_bound_is_pyros(posterior, switch, program_of):
    network, images = small(
        posterior=posterior, whole={"switch": switch}, sprites={"ground": "transparent"}, object_deviation=0.7
    )
    torch.manual_seed(7)
    theirs = program_of(network).bound(images)
    torch.manual_seed(7)  # both draw parts before objects, presences before poses
    ours = network.bound(images, *network.infer(images)).total.sum()
    assert float(ours.detach()) == pytest.approx(theirs, rel=1e-12)


def test_pyros_gradient_is_ours(program_of):
    from pyro.infer import TraceEnum_ELBO

    network, images = small()
    torch.manual_seed(7)
    program = program_of(network)
    loss = TraceEnum_ELBO(max_plate_nesting=2).differentiable_loss(program.model, program.guide, images)
    torch.autograd.backward(loss)
    theirs = {name: value.grad for name, value in network.named_parameters()}
    network.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    torch.autograd.backward(-network.bound(images, *network.infer(images)).total.sum())
    for name, value in network.named_parameters():
        assert torch.allclose(value.grad, theirs[name], rtol=1e-8, atol=1e-10), name


def test_brute_force_over_what_each_part_belongs_to_gives_the_same():
    network, _ = small()
    objects, parts = Layer(*drawn(1, OBJECTS)), Layer(*drawn(2, PARTS))
    for image in range(2):
        joint = plain_joint(network, objects, parts, image)
        choices = itertools.product(range(OBJECTS + 1), repeat=PARTS)  # 256 assignments of all parts at once
        every = [sum(joint[i, j] for j, i in enumerate(choice)) for choice in choices]
        density = float(network.part_whole.log_density(objects, parts)[image].detach())
        assert density == pytest.approx(float(np.logaddexp.reduce(every)), abs=1e-9)


def test_bound_of_a_tiny_discrete_model_is_its_evidence_where_the_posterior_is_exact():
    """Presences on or off, poses fixed: enumerate t0, t1 and s, and compare with the bound at the exact posterior."""
    network, images = small(images=1, whole={"switch": "arithmetic"})
    whole, sprites = network.part_whole, network.sprites
    A0, A1 = (value[:1] for value in (drawn(3, OBJECTS)[1], drawn(4, PARTS)[1]))
    surely = 40.0  # a logit whose sigmoid is 1 to double precision
    logs, steps = [], []
    with torch.no_grad():
        for on in itertools.product([-1, 1], repeat=OBJECTS + PARTS):
            sides = torch.tensor(on, dtype=torch.float64)[None]
            objects, parts = Layer(surely * sides[:, :OBJECTS], A0), Layer(surely * sides[:, OBJECTS:], A1)
            odds = network.object_log_odds * sides[0, :OBJECTS]
            prior = torch.nn.functional.logsigmoid(odds).sum()
            choose = whole.selection(objects.presences)[0]
            there = torch.nn.functional.logsigmoid(whole.log_odds * sides[0, OBJECTS:])
            poses = whole.log_density_of_poses(objects, parts)[0]
            given = (choose + there + poses).logsumexp(dim=0).sum()
            by_hand = 0.0
            for j in range(PARTS):
                terms = [float(choose[i, j] + there[i, j] + poses[i, j]) for i in range(OBJECTS + 1)]
                by_hand += math.log(sum(math.exp(term) for term in terms))
            assert float(given) == pytest.approx(by_hand, abs=1e-9)
            logs.append(float(prior + given + sprites.log_likelihood(images, parts)))
            steps.append(on)
    evidence = float(np.logaddexp.reduce(logs))
    posterior = np.exp(np.array(logs) - evidence)
    exact = sum(q * (log - math.log(q)) for q, log in zip(posterior, logs, strict=True) if q > 0)
    assert exact == pytest.approx(evidence, rel=1e-12)
    other = np.random.default_rng(0).dirichlet(np.ones(len(logs)))
    assert sum(q * (log - math.log(q)) for q, log in zip(other, logs, strict=True)) < evidence


def test_concrete_density_integrates_to_one_and_is_that_of_its_samples():
    odds, temperature = torch.tensor(0.7, dtype=torch.float64), 0.6

    def density(x):
        return math.exp(float(concrete_log_density(torch.tensor(x).double(), odds, temperature)))

    assert integrate.quad(density, -60, 60)[0] == pytest.approx(1, abs=1e-8)
    draws = concrete_sample(odds.expand(50_000), temperature, torch.Generator().manual_seed(0))
    assert stats.kstest(draws.numpy(), stats.logistic(0.7 / temperature, 1 / temperature).cdf).pvalue > 0.01
    assert float((draws > 0).double().mean()) == pytest.approx(float(odds.sigmoid()), abs=0.01)


def test_arithmetic_switch_integrates_to_one_and_geometric_to_less():
    """By 40,000 poses from an even mixture of on and off."""
    found = {}
    for switch in ("arithmetic", "geometric"):
        torch.manual_seed(0)
        whole = PartWhole(1, 1, switch=switch, off_deviation=0.8).double()
        with torch.no_grad():
            mean, spread = whole.offsets[0, 0], whole.deviations[0, 0]
            draws = torch.randn(40_000, 1, 6, dtype=torch.float64)
            draws = torch.where(torch.rand(40_000, 1, 1) < 0.5, mean + spread * draws, 0.8 * draws)
            ways = torch.stack(
                [torch.distributions.Normal(*each).log_prob(draws) for each in ((mean, spread), (0, 0.8))]
            )
            proposed = ways.sum(dim=-1).logsumexp(dim=0)[:, 0] - math.log(2)
            logits = torch.full((40_000, 1), math.log(0.3 / 0.7), dtype=torch.float64)
            objects = Layer(logits, torch.zeros(40_000, 1, 6, dtype=torch.float64))
            density = whole.log_density_of_poses(objects, Layer(logits, draws))[:, 1, 0]
            found[switch] = float((density - proposed).exp().mean())
    assert found["arithmetic"] == pytest.approx(1, abs=0.02) and 0 < found["geometric"] < 0.95


def test_poses_compose_as_matrices():
    network, _ = small()
    turn = as_deviation(torch.tensor([[0.0, -1, 0.5], [1, 0, 0.0]]).double()).expand(1, OBJECTS, 6)
    found = as_matrix(network.part_whole.expected_poses(turn))
    still = as_matrix(network.part_whole.offsets)
    assert torch.allclose(found[0, :, :, 0, :2], -still[:, :, 1, :2])
    assert torch.allclose(found[0, :, :, :, 2], torch.stack([0.5 - still[..., 1, 2], still[..., 0, 2]], dim=-1))
    nothing = network.part_whole.expected_poses(torch.zeros(1, OBJECTS, 6).double())
    assert torch.allclose(nothing[0], network.part_whole.offsets)


def test_deviations_have_a_floor():
    network, images = small(sprites={"learned_deviation": True})
    network.part_whole.raw_deviation.data.fill_(-1e4)
    network.sprites.raw_deviation.data.fill_(-1e4)
    assert float(network.part_whole.deviations.detach().min()) == pytest.approx(0.1)
    assert float(network.sprites.deviation.detach()) == pytest.approx(0.2)
    assert torch.isfinite(network.objective(images))


def test_published_size():
    network = build("generative-capsules", shape=(1, 28, 28), classes=10)
    sprites, whole = 16 * 2 * 144, 256 * 6 + 256 + 17 * 16 + 256
    assert network.generative_parameters == sprites + whole == 6_928  # "fewer than 30,000"
    assert count_parameters(network) > network.generative_parameters


def test_objects_see_parts_only_and_images_do_not_see_each_other():
    network, images = small(images=3)
    together, alone = network.features(images), network.features(images[1:2])
    for name, values in together.items():
        assert torch.allclose(values[1:2], alone[name]), name
    parts = network.part_encoder(images).middle()
    assert torch.allclose(network.object_encoder(parts).log_odds, together["presences"])


def test_same_generator_same_objective():
    network, images = small()
    one, same, other = (network.objective(images, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert one == same != other


def test_a_full_posterior_begins_with_certain_poses():
    network, images = small(posterior="full", delta_until=0.4)
    set_progress(network, 0.3)
    before, _ = network.infer(images)
    set_progress(network, 0.5)
    after, _ = network.infer(images)
    assert before.parts.log_deviations is None and before.objects.log_deviations is None
    assert after.parts.log_deviations is not None and after.objects.log_deviations is not None
    assert torch.equal(before.parts.poses, after.parts.poses)


@pytest.mark.parametrize("posterior", ["full", "objects"])
def test_a_finished_model_stays_while_its_encoders_learn(posterior):
    both = []
    for then in ("everything", "encoder"):
        network, images = small(posterior=posterior, delta_until=0.4, then=then)
        begun = {name: value.clone() for name, value in network.named_parameters()}
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
        moved = []
        for progress in (0.3, 0.5):
            set_progress(network, progress)
            optimiser.zero_grad()
            network.objective(images, torch.Generator().manual_seed(0)).backward()
            optimiser.step()
            moved.append({name for name, value in network.named_parameters() if not value.equal(begun[name])})
            begun = {name: value.clone() for name, value in network.named_parameters()}
        both.append(moved)
    of_the_model = {name for name in begun if name.startswith(("sprites.", "part_whole."))}
    (always, later), (before, after) = both
    assert always == before and later - after == of_the_model & later != set()
    assert after and not after & of_the_model


def test_density_of_a_belief_is_that_of_its_distributions():
    log_odds, poses = drawn(5, PARTS)
    deviations = torch.full_like(poses, -1.0)
    belief = Belief(log_odds, poses, deviations)
    sample = belief.sample(1.0, torch.Generator().manual_seed(0))
    of_poses = torch.distributions.Normal(poses, deviations.exp()).log_prob(sample.poses).sum(dim=(1, 2))
    certain = Belief(log_odds, poses)
    assert torch.allclose(belief.log_density(sample, 1.0) - certain.log_density(sample, 1.0), of_poses)
    assert torch.equal(certain.sample(1.0).poses, poses)


def test_visible_parts_add_up_to_the_drawing():
    network, images = small()
    assert torch.allclose(network.visible(images).sum(dim=1), network.reconstruction(images)[:, 0])


def test_samples_are_images_and_follow_the_generator():
    network, _ = small()
    network.float()
    one, same, other = (network.sample(5, torch.Generator().manual_seed(seed), (9, 8)) for seed in (1, 1, 2))
    assert one.shape == (5, 1, 9, 8) and torch.equal(one, same) and not torch.equal(one, other)
    assert 0 <= float(one.min()) <= float(one.max()) <= 1


def test_images_made_again_are_made_from_the_objects_of_the_images_given():
    network, images = small(images=4)
    network.part_whole.raw_deviation.data.fill_(-1e3)  # parts are where objects put them, but for c's floor
    draws = [torch.Generator().manual_seed(seed) for seed in (1, 1, 1, 2)]
    one, same, others, again = (
        network.sample_again(given, draw)
        for given, draw in zip((images, images, 1 - images, images), draws, strict=True)
    )
    assert one.shape == images.shape and torch.equal(one, same)
    assert not torch.equal(one, others) and not torch.equal(one, again)
    _, scene = network.infer(images, draw := torch.Generator().manual_seed(1))
    parts = network.part_whole.sample(scene.objects, draw)
    assert torch.equal(one, network.sprites.draw(parts, images.shape[2:]).clamp(0, 1))


def test_sampled_parts_follow_their_objects():
    torch.manual_seed(0)
    whole = PartWhole(2, 3, clutter_affinity=1e-9, least_deviation=1e-3)
    whole.raw_deviation.data.fill_(-1e3)
    on = torch.tensor([[30.0, -30.0]]).expand(500, 2)
    objects = Layer(on, torch.zeros(500, 2, 6))
    parts = whole.sample(objects, torch.Generator().manual_seed(0))
    assert torch.allclose(parts.poses, whole.offsets[0].detach().expand(500, 3, 6), atol=6e-3)


def test_one_image_is_as_among_others():
    network, images = small(images=3)
    posterior, scene = network.infer(images, torch.Generator().manual_seed(0))
    bound = network.bound(images, posterior, scene).total
    one = slice(1, 2)
    layers = (Layer(layer.presences[one], layer.poses[one]) for layer in (scene.objects, scene.parts))
    beliefs = (Belief(belief.log_odds[one], belief.poses[one]) for belief in (posterior.objects, posterior.parts))
    alone = network.bound(images[one], type(posterior)(*beliefs), Scene(*layers)).total
    assert torch.allclose(alone, bound[one])
