"""The mixture of predictions against a float64 transcription with mpmath's Bessel functions, and its integrals."""

import math

import mpmath
import numpy as np
import pytest
import torch

from routebench.ops import von_mises_fisher
from routebench.papers.kiefer.models.top_down.vmf_mixture import VMFMixture


def problem(batch=2, children=3, parents=4, pose=5, seed=0):
    draws = torch.Generator().manual_seed(seed)
    size = {"generator": draws, "dtype": torch.float64}
    previous, points = (torch.randn(batch, children, pose, **size) for _ in range(2))
    return previous, points, torch.randn(batch, children, parents, pose, **size)


def mixture(per_pair=False, spread=0.3, **more):
    made = VMFMixture(3, 4, 5, kappa=2.0, sigma=0.8, per_pair=per_pair, **more).double()
    with torch.no_grad():  # unlike each other
        for parameter in made.parameters():
            parameter.add_(spread * torch.randn(parameter.shape, dtype=torch.float64))
    return made


def plain(made, previous, points, predictions):
    """Equations 7 and 8 for one image at a time: log-likelihood of the layer, and responsibilities."""
    pairs = predictions.shape[1:3]
    kappas, sigmas = (values.detach().expand(pairs).numpy() for values in (made.kappa, made.sigma))
    totals, shares = [], np.zeros(predictions.shape[:3])
    for b in range(len(points)):
        total = 0.0
        for i in range(pairs[0]):
            strengths, terms = [], []
            for j in range(pairs[1]):
                v, u, k = previous[b, i].numpy(), predictions[b, i, j].numpy(), mpmath.mpf(kappas[i, j])
                order = mpmath.mpf(len(v)) / 2 - 1
                constant = k**order / ((2 * mpmath.pi) ** (order + 1) * mpmath.besseli(order, k))
                cosine = float(v @ u) / math.sqrt(float(v @ v) * float(u @ u))
                density = constant * mpmath.exp(k * cosine)
                strengths.append(mpmath.exp(density) if made.weights == "density" else density)
                gap, s = points[b, i].numpy() - u, sigmas[i, j]
                terms.append(mpmath.exp(-float(gap @ gap) / (2 * s**2)) / (s * math.sqrt(2 * math.pi)) ** len(v))
            joint = [strength / sum(strengths) * term for strength, term in zip(strengths, terms, strict=True)]
            total += float(mpmath.log(sum(joint)))
            shares[b, i] = [float(part / sum(joint)) for part in joint]
        totals.append(total)
    return torch.tensor(totals, dtype=torch.float64), torch.from_numpy(shares)


