"""Named recipes: what they hold, how tables are merged over them, and how suites and `list` take them."""

import json

import pytest
import torch
from click.testing import CliRunner

from routebench.cli import cli
from routebench.engine.suites import load_suite
from routebench.errors import UserError
from routebench.optimizers import make_optimizer
from routebench.recipe import STORED_AS, Moment, Recipe
from routebench.recipes import merged, recipes, settings_of
from routebench.registry import extensions, load_plugin

SUITE = """
question = "?"
version = 1
protocol = "accuracy"
[training]
TRAINING
[[methods]]
name = "dynamic"
training = { METHOD }
[presets.smoke]
data = "mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
training = { PRESET }
"""


@pytest.fixture
def recipe_of(tmp_path):
    """The recipe of a suite with these tables, as a plan makes it."""

    def read(training="", method="", preset=""):
        file = tmp_path / "mine.toml"
        file.write_text(SUITE.replace("TRAINING", training).replace("METHOD", method).replace("PRESET", preset))
        suite = load_suite(str(file))
        return suite.recipe(suite.preset("smoke").training, suite.methods[0].training)

    return read


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_can_be_trained_with(name):
    recipe = Recipe(**settings_of(name))
    assert recipe.rate_at(Moment(0, 0.0, 0)) == recipe.learning_rate
    assert recipes()[name].source


@pytest.mark.parametrize(
    ("name", "epoch", "rate"),
    [("tsai", 149, 0.1), ("tsai", 150, 0.01), ("tsai", 250, 1e-3), ("tsai-dynamic", 349, 1e-5), ("tsai-em", 200, 1e-3)],
)
def test_rates_of_tsai_fall_twice(name, epoch, rate):
    recipe = Recipe(**settings_of(name))
    assert (recipe.epochs, recipe.batch_size, recipe.augmentation) == (350, 128, "pad-crop-flip")
    assert recipe.rate_at(Moment(0, 0.0, epoch)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("name", "step", "rate"),
    [
        ("sabour", 2000, 0.96e-3),
        ("kiefer", 4000, 0.96**2 * 1e-3),
        ("hinton-em", 20_000, 0.96 * 3e-3),
        ("hinton-em-code", 40_000, 0.96**2 * 1e-2),
        ("smallnorb-cnn", 20_000, 0.96 * 1.1e-3),
    ],
)
def test_rates_of_adam_fall_by_steps(name, step, rate):
    recipe = Recipe(**settings_of(name))
    assert recipe.optimiser == "adam"
    assert recipe.rate_at(Moment(step, 0.0, 1000)) == pytest.approx(rate)


def test_rmsprop_of_scae_takes_the_steps_of_its_formula():
    """Means of squares that start at 1, 0.01 / 128^2 under the root, and momentum 0.9 of whole steps."""
    recipe = Recipe(**settings_of("scae"))
    layer = torch.nn.Linear(1, 1, bias=False)
    optimiser, (value,) = make_optimizer(layer, recipe), layer.parameters()
    expected, square, speed = value.item(), 1.0, 0.0
    for gradient in (0.3, -2.0, 1e-3, 0.0):
        value.grad = torch.full_like(value, gradient)
        optimiser.step()
        square = 0.9 * square + 0.1 * gradient**2
        speed = 0.9 * speed + 3e-5 * gradient / (square + 0.01 / 128**2) ** 0.5
        expected -= speed
        assert value.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("gradient", "share"), [(1e-6, 0.94), (1e-7, 0.64)])
def test_adam_of_tensorflow_moves_less_by_the_share_that_its_docstring_tells(gradient, share):
    """Steps of TensorFlow 1: rate sqrt(1 - 0.999^t) / (1 - 0.9^t) m / (sqrt(v) + 1e-8)."""
    recipe = Recipe(**settings_of("sabour"))
    layer = torch.nn.Linear(1, 1, bias=False).double()
    optimiser, (value,) = make_optimizer(layer, recipe), layer.parameters()
    start, theirs, first, second = value.item(), 0.0, 0.0, 0.0
    for step in range(1, 51):
        value.grad = torch.full_like(value, gradient)
        optimiser.step()
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        rate = recipe.learning_rate * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
        theirs += rate * first / (second**0.5 + 1e-8)
    assert theirs / (start - value.item()) == pytest.approx(share, abs=0.005)


def test_kiefer_is_13_epochs_of_sabour():
    assert settings_of("kiefer") == {**settings_of("sabour"), "epochs": 13}


@pytest.mark.parametrize("suite", ["hinton-table1", "hinton-viewpoint"])
def test_the_cnn_of_hinton_keeps_its_recipe_where_a_preset_names_another(suite):
    suite = load_suite(suite)
    (cnn,) = (entry for entry in suite.controls if entry.name == "cnn")
    found = suite.recipe(suite.preset("full").training, cnn.training)
    assert (found.learning_rate, found.loss, found.augmentation) == (1.1e-3, "cross-entropy", "smallnorb-jitter")
    assert found.epochs == 100


def test_a_recipe_is_where_settings_start(recipe_of):
    assert recipe_of(training='recipe = "tsai"') == Recipe(**settings_of("tsai"))


