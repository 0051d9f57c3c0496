"""Generative capsules against a second transcription of Smith et al.: every term of the bound, slopes, and pixels."""

import numpy as np
import pytest
import torch

from routebench.papers.smith.models.probabilistic.free_form import climb
from routebench.papers.smith.models.probabilistic.part_whole import Layer
from routebench.papers.smith.models.probabilistic.sprites import SPEED, Sprites
from tests.papers.smith.small_capsules import OBJECTS, PARTS, small
from tests.references import second

SIZE = (9, 8)
UNUSUAL = {
    "whole": {
        "temperature": 0.8,
        "clutter_affinity": 0.2,
        "clutter_deviation": 1.3,
        "off_deviation": 0.7,
        "speed": 2.0,
    },
    "object_probability": 0.3,
    "object_deviation": 0.9,
}
MODELS = {
    "delta": {},
    "delta, other constants": UNUSUAL,
    "delta, deviation of pixels learned": {"sprites": {"learned_deviation": True, "unit": "canvas"}},
    "full": {"posterior": "full"},
    "full, other constants": {"posterior": "full", **UNUSUAL},
}


def softplus(x):
    return np.log(1 + np.exp(x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy(value):
    return value.detach().numpy().astype(float)


def learned(network):
    """The raw numbers of the generative model, by name."""
    return {name: value for name, value in network.named_parameters() if name.startswith(("sprites", "part_whole"))}


def believed(belief, image):
    """The numbers of an approximate posterior for one image, by name."""
    return {name: numpy(value[image]) for name, value in vars(belief).items() if value is not None}


def extent(network):
    """Of an unmoved template of 5 x 5 pixels."""
    return (1.0, 1.0) if network.sprites.unit == "canvas" else (5 / SIZE[1], 5 / SIZE[0])


def noise(network, seed):
    """The uniform and normal numbers that a generator gives to the parts, then to the objects, for two images."""
    draw = torch.Generator().manual_seed(seed)
    found = []
    for count in (PARTS, OBJECTS):
        uniform = torch.rand(2, count, generator=draw, dtype=torch.float64).numpy()
        full = network.posterior == "full"
        normal = torch.randn(2, count, 6, generator=draw, dtype=torch.float64).numpy() if full else None
        found.append((uniform, normal))
    return found


def drawn(belief, uniform, normal, temperature):
    """Capsules of one layer: presences and deviations of poses."""
    t = second.concrete(sigmoid(belief["log_odds"]), temperature, uniform)
    if normal is None:
        return t, belief["poses"]
    return t, belief["poses"] + np.exp(belief["log_deviations"]) * normal


def of_whole(network, raw):
    """rho, gamma, M, c and lambda of equations 3 to 6, from raw numbers."""
    whole = network.part_whole
    speed = whole.speed
    clutter = np.full((1, PARTS), whole.clutter_affinity)
    # Section 2.1 has "a learned variance c_ij", appendix B "the standard deviation parameters c_ij and the standard
    # deviation of the pixel noise" with minima. The second fits Norm(P_ij, sigma) of equation 7, whose 0.2 is a "pixel
    # standard deviation", and is what the code follows: the variance is the square.
    c = np.concatenate(
        [
            np.full((1, PARTS), whole.clutter_deviation),
            whole.least_deviation + softplus(speed * raw["part_whole.raw_deviation"]),
        ]
    )
    matrices = [[second.pose_of(six) for six in row] for row in speed * raw["part_whole.raw_offsets"]]
    return {
        "rho": np.concatenate([clutter, softplus(speed * raw["part_whole.raw_affinity"])]),
        "gamma": sigmoid(speed * raw["part_whole.raw_log_odds"]),
        "M": np.array(matrices),
        "c": c**2,
        "off": whole.off_deviation**2,
        "temperature": whole.temperature,
    }


def canvas_of(network, raw, parts):
    """The drawing on an opaque black ground: colour times alpha."""
    t1, A1 = parts
    colours, alphas = sigmoid(SPEED * raw["sprites.raw_colours"]), sigmoid(SPEED * raw["sprites.raw_alphas"])[:, 0]
    poses = np.array([second.pose_of(six) for six in A1])
    # `P <- zeros` leaves open whether P covers what is below it. With an alpha of 0 a lone template would not fade with
    # its presence, although "the alpha channels [are] weighted by the presence probability".
    colour, alpha = second.composited(colours, alphas, poses, t1, SIZE, extent(network))
    return colour * alpha


def terms(network, raw, beliefs, noises, image):
    """log p(x | parts), log p(parts | objects), log q(parts), log p(objects), log q(objects)."""
    temperature = network.temperature
    parts, objects = (drawn(belief, *each, temperature) for belief, each in zip(beliefs, noises, strict=True))
    sigma = network.sprites.pixel_deviation
    if "sprites.raw_deviation" in raw:
        sigma = sigma + softplus(raw["sprites.raw_deviation"])
    of_q = [
        second.log_belief(
            *layer,
            probability=sigmoid(belief["log_odds"]),
            temperature=temperature,
            mean=belief["poses"],
            deviation=np.exp(belief["log_deviations"]) if "log_deviations" in belief else None,
        )
        for layer, belief in zip((parts, objects), beliefs, strict=True)
    ]
    prior = second.log_objects(
        *objects,
        probability=sigmoid(float(network.object_log_odds)),
        temperature=temperature,
        variance=network.object_deviation**2,
    )
    return (
        second.log_pixels(image, canvas_of(network, raw, parts), sigma),
        second.log_parts(second.joint(*parts, *objects, **of_whole(network, raw))),
        of_q[0],
        prior,
        of_q[1],
    )


def bound(*given):
    pixels, parts, q_parts, objects, q_objects = terms(*given)
    return pixels + parts - q_parts + objects - q_objects


class Case:
    """A network, two images, and capsules drawn for them by both."""

    def __init__(self, **options):
        self.network, self.images = small(**options)
        self.raw = {name: numpy(value) for name, value in learned(self.network).items()}
        self.posterior, self.scene = self.network.infer(self.images, torch.Generator().manual_seed(3))
        self.noises = noise(self.network, 3)

    def of(self, image):
        """What `terms` takes."""
        beliefs = [believed(belief, image) for belief in (self.posterior.parts, self.posterior.objects)]
        noises = [tuple(None if n is None else n[image] for n in each) for each in self.noises]
        return self.network, self.raw, beliefs, noises, self.images[image].numpy()


@pytest.fixture(params=MODELS)
def case(request):
    return Case(**MODELS[request.param])


def test_every_term_of_the_bound_is_that_of_the_second_transcription(case):
    found = case.network.bound(case.images, case.posterior, case.scene)
    for image in range(2):
        pixels, parts, q_parts, objects, q_objects = terms(*case.of(image))
        assert float(found.pixels[image].detach()) == pytest.approx(pixels, rel=1e-10)
        assert float(found.parts[image].detach()) == pytest.approx(parts - q_parts, rel=1e-10)
        assert float(found.objects[image].detach()) == pytest.approx(objects - q_objects, rel=1e-10)


def test_densities_over_presences_are_those_over_logits_times_the_change_of_variable(case):
    temperature = case.network.temperature
    of_parts = case.network.part_whole.log_density(case.scene.objects, case.scene.parts)
    q_parts = case.posterior.parts.log_density(case.scene.parts, temperature)
    of_objects = case.network.prior(case.scene.objects)
    for image in range(2):
        _, parts, q, objects, _ = terms(*case.of(image))
        for log_density, expected, layer in (
            (of_parts, parts, case.scene.parts),
            (q_parts, q, case.scene.parts),
            (of_objects, objects, case.scene.objects),
        ):
            t = sigmoid(numpy(layer.presences[image]))
            change = np.log(t * (1 - t)).sum()
            assert float(log_density[image].detach()) - change == pytest.approx(expected, rel=1e-9)


def test_the_posterior_over_objects_is_that_of_appendix_d(case):
    shares = numpy(case.network.part_whole.responsibilities(case.scene.objects, case.scene.parts))
    for image in range(2):
        network, raw, beliefs, noises, _ = case.of(image)
        layers = [drawn(belief, *each, network.temperature) for belief, each in zip(beliefs, noises, strict=True)]
        expected = second.attached(second.joint(*layers[0], *layers[1], **of_whole(network, raw)))
        assert shares[image] == pytest.approx(expected, rel=1e-9)


def test_slopes_of_the_bound_are_those_of_the_second_transcription(case):
    network, raw, beliefs, noises, image = case.of(0)
    draw = np.random.default_rng(0)
    leaves = learned(network)
    total = network.bound(case.images, case.posterior, case.scene).total[0]
    found = torch.autograd.grad(total, list(leaves.values()))
    for name, ours in zip(leaves, found, strict=True):
        direction = draw.standard_normal(raw[name].shape)

        def along(value, name=name):
            return bound(network, {**raw, name: value}, beliefs, noises, image)

        expected = second.slope(along, raw[name], direction)
        assert np.sum(ours.numpy() * direction) == pytest.approx(expected, rel=1e-8, abs=1e-9), name


@pytest.mark.parametrize("posterior", ["delta", "full"])
def test_a_step_of_free_form_inference_follows_the_slopes_of_the_second_transcription(posterior):
    # Section 2.4: "we instantiate a set of phi for each image, and optimise them separately using gradient descent".
    case = Case(posterior=posterior)
    network, rate = case.network, 1e-3
    start = network.middle(case.images)
    moved = climb(network, case.images, steps=1, learning_rate=rate, generator=torch.Generator().manual_seed(3))
    case.posterior = start
    _, raw, beliefs, noises, image = case.of(0)
    after = [believed(belief, 0) for belief in (moved.posterior.parts, moved.posterior.objects)]
    for layer in range(2):
        for name, value in beliefs[layer].items():

            def along(other, layer=layer, name=name):
                changed = list(beliefs)
                changed[layer] = {**beliefs[layer], name: other}
                return bound(network, raw, changed, noises, image)

            direction = np.random.default_rng(layer).standard_normal(value.shape)
            step = np.sum((after[layer][name] - value) / rate * direction)
            assert step == pytest.approx(second.slope(along, value, direction), rel=1e-8, abs=1e-8), name


@pytest.mark.parametrize("unit", ["template", "canvas"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_those_of_the_second_transcription(unit, channels):
    torch.manual_seed(0)
    opaque, clear = (Sprites(4, channels, size=5, unit=unit, ground=g).double() for g in ("black", "transparent"))
    clear.load_state_dict(opaque.state_dict())
    parts = Layer(2 * torch.randn(2, 4, dtype=torch.float64), 0.4 * torch.randn(2, 4, 6, dtype=torch.float64))
    size = (11, 14)
    whole = (1.0, 1.0) if unit == "canvas" else (5 / 14, 5 / 11)
    colours, alphas = numpy(opaque.colours), numpy(opaque.alphas)[:, 0]
    for image in range(2):
        poses = np.array([second.pose_of(six) for six in numpy(parts.poses[image])])
        t1 = sigmoid(numpy(parts.presences[image]))
        colour, alpha = second.composited(colours, alphas, poses, t1, size, whole)
        black = numpy(opaque.draw(parts, size)[image])
        through = numpy(clear.draw(parts, size)[image])
        assert black == pytest.approx(colour * alpha, abs=1e-12)
        visible = alpha > 1e-6  # below it the code has a limit to what it divides by
        assert through[:, visible] == pytest.approx(colour[:, visible], abs=1e-12)
        assert alpha.max() > 0.2 and np.abs(black - through).max() > 0.1


def test_as_printed_equations_5_and_6_differ_only_where_parts_are_off():
    # Equation 5 prints the mean (I + A_i) M_ij and the compositing `over(A_i T_k, ...)`, without I: read so, A of the
    # lowest layer is a pose and no deviation from I. But "adding the identity [...] lets us parameterise A as" normal
    # "variables centred around zero", of any layer. The two readings differ by a shift of A_j by I, which is to be seen
    # only in equation 6, centred on 0.
    case = Case(**UNUSUAL)
    network, raw, beliefs, noises, _ = case.of(0)
    (t1, A1), (_, A0) = (drawn(b, *n, network.temperature) for b, n in zip(beliefs, noises, strict=True))
    numbers = of_whole(network, raw)
    identity = np.eye(3)[:2].reshape(-1)
    mended = numpy(network.part_whole.log_density_of_poses(case.scene.objects, case.scene.parts)[0])
    for i in range(OBJECTS):
        for j in range(PARTS):
            given = {name: numbers[name][i + 1, j] for name in ("gamma", "c")}
            mean = second.mean_of(A0[i], numbers["M"][i, j], printed=True)
            printed = second.log_part(
                t1[j], A1[j] + identity, mean, **given, off=numbers["off"], temperature=numbers["temperature"]
            ) - second.log_concrete(t1[j], given["gamma"], numbers["temperature"])
            farther = np.sum((A1[j] + identity) ** 2 - A1[j] ** 2) / (2 * numbers["off"])
            assert mended[i + 1, j] == pytest.approx(printed + (1 - t1[j]) * farther, rel=1e-10)