@pytest.mark.parametrize("weights", ["log-density", "density"])
@pytest.mark.parametrize("per_pair", [False, True])
def test_likelihood_and_responsibilities_are_those_of_plain_arithmetic(weights, per_pair):
    made, (previous, points, predictions) = mixture(per_pair, weights=weights), problem()
    log_weights = made.log_weights(previous, predictions)
    found = made.log_likelihood(points, predictions, log_weights)
    expected, shares = plain(made, previous, points, predictions)
    assert found.shape == (2, 3)
    torch.testing.assert_close(found.sum(dim=1), expected)
    torch.testing.assert_close(made.responsibilities(points, predictions, log_weights), shares)
    torch.testing.assert_close(log_weights.exp().sum(dim=2), torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("weights", ["log-density", "density"])
def test_gradients_are_those_of_finite_differences(weights):
    made, given = mixture(per_pair=True, weights=weights), [values.requires_grad_() for values in problem(batch=1)]

    def likelihood(previous, points, predictions, *parameters):
        named = dict(zip(["_log_kappa", "_log_sigma"], parameters, strict=True))
        return torch.func.functional_call(
            _Whole(made), {f"mixture.{k}": v for k, v in named.items()}, (previous, points, predictions)
        )

    assert torch.autograd.gradcheck(likelihood, (*given, *made.parameters()))


class _Whole(torch.nn.Module):
    def __init__(self, mixture):
        super().__init__()
        self.mixture = mixture

    def forward(self, previous, points, predictions):
        return self.mixture.log_likelihood(points, predictions, self.mixture.log_weights(previous, predictions))


def test_equal_kappa_is_cosine_attention():
    made, (previous, _, predictions) = mixture(), problem()
    cosine = torch.nn.functional.cosine_similarity(previous[:, :, None], predictions, dim=3)
    expected = (made.kappa * cosine).softmax(dim=2)
    torch.testing.assert_close(made.log_weights(previous, predictions).exp(), expected)


@torch.no_grad()
def test_it_integrates_to_one_given_its_weights_and_not_as_printed():
    made = VMFMixture(1, 3, 2, kappa=4.0, sigma=0.5).double()
    draws = torch.Generator().manual_seed(0)
    predictions = torch.randn(1, 1, 3, 2, generator=draws, dtype=torch.float64)
    previous = torch.randn(1, 1, 2, generator=draws, dtype=torch.float64)
    step = 0.05
    line = torch.arange(-6, 6, step, dtype=torch.float64)
    points = torch.cartesian_prod(line, line)[:, None]
    everywhere = predictions.expand(len(points), -1, -1, -1)

    def integral(log_weights):
        return float(made.log_likelihood(points, everywhere, log_weights).exp().sum()) * step**2

    given = made.log_weights(previous, predictions).expand(len(points), -1, -1)
    assert integral(given) == pytest.approx(1, abs=1e-9)
    assert abs(integral(made.log_weights(points, everywhere)) - 1) > 0.05  # weights from the variable itself


def test_samples_are_distributed_as_the_mixture_says():
    made = VMFMixture(1, 3, 2, kappa=3.0, sigma=0.4, per_pair=True).double()
    with torch.no_grad():
        made._log_sigma += torch.tensor([[0.5, 0.0, -0.5]])
    previous, _, predictions = problem(1, 1, 3, 2)
    many = predictions.expand(50_000, -1, -1, -1)
    log_weights = made.log_weights(previous, predictions)
    drawn = made.sample(many, log_weights.expand(50_000, -1, -1), torch.Generator().manual_seed(0))
    weights = log_weights.exp()[0, 0]
    mean = made.mean(predictions, log_weights)[0, 0]
    torch.testing.assert_close(mean, weights @ predictions[0, 0])
    torch.testing.assert_close(drawn[:, 0].mean(dim=0), mean, atol=0.03, rtol=0)
    second = sum(w * (u.square() + s**2) for w, u, s in zip(weights, predictions[0, 0], made.sigma[0], strict=True))
    torch.testing.assert_close(drawn[:, 0].square().mean(dim=0), second, atol=0.05, rtol=0.05)
    shares = made.responsibilities(drawn, many, log_weights.expand(50_000, -1, -1))
    torch.testing.assert_close(shares.mean(dim=0)[0], weights, atol=0.01, rtol=0)  # what an E-step gives back


def test_every_option_changes_something():
    previous, points, predictions = problem()

    def likelihood(**options):
        made = VMFMixture(3, 4, 5, **{"kappa": 2.0, "sigma": 0.8} | options).double()
        return made.log_likelihood(points, predictions, made.log_weights(previous, predictions))

    base = likelihood()
    assert base.equal(likelihood())
    for options in ({"kappa": 3.0}, {"sigma": 0.9}, {"weights": "density"}):
        assert not base.allclose(likelihood(**options)), options
    assert [parameter.requires_grad for parameter in VMFMixture(3, 4, 5, learn_kappa=False).parameters()] == [
        False,
        True,
    ]
    assert [parameter.requires_grad for parameter in VMFMixture(3, 4, 5, learn_sigma=False).parameters()] == [
        True,
        False,
    ]
    assert VMFMixture(3, 4, 5, per_pair=True).kappa.shape == (3, 4)


@torch.no_grad()
def test_sigma_stays_above_its_floor():
    made = VMFMixture(1, 1, 2, sigma=0.5, floor=0.2)
    assert float(made.sigma) == pytest.approx(0.5)
    made._log_sigma.fill_(-50)
    assert float(made.sigma) == pytest.approx(0.2)
    predictions = torch.ones(1, 1, 1, 2)
    best = made.log_likelihood(predictions[:, :, 0], predictions, torch.zeros(1, 1, 1))
    assert float(best) == pytest.approx(-2 * math.log(0.2 * math.sqrt(2 * math.pi)), abs=1e-5)  # and no more


@pytest.mark.parametrize("weights", ["log-density", "density"])
def test_extremes_stay_finite(weights):
    made = VMFMixture(1, 3, 16, kappa=1e5, per_pair=True, weights=weights)
    predictions = torch.randn(1, 1, 3, 16)
    predictions[0, 0, 2] = 0
    given = [predictions[:, :, 0].clone().requires_grad_(), predictions.clone().requires_grad_()]
    log_weights = made.log_weights(*given)
    assert log_weights.argmax().item() == 0  # the one that the child points at
    made.log_likelihood(given[0], given[1], log_weights).sum().backward()
    for values in (*given, *made.parameters()):
        assert bool(torch.isfinite(values.grad).all())


@torch.no_grad()
def test_densities_that_overflow_are_told_apart():
    made = VMFMixture(1, 2, 300, kappa=1e4, weights="density")
    child = torch.nn.functional.normalize(torch.randn(300, generator=torch.Generator().manual_seed(0)), dim=0)
    noise = torch.randn(300, generator=torch.Generator().manual_seed(1))
    other = torch.nn.functional.normalize(child + 0.002 * noise, dim=0)
    assert float(von_mises_fisher.log_peak(made.kappa, 300)) > 700  # its exponential overflows in double precision
    found = made.log_weights(child[None, None], torch.stack([other, child])[None, None])
    assert found[0, 0].exp().tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "cosine"}, "weights must be one of"),
        ({"kappa": 0.0}, "kappa must be a number above 0"),
        ({"sigma": 0.01}, "above its floor"),
        ({"floor": -0.1}, "floor must be a number of at least 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        VMFMixture(1, 1, 2, **options)