def test_keys_beside_it_replace_its_own(recipe_of):
    found = recipe_of(training='recipe = "tsai"\nepochs = 2')
    assert found == Recipe(**{**settings_of("tsai"), "epochs": 2})


def test_the_last_named_recipe_replaces_all_of_an_earlier_one(recipe_of):
    found = recipe_of(training='recipe = "sabour"', method='recipe = "hinton-em"')
    assert found == Recipe(**settings_of("hinton-em"))
    assert found.reconstruction == 0.0


def test_what_is_written_out_holds_over_a_later_recipe(recipe_of):
    """A preset that shortens training shortens it for a method with a recipe of its own."""
    found = recipe_of(preset="epochs = 1", method='recipe = "tsai"')
    assert (found.epochs, found.learning_rate) == (1, 0.1)


def test_a_method_without_one_keeps_that_of_the_suite(recipe_of):
    found = recipe_of(training='recipe = "sabour"', method='loss = "spread"')
    assert (found.decay_steps, found.loss) == (2000, "spread")


def test_tables_without_a_recipe_are_merged_as_ever():
    assert merged({"epochs": 3, "loss": "margin"}, {"epochs": 1}) == {"epochs": 1, "loss": "margin"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"training": 'recipe = "tsay"'},
            r"mine.toml: key 'training.recipe': unknown recipe 'tsay'; did you mean 'tsai'",
        ),
        (
            {"method": 'recipe = "sabor"'},
            r"methods\[0\].training.recipe': unknown recipe 'sabor'; did you mean 'sabour'",
        ),
        ({"preset": "recipe = 3"}, "presets.smoke.training.recipe': expected the name of a recipe, got 3"),
    ],
    ids=["suite", "method", "preset"],
)
def test_a_name_that_is_none_is_told(recipe_of, given, says):
    with pytest.raises(UserError, match=says):
        recipe_of(**given)


def test_an_unknown_name_gives_the_nearest_in_code_too():
    with pytest.raises(UserError, match="unknown recipe 'kiefr'; did you mean 'kiefer'"):
        merged({"recipe": "kiefr"})


def test_a_written_out_value_that_is_not_allowed_is_told(recipe_of):
    with pytest.raises(
        UserError, match=r"mine\.toml: key 'training\.loss': unknown loss 'margn'; did you mean 'margin'"
    ):
        recipe_of(training='recipe = "tsai"\nloss = "margn"')


def test_recipes_are_listed():
    text = CliRunner().invoke(cli, ["list", "recipes"], catch_exceptions=False).output
    assert all(f"  {name} " in text and recipe.source in text for name, recipe in recipes().items())
    known = json.loads(CliRunner().invoke(cli, ["list", "recipes", "--json"], catch_exceptions=False).output)
    settings = {entry["name"]: entry["settings"] for entry in known}
    stored = {name: {STORED_AS.get(key, key): one for key, one in found.items()} for name, found in settings.items()}
    assert stored == {name: json.loads(json.dumps(dict(recipe.settings))) for name, recipe in recipes().items()}
    assert settings["tsai"]["optimizer"] == "sgd"


def test_a_plugin_folder_brings_recipes(tmp_path):
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "recipes.toml"
    file.write_text('[mine]\nsource = "me"\nrecipe = "tsai"\nepochs = 3\n')
    (tmp_path / "mine" / "published.csv").touch()
    with extensions.restored():
        load_plugin(str(tmp_path / "mine"))
        assert settings_of("mine") == {**settings_of("tsai"), "epochs": 3}
    with pytest.raises(UserError, match="unknown recipe 'mine'"):
        settings_of("mine")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[mine", r"recipes.toml: cannot be read"),
        ("[mine]\nepochs = 3", r"expected a table with a text 'source', got {'epochs': 3}"),
        ("mine = 3", r"expected a table with a text 'source', got 3"),
        ('[tsai]\nsource = "me"', r"recipe 'tsai' of .*recipes.toml is there already; choose another name"),
        ('[mine]\nsource = "me"\nrecipe = "tsay"', "unknown recipe 'tsay'; did you mean 'tsai'"),
        ('[mine]\nsource = "me"\nrecipe = "mine"', "expected a recipe that does not take its own settings"),
        ('[mine]\nsource = "me"\noptimiser = "sgd"\noptimizer = "adam"', "expected one of 'optimizer' and 'optimiser'"),
        ('[mine]\nsource = "me"\nepoch = 3', "unknown key 'epoch'; did you mean 'epochs'"),
        ('[mine]\nsource = "me"\nepochs = "3"', r"recipe 'mine' of .*recipes\.toml: training: epochs"),
    ],
)
def test_bad_recipes_of_a_plugin_are_told_in_one_line(tmp_path, text, says):
    (tmp_path / "recipes.toml").write_text(text)
    (tmp_path / "published.csv").touch()
    with extensions.restored():
        load_plugin(str(tmp_path))
        with pytest.raises(UserError, match=says) as told:
            recipes()
    assert "\n" not in str(told.value)
