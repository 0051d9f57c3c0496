"""Every option of the generative capsules does something, and wrong ones are refused."""

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build
from tests.papers.smith.small_capsules import small

BUILT = [
    {"objects": 5},
    {"parts": 5},
    {"template": 8},
    {"part_size": 0.7},
    {"part_encoder": {"padding": 0}},
    {"part_encoder": {"width": 8}},
    {"object_encoder": {"blocks": 1}},
    {"object_encoder": {"code": 8}},
    {"object_encoder": {"hidden": 16}},
    {"object_encoder": {"heads": 2}},
]


@pytest.mark.parametrize("option", BUILT, ids=str)
def test_every_option_of_the_builder_changes_the_bound(option):
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    found = []
    for params in ({}, option):
        torch.manual_seed(0)
        network = build("generative-capsules-small", shape=(1, 28, 28), classes=10, **params)
        found.append(network.objective(images, torch.Generator().manual_seed(0)))
    assert found[0] != found[1]


OPTIONS = [
    {"object_probability": 0.5},
    {"whole": {"temperature": 0.5}},
    {"whole": {"least_deviation": 0.3}},
    {"whole": {"clutter_affinity": 1.0}},
    {"whole": {"clutter_deviation": 3.0}},
    {"whole": {"off_deviation": 3.0}},
    {"whole": {"switch": "arithmetic"}},
    {"whole": {"switch": "anywhere"}},
    {"whole": {"speed": 0.3}},
    {"object_deviation": 0.5},
    {"posterior": "objects", "delta_until": 0.0},
    {"sprites": {"pixel_deviation": 0.3}},
    {"sprites": {"learned_deviation": True}},
    {"sprites": {"non_linearity": "softplus"}},
    {"sprites": {"non_linearity": "none"}},
    {"sprites": {"ground": "transparent"}},
    {"sprites": {"unit": "canvas"}},
    {"objects": {"seeds": "one"}},
    {"objects": {"points": 0}},
]


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_every_option_changes_the_bound(option):
    network, images = small()
    changed, _ = small(**option)
    both = [one.objective(images, torch.Generator().manual_seed(0)) for one in (network, changed)]
    assert both[0] != both[1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"posterior": "certain"}, "posterior must be one of delta, objects, full, got 'certain'"),
        ({"object_probability": 1.0}, "object_probability must be between 0 and 1"),
        ({"part_whole": {"switch": "x"}}, "switch must be one of geometric, arithmetic, anywhere"),
        ({"sprites": {"ground": "white"}}, "ground must be one of black, transparent"),
        ({"sprites": {"unit": "pixel"}}, "unit must be one of template, canvas"),
        ({"object_encoder": {"seeds": "two"}}, "seeds must be one of one, each"),
        *(({name: 0}, f"{name} must be an integer of at least 1, got 0") for name in ("objects", "parts", "template")),
        ({"objects": -1}, "objects must be an integer of at least 1, got -1"),
        ({"part_size": 0}, "part_size must be a number above 0, got 0"),
        ({"then": "nothing"}, "then must be one of everything, encoder, got 'nothing'"),
        ({"delta_until": 2}, "delta_until must be a number from 0 to 1, got 2"),
        ({"object_probability": 2}, "object_probability must be a number from 0 to 1, got 2.0$"),
        ({"part_whole": {"least_deviation": -1}}, "least_deviation must be a number of at least 0"),
        *(
            ({"part_whole": {name: 0}}, f"{name} must be a number above 0, got 0")
            for name in ("temperature", "clutter_affinity", "clutter_deviation", "off_deviation")
        ),
        ({"object_deviation": 0}, "object_deviation must be a number above 0, got 0"),
        ({"part_whole": {"speed": 0}}, "speed must be a number above 0, got 0"),
        (
            {"posterior": "full", "part_whole": {"switch": "anywhere"}},
            "switch anywhere needs poses of parts that are cert",
        ),
        ({"sprites": {"pixel_deviation": 0}}, "pixel_deviation must be a number above 0, got 0"),
        *(
            ({"object_encoder": {name: 0}}, f"{name} must be an integer of at least 1, got 0")
            for name in ("width", "heads", "code", "hidden")
        ),
        ({"object_encoder": {"blocks": -1}}, "blocks must be an integer of at least 0, got -1"),
        ({"part_encoder": {"width": 0}}, "width must be an integer of at least 1, got 0"),
        ({"part_encoder": {"padding": -1}}, "padding must be an integer of at least 0, got -1"),
        ({"posterior": "ful"}, "posterior must be one of delta, objects, full, got 'ful'$"),
        ({"posteriour": "full"}, "unknown argument 'posteriour'; did you mean 'posterior'"),
        ({"objekts": 3}, "unknown argument 'objekts'; did you mean 'objects'"),
        ({"sprites": {"non_linear": "none"}}, "Sprites: unknown argument 'non_linear'; did you mean 'non_linearity'"),
        ({"sprites": {"size": 5}}, "Sprites: the model sets size; give template to the model"),
        ({"part_whole": {"part_size": 0.3}}, "PartWhole: the model sets part_size; give part_size to the model"),
    ],
)
def test_wrong_options_say_what_is_right(params, message):
    with pytest.raises(UserError, match=message):
        build("generative-capsules-small", shape=(1, 28, 28), classes=10, **params)
