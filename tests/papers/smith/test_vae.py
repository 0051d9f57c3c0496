"""The variational autoencoder, against plain float64 arithmetic and Monte Carlo, and trained for seconds."""

import numpy as np
import pytest
import torch
from torch import distributions

from routebench.data import TrainingData, load
from routebench.errors import UserError
from routebench.models import build
from routebench.models.network import count_parameters
from routebench.papers.smith.models.vae import VAE, divergence
from routebench.recipe import Recipe
from routebench.training import fit

CPU = torch.device("cpu")
SHAPE = (1, 28, 28)


def network(seed=0, **params):
    torch.manual_seed(seed)
    return build("vae", shape=SHAPE, classes=10, **params)


def digits(count=200):
    data = load("mnist5k")
    train, held_out = data.train.at(torch.arange(0, 3600, 3600 // count)), data.held_out.at(torch.arange(0, 400, 10))
    return TrainingData(data.name, data.classes, train, held_out, "")


def test_sizes_are_those_of_the_paper():
    decoder = network().decoder
    assert count_parameters(decoder) == 102_544  # 10-128-784, "over 100,000"
    assert count_parameters(network(latent=3, hidden=7)) == 784 * 7 + 7 + 7 * 6 + 6 + 3 * 7 + 7 + 7 * 784 + 784


def test_objective_is_minus_the_bound_in_plain_arithmetic():
    model = network().double()
    images = torch.rand(4, *SHAPE, dtype=torch.float64)
    found = model.objective(images, torch.Generator().manual_seed(5))
    noise = torch.randn(4, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64).numpy()
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    total = 0.0
    for image, draw in zip(images.flatten(1).numpy(), noise, strict=True):
        hidden = np.maximum(weights["encoder.1.weight"] @ image + weights["encoder.1.bias"], 0)
        mean, log_variance = np.split(weights["encoder.3.weight"] @ hidden + weights["encoder.3.bias"], 2)
        latent = mean + np.exp(log_variance / 2) * draw
        hidden = np.maximum(weights["decoder.0.weight"] @ latent + weights["decoder.0.bias"], 0)
        white = 1 / (1 + np.exp(-(weights["decoder.2.weight"] @ hidden + weights["decoder.2.bias"])))
        total -= float((image * np.log(white) + (1 - image) * np.log(1 - white)).sum())
        total += float((np.exp(log_variance) + mean**2 - 1 - log_variance).sum() / 2)
    assert found.item() == pytest.approx(total / 4, rel=1e-10)


def test_divergence_is_that_of_monte_carlo_and_of_torch():
    mean, deviation = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([[0.3, 1.0, 1.7]])
    found = divergence(mean, deviation)
    posterior, prior = distributions.Normal(mean, deviation), distributions.Normal(0, 1)
    assert float(found) == pytest.approx(float(distributions.kl_divergence(posterior, prior).sum()), rel=1e-5)
    draws = mean + deviation * torch.randn(100_000, 3, generator=torch.Generator().manual_seed(0))
    terms = (posterior.log_prob(draws) - prior.log_prob(draws)).sum(dim=1)
    assert float(found) == pytest.approx(float(terms.mean()), abs=4 * float(terms.std()) / 100_000**0.5)
    assert float(divergence(torch.zeros(1, 4), torch.ones(1, 4))) == 0


def test_gradients_reach_every_parameter_and_are_finite():
    model = network()
    model.objective(torch.rand(1, *SHAPE), torch.Generator().manual_seed(0)).backward()
    for parameter in model.parameters():
        assert bool(torch.isfinite(parameter.grad).all()) and bool(parameter.grad.abs().sum() > 0)


def test_the_generator_decides_the_sample():
    model, images = network(), torch.rand(3, *SHAPE)
    one, same, other = (model.objective(images, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert one == same != other


def test_features_and_reconstructions_have_their_shapes():
    model = VAE((3, 8, 6), latent=4, hidden=5)
    images = torch.rand(2, 3, 8, 6)
    features = model.features(images)
    assert {name: tuple(values.shape) for name, values in features.items()} == {"mu": (2, 4), "sigma": (2, 4)}
    assert bool((features["sigma"] > 0).all())
    decoded = model.reconstruction(images).detach()
    assert decoded.shape == images.shape and 0 < float(decoded.min()) < float(decoded.max()) < 1
    assert model(images).equal(decoded)


@pytest.mark.parametrize("name", ["latent", "hidden"])
def test_no_units_are_refused(name):
    with pytest.raises(UserError, match=f"{name} must be an integer of at least 1, got 0"):
        build("vae", shape=SHAPE, classes=10, **{name: 0})


def test_it_learns_from_two_hundred_digits():
    model = network()
    recipe = Recipe(epochs=15, batch_size=50, learning_rate=3e-3, loss="own")
    epochs = fit(model, digits(), recipe, seed=0, device=CPU)
    assert epochs[-1].train_loss < 0.5 * epochs[0].train_loss
    assert epochs[-1].held_out_loss < 0.8 * epochs[0].held_out_loss
