"""The part decoder of a stacked capsule autoencoder, against plain loops."""

import pytest
import torch

from routebench.papers.smith.models.affine_poses import pose_of
from routebench.papers.smith.models.stacked.part_decoder import PartDecoder
from routebench.papers.smith.models.stacked.part_encoder import Parts
from routebench.papers.smith.models.templates import warp
from tests.papers.smith import scae as plain
from tests.papers.smith.spread import spread
from tests.references.problem import assert_close


def decoder_of(**options):
    torch.manual_seed(0)
    sizes = {"parts": 3, "features": 2, "template": 4, "coloured": True, "weighed": True, "deviation": 1.0}
    made = PartDecoder((1, 6, 5), **{**sizes, **options}).double()
    for value in made.parameters():
        value.data += 0.5 * torch.randn_like(value)
    return made


def parts_of(batch=2):
    poses = pose_of(0.3 * spread(batch, 3, 6) + torch.tensor([1.0, 1, 0, 0, 0, 0]))
    return Parts(poses, spread(batch, 3, seed=1), spread(batch, 3, 2, seed=2))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("deviation", [1.0, 0.2])
def test_likelihood_of_pixels_is_that_of_plain_loops(batch, deviation):
    decoder, parts = decoder_of(deviation=deviation), parts_of(batch)
    images = spread(batch, 1, 6, 5, seed=3).sigmoid()
    found = decoder.log_likelihood(images, parts)
    moved = warp(decoder.logits.sigmoid(), parts.poses, (6, 5))
    alphas = warp(decoder.alphas, parts.poses, (6, 5))
    for image in range(batch):
        colours = decoder.colour(parts.features[image]).sigmoid()[:, 0]
        templates = (moved[:, image, 0] * colours[:, None, None]).flatten(1)
        weights = (alphas[:, image, 0].exp() * parts.presences[image].sigmoid()[:, None, None]).flatten(1)
        ground = decoder.ground.sigmoid().item(), (1 + decoder.ground_weight.exp()).item()  # exp(softplus(x))
        expected = plain.pixels(
            images[image].flatten().tolist(), templates.tolist(), weights.tolist(), *ground, deviation
        )
        assert found[image].item() == pytest.approx(expected, rel=1e-9)


def test_colours_before_and_after_moving_are_the_same():
    decoder, parts = decoder_of(), parts_of()
    coloured = decoder.coloured(parts)
    for image in range(2):
        one = Parts(*(value[image : image + 1] for value in (parts.poses, parts.presences, parts.features)))
        assert_close(decoder.draw(one).values[:-1], warp(coloured[image], one.poses, (6, 5)))


def test_pictures_are_of_the_heaviest_and_of_the_mean():
    decoder, parts = decoder_of(), parts_of()
    drawing = decoder.draw(parts)
    shares = drawing.weights.exp() / drawing.weights.exp().sum(dim=0)
    assert_close(decoder.picture(parts, of="mean"), sum(shares[k] * drawing.values[k] for k in range(4)))
    mode = decoder.picture(parts)
    for b, y, x in [(0, 0, 0), (0, 3, 2), (1, 5, 4), (1, 2, 3)]:
        best = max(range(4), key=lambda k: drawing.weights[k, b, 0, y, x].item())
        assert mode[b, 0, y, x].item() == drawing.values[best, b, 0, y, x].item()


def test_templates_start_orthogonal_but_for_their_mean():
    torch.manual_seed(0)
    decoder = PartDecoder((1, 28, 28), parts=24, features=2, template=11, coloured=False, weighed=False, deviation=1.0)
    assert decoder.logits.min().item() == 0 and decoder.logits.max().item() == pytest.approx(1)
    rows = decoder.logits.detach().flatten(1)
    scale = 1 / rows.var(dim=1, unbiased=False).sum().sqrt()
    assert float((rows - rows.mean()).mul(scale).norm()) > 1
    assert torch.linalg.matrix_rank(rows) == 24
