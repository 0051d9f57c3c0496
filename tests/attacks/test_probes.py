"""Probes see what is hidden from the gradient, and nothing where nothing is hidden."""

import pytest
import torch

from routebench.attacks import constant_coupling, difference, gradient_profile, largest_difference, under_attack
from routebench.attacks._losses import cross_entropy
from routebench.attacks._victim import scaled
from routebench.models import build
from tests.attacks.networks import Noisy, Rounded, Sure, honest, images

CPU = torch.device("cpu")


def profile(network, loss):
    with under_attack(network, CPU) as victim:
        return gradient_profile(victim, loss, images().pixels, images().labels)


def test_a_profile_is_that_of_the_gradient():
    inputs = scaled(images().pixels, CPU).requires_grad_()
    difference(honest()(inputs), images().labels).backward()
    gradient = inputs.grad.double()
    found = profile(honest(), difference)
    assert found["zero_gradient_elements"] == pytest.approx(100 * float((gradient == 0).double().mean()))
    assert found["gradient_magnitude"] == pytest.approx(float(gradient.abs().mean()))
    assert found["zero_gradient_images"] == found["broken_gradient_images"] == 0


def test_rounded_logits_have_no_gradient():
    found = profile(Rounded(), difference)
    assert found["zero_gradient_images"] == found["zero_gradient_elements"] == 100


def test_cross_entropy_of_a_sure_network_has_none_and_the_difference_of_logits_has_one():
    assert profile(Sure(), cross_entropy)["zero_gradient_images"] > 90
    assert profile(Sure(), difference)["zero_gradient_images"] == 0


def test_only_a_random_network_answers_differently():
    with under_attack(honest(), CPU) as victim:
        assert largest_difference(victim, images().pixels) == 0
    with under_attack(Noisy(), CPU) as victim:
        assert largest_difference(victim, images().pixels) > 0.01


def capsules(method, **params):
    torch.manual_seed(1)
    return build("capsnet-small", shape=(1, 28, 28), classes=10, method=method, method_params=params).eval()


def input_gradient(network):
    inputs = scaled(images().pixels[:6], CPU).requires_grad_()
    output = network(inputs)
    difference(output, images().labels[:6]).backward()
    return output.logits.detach(), inputs.grad


@pytest.mark.parametrize("method", ["dynamic", "em", "inverted-attention"])
def test_around_the_loop_answers_are_the_same_and_gradients_are_not(method):
    network = capsules(method, iterations=3)
    logits, through = input_gradient(network)
    with constant_coupling(network):
        same, around = input_gradient(network)
    assert torch.allclose(logits, same, atol=1e-5)
    assert (through - around).abs().max() > 0.01 * through.abs().max()
    assert torch.equal(input_gradient(network)[1], through)  # the network is as it was


def test_around_the_loop_is_what_detaching_the_coupling_is():
    network, detached = capsules("dynamic", iterations=3), capsules("dynamic", iterations=3, detach=True)
    detached.load_state_dict(network.state_dict())
    with constant_coupling(network):
        assert torch.allclose(input_gradient(network)[1], input_gradient(detached)[1], atol=1e-6)


@pytest.mark.parametrize("method", ["uniform", "random", "none"])
def test_without_a_loop_there_is_nothing_to_go_around(method):
    network = capsules(method)
    through = input_gradient(network)[1]
    with constant_coupling(network):
        assert torch.allclose(input_gradient(network)[1], through, atol=1e-6)
