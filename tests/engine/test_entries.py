"""Networks without routing as methods and controls of a run: by the suite, by the command line, unasked."""

from dataclasses import replace

import pytest

from routebench.engine.suites import Choices, load_suite, plan
from routebench.engine.suites._lineup import line_up
from routebench.errors import UserError
from routebench.notation import parse
from routebench.registry import load_plugin


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


CONTROL = '\n[[baselines]]\nname = "{name}"\n{more}\nmodels = {{ capsnet-small = "{network}" }}\n'
WIDE, NARROW = (
    CONTROL.format(
        name="cnn", more=f'variant = "{word}"\nmodel_params = {{ channels = [{width}, 8] }}', network="cnn-small"
    )
    for word, width in (("wide", 16), ("narrow", 4))
)
VAE, LONGER = (
    CONTROL.format(name="vae", more=more, network="vae")
    for more in ("", 'variant = "wd"\nmodel_params = { latent = 3 }')
)
UNIFORM = '\n[[baselines]]\nname = "uniform"\nvariant = "{0}"\ntraining = {{ loss = "{0}" }}\n'


def _starting(file, **choices):
    suite = load_suite(str(file)).with_entries("quick")
    return [(one.entry.name, one.entry.variant, one.role) for one in line_up(suite, "quick", Choices(**choices))[1]]


def test_controls_of_one_name_all_run(suite_file):
    found = _starting(
        suite_file("accuracy", more=WIDE + NARROW + UNIFORM.format("spread") + UNIFORM.format("cross-entropy"))
    )
    assert [one[:2] for one in found if one[2] == "control"] == [
        ("uniform", "spread"), ("uniform", "cross-entropy"), ("random", ""), ("cnn", "wide"), ("cnn", "narrow")
    ]  # fmt: skip
    asked = _starting(suite_file("accuracy", more=WIDE + UNIFORM.format("spread")), methods=(parse("uniform"),))
    assert asked == [("uniform", "spread", "control"), ("random", "", "control"), ("cnn", "wide", "control")]


def test_one_of_two_controls_of_one_name_can_be_left_out(suite_file):
    found = _starting(suite_file("accuracy", more='without = ["narrow"]\n' + WIDE + NARROW))
    assert ("cnn", "wide", "control") in found and ("cnn", "narrow", "control") not in found


def test_controls_without_labels_of_one_name_all_run(suite_file):
    found = _starting(suite_file("linear-probe", more=VAE + LONGER))
    assert [one for one in found if one[0] == "vae"] == [("vae", "", "control"), ("vae", "wd", "control")]


def test_a_control_that_another_suite_lacks_stays_beside_one_of_its_name(suite_file, tmp_path):
    other = suite_file("accuracy", more=WIDE, name="other")
    file = suite_file("accuracy", more=f'entries_of = "{other}"\n' + WIDE + NARROW)
    assert [one[1] for one in _starting(file) if one[0] == "cnn"] == ["wide", "narrow"]


@pytest.mark.parametrize(
    "more",
    [
        VAE + VAE,
        VAE + VAE.replace("models", "training = { epochs = 3 }\nmodels"),
        VAE + VAE.replace('"vae" }', '["scae", "vae"] }'),
        WIDE + NARROW.replace("narrow", "wide"),
        UNIFORM.format("spread") + UNIFORM.format("spread").replace('loss = "spread"', "epochs = 3"),
        '\n[[methods]]\nname = "dynamic"\niterations = [7]\n',
        '\n[[methods]]\nname = "dynamic"\nparams = { detach = false }\n',
        '\n[[methods]]\nname = "dynamic"\nmodels = { capsnet-small = "capsnet-small" }\n',
        '\n[[methods]]\nname = "uniform"\ntraining = { epochs = 3 }\n',
    ],
)
def test_entries_that_read_the_same_are_refused(suite_file, more):
    with pytest.raises(
        UserError, match="is there twice and reads the same; tell the configurations apart by `variant`"
    ):
        load_suite(str(suite_file("accuracy", more=more)))


@pytest.mark.parametrize("other", ["caf\u00e9 ", " caf\u00e9", "caf\u00e9  ", "cafe\u0301"])
def test_variants_that_look_the_same_are_refused(suite_file, other):
    slow = '\n[[methods]]\nname = "em"\nvariant = "{}"\n'
    with pytest.raises(UserError, match="is there twice and reads the same"):
        load_suite(str(suite_file("accuracy", more=slow.format("caf\u00e9") + slow.format(other))))


def test_a_method_that_is_named_twice_runs_once_however_its_numbers_are_written(suite_file):
    named = tuple(map(parse, ("em[final_lambda=1]", "em[final_lambda=1.0]", "em[final_lambda=0.5]")))
    starters = line_up(load_suite(str(suite_file("accuracy"))), "quick", Choices(methods=named))[1]
    assert [one.entry.params for one in starters if one.entry.name == "em"] == [
        {"final_lambda": 1},
        {"final_lambda": 0.5},
    ]


def test_a_control_that_is_listed_as_a_method_too_is_one_entry(suite_file):
    assert ("uniform", "", "control") in _starting(suite_file("accuracy", more='\n[[methods]]\nname = "uniform"\n'))


def test_plugins_of_one_file_name_that_fail_are_both_told(suite_file, tmp_path):
    files = [tmp_path / folder / "mine.py" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.touch()
    broken = dict(zip(map(str, files), ("no torch", "no numpy"), strict=True))
    starters = line_up(load_suite(str(suite_file("accuracy"))), "quick", Choices(broken=broken))[1]
    assert [one.fault for one in starters if one.lost] == ["no torch; no numpy"]


def test_of_two_entries_of_one_method_that_are_tuned_one_may_fail(suite):
    chosen = Choices(methods=(parse("dynamic"), parse("dynamic[leaky=true]")), faulty={"dynamic[leaky=true]": "no"})
    cells = plan(suite(), "quick", replace(chosen, tuning=True)).cells
    assert {(cell.label, cell.broken) for cell in cells} >= {("dynamic", ""), ("dynamic[leaky=true]", "no")}
    assert ("dynamic", "no") not in {(cell.label, cell.broken) for cell in cells}
