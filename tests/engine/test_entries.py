"""Networks without routing as methods and controls of a run: by the suite, by the command line, unasked."""

import pytest

from routebench.engine.suites._lineup import Choices
from routebench.engine.suites._plan import plan
from routebench.engine.suites._suite import load_suite
from routebench.errors import UserError
from routebench.registry import load_plugin
from routebench.routing.spec import parse


def test_a_suite_of_models_without_labels_runs_no_routing_and_each_model_once(no_data):
    made = plan(load_suite("smith-probes"), "smoke", Choices())
    methods = [cell.identity.method for cell in made.cells]
    assert sorted(methods) == ["generative-capsules"] * 2 + ["scae", "top-down-capsules", "vae"]
    roles = {cell.identity.method: cell.identity.role for cell in made.cells}
    assert roles["generative-capsules"] == "method" and roles["vae"] == "control"


def _smith(*methods, suite="smith-probes", **choices):
    return plan(load_suite(suite), "smoke", Choices(methods=tuple(map(parse, methods)), **choices))


def test_a_network_without_routing_takes_settings_from_the_command_line(no_data):
    made = _smith("generative-capsules[posterior=full]", "vae[latent=3]")
    told = {cell.label: cell.identity for cell in made.cells}
    assert told["generative-capsules (posterior=full)"].model_params == {"posterior": "full"}
    assert told["vae (latent=3)"].model_params == {"latent": 3}
    assert told["vae (latent=3)"].role == "method" and told["vae"].role == "control"
    assert "generative-capsules" not in told  # another of its settings was asked for
    assert {cell.label for cell in _smith("generative-capsules").cells} >= {"generative-capsules", "scae"}


@pytest.mark.parametrize(
    ("methods", "choices", "message"),
    [
        (["generative-capsules[posterior=ful]"], {}, "posterior must be one of delta, objects, full, got 'ful'"),
        (["generative-capsules[iterations=3]"], {}, "without routing, and has no iterations"),
        (["vae"], {}, r"runs beside every method, unasked .*--method 'vae\[NAME=VALUE\]'"),
        (["vae"], {"suite": "smith-inference"}, "without routing; suite smith-inference does not run it"),
        (["generative-capsules-small"], {}, "without routing; the suite calls it 'generative-capsules'"),
        (["generative-capsule"], {}, "unknown method 'generative-capsule'; did you mean 'generative-capsules'"),
        ([], {"models": ("generative-capsule",)}, "^unknown model 'generative-capsule'; did you mean"),
        ([], {"models": ("vae[latent=3]",)}, r"expected a name alone.*--method 'vae\[latent=3\]'"),
    ],
)
def test_a_wrong_network_on_the_command_line_is_told_what_is_wrong(methods, choices, message, no_data):
    with pytest.raises(UserError, match=message):
        _smith(*methods, **choices)


UNSUPERVISED = """
import torch
from routebench import models

class Mean(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.guess = torch.nn.Parameter(torch.zeros(()))
    def objective(self, images, generator):
        return (images.mean(dim=(1, 2, 3)) - self.guess).square().mean()
    def features(self, images):
        return {"mean": images.mean(dim=(2, 3))}

@models.register("mean-of-pixels")
@models.facts(source="a test", routed=False, unsupervised=True)
def mean_of_pixels(shape, classes):
    return Mean()
"""


def test_an_unsupervised_model_of_a_plugin_is_measured_unasked_where_the_protocol_measures_such(tmp_path, parts):
    plugin = tmp_path / "mean_of_pixels.py"
    plugin.write_text(UNSUPERVISED)
    load_plugin(str(plugin))
    made = plan(load_suite("linear-probe"), "smoke", Choices(methods=(parse("dynamic"),)))
    (cell,) = (cell for cell in made.cells if cell.identity.method == "mean-of-pixels")
    request = cell.request()
    assert (request.model, request.method, request.recipe.loss) == ("mean-of-pixels", None, "own")
    assert (request.recipe.epochs, cell.identity.role) == (1, "control")
    assert "vae" in {cell.identity.method for cell in made.cells}
    elsewhere = plan(load_suite("accuracy"), "smoke", Choices(methods=(parse("dynamic"),)))
    assert not {"vae", "mean-of-pixels"} & {cell.identity.method for cell in elsewhere.cells}
