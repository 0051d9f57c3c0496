"""Heads on tokens."""

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build
from routebench.models.heads import TokenHead
from routebench.models.network import count_parameters
from routebench.models.smallest import expect_buildable
from routebench.registry import models

HEADS = ("token-linear", "token-mlp", "token-attention")


def made(name: str = "token-capsules", *, shape=(16, 320), classes=10, method=None, **params):
    method = method or ("uniform" if name == "token-capsules" else None)
    torch.manual_seed(0)
    return build(name, shape=shape, classes=classes, method=method, **params).eval()


@pytest.mark.parametrize("shape", [(16, 320), (9, 1280), (196, 64)])
@pytest.mark.parametrize("types", [2, 4])
def test_baselines_with_a_hidden_layer_are_as_large_as_capsules(shape, types):
    capsules = count_parameters(made(shape=shape, types=types))
    for name in HEADS[1:]:
        assert abs(count_parameters(made(name, shape=shape, types=types)) / capsules - 1) < 0.05, name


@pytest.mark.parametrize("name", [*HEADS, "token-capsules"])
def test_the_order_of_tokens_does_not_matter(name):
    network, tokens = made(name), torch.randn(3, 16, 320)
    order = torch.randperm(16)
    assert torch.allclose(network(tokens[:, order]).logits, network(tokens).logits, atol=1e-4)


def test_it_matters_where_each_token_has_matrices_of_its_own():
    network, tokens = made(matrices="each"), torch.randn(3, 16, 320)
    assert not torch.allclose(network(tokens.flip(1)).logits, network(tokens).logits, atol=1e-2)
    assert count_parameters(network) - count_parameters(made()) == 15 * 4 * 10 * 8 * 16


@pytest.mark.parametrize("name", HEADS)
def test_baselines_leave_out_what_is_masked(name):
    network, tokens = made(name), torch.randn(3, 16, 320)
    if name == "token-attention":
        torch.nn.init.normal_(network.query)
    mask = torch.rand(3, 16) < 0.5
    mask[:, 0] = True
    found = network(tokens.masked_fill(~mask[..., None], torch.nan), mask).logits
    alone = [network(one[there][None]).logits[0] for one, there in zip(tokens, mask, strict=True)]
    assert torch.allclose(found, torch.stack(alone), atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_an_item_without_tokens_gives_the_classifiers_bias_and_finite_gradients(name):
    network, mask = made(name), torch.zeros(2, 16, dtype=torch.bool)
    mask[0] = True
    logits = network(torch.randn(2, 16, 320), mask).logits
    assert torch.equal(logits[1], network.classifier.bias)
    logits.sum().backward()
    assert all(one.grad.isfinite().all() for one in network.parameters())


def test_attention_pooling_is_the_mean_until_it_has_learned_a_query():
    head, mean = (TokenHead(32, 4, hidden=8, attends=attends) for attends in (True, False))
    head.load_state_dict(mean.state_dict(), strict=False)
    tokens = torch.randn(3, 5, 32)
    assert torch.allclose(head(tokens).logits, mean(tokens).logits, atol=1e-6)
    torch.nn.init.normal_(head.query)
    units = head.body(head.norm(tokens))
    weights = (units @ head.query / 8**0.5).softmax(dim=1)
    expected = head.classifier((weights[..., None] * units).sum(dim=1))
    assert torch.allclose(head(tokens).logits, expected, atol=1e-5)


def test_a_hidden_layer_is_routed_by_the_same_method():
    network = made(method="em", hidden=6, method_params={"iterations": 2})
    assert [layer.routing.sizes.parents for layer in network.layers] == [6, 10]
    answer = network(torch.randn(2, 16, 320))
    assert answer.logits.shape == (2, 10) and [capsules.poses.shape[1] for capsules in answer.layers] == [16, 6, 10]


@pytest.mark.parametrize("presence", ["length", "logistic", "none"])
def test_primary_capsules_are_those_of_a_convolution_with_a_window_of_one_token(presence):
    network, tokens = made(presence=presence), torch.randn(2, 16, 320)
    maps = network.features(tokens).transpose(1, 2)[..., None]
    by_window = super(type(network.primary), network.primary).forward(maps)
    found = network.primary(network.features(tokens))
    assert torch.allclose(found.poses, by_window.poses, atol=1e-5)
    assert torch.allclose(found.activations, by_window.activations, atol=1e-5)


def test_normalisation_takes_the_scale_of_a_token_away():
    tokens = torch.randn(2, 16, 320)
    assert torch.allclose(made()(3 * tokens + 1).logits, made()(tokens).logits, atol=1e-3)
    assert not torch.allclose(made(normalise=False)(3 * tokens).logits, made(normalise=False)(tokens).logits, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("capsnet-small", (16, 320), r"expected images, got tokens of shape \(16, 320\); tokens are read by token-"),
        ("cnn-small", (16, 320), "expected images, got tokens"),
        ("token-capsules", (1, 28, 28), r"expected tokens, got images of shape \(1, 28, 28\); images are read by"),
        ("token-mlp", (3, 32, 32), "expected tokens, got images"),
    ],
)
def test_a_network_of_the_other_kind_is_refused(name, shape, expected):
    with pytest.raises(UserError, match=expected):
        build(name, shape=shape, classes=10, method="uniform" if models[name].facts.routed else None)
    with pytest.raises(UserError, match=expected):
        expect_buildable(name, shape, 10, {})
