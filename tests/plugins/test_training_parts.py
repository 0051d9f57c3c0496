"""Losses, optimizers, schedules and augmentations of one's own."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import routebench
from routebench.augmentations import augmented
from routebench.data import Images, TrainingData
from routebench.engine.suites import Choices, NamedParts, load_suite, plan
from routebench.errors import UserError
from routebench.losses import Output, loss_at_end, takes_several
from routebench.models import build
from routebench.optimizers import make_optimizer
from routebench.recipe import REGISTRIES, Moment, Recipe
from routebench.registry import augmentations, extensions, losses, optimizers, schedules
from routebench.training import fit

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_training.py"
OWN = {"loss": "focal[gamma=3]", "optimiser": "nadam", "schedule": "polynomial[power=2]", "augmentation": "erasing"}
SHORT = Recipe(epochs=1, batch_size=8, learning_rate=1e-2)


@pytest.fixture
def mine():
    extensions.load_plugin(str(EXAMPLE))


def data():
    drawn = torch.Generator().manual_seed(0)
    images = Images(torch.randint(256, (24, 1, 28, 28), generator=drawn, dtype=torch.uint8), torch.arange(24) % 10)
    return TrainingData("drawn", tuple("0123456789"), images, images, "")


def weights_of(recipe):
    torch.manual_seed(0)
    network = build("capsnet-small", shape=(1, 28, 28), classes=10, method="uniform")
    epochs = fit(network, data(), recipe, seed=0, device=torch.device("cpu"))
    return torch.cat([value.flatten() for value in network.state_dict().values()]), epochs


class TestWhatItDoes:
    def test_a_loss_gives_its_formula(self, mine):
        logits, labels = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2, 0])
        for gamma in (0.0, 3.0):
            found = loss_at_end(f"focal[gamma={gamma}]")(Output(logits, logits), labels)
            p = [float(logits[i].softmax(0)[label]) for i, label in enumerate(labels)]
            expected = sum(-((1 - one) ** gamma) * math.log(one) for one in p) / 6
            assert float(found) == pytest.approx(expected, rel=1e-12)

    def test_a_schedule_gives_the_rates_and_is_warmed_up(self, mine):
        recipe = Recipe(learning_rate=0.1, schedule="polynomial[power=2]", warmup_steps=4)
        found = [recipe.rate_at(Moment(step, step / 10, 0)) for step in range(6)]
        assert found == pytest.approx([0.1 * (1 - s / 10) ** 2 * min(1, (s + 1) / 4) for s in range(6)])

    def test_an_augmentation_draws_from_the_generator(self, mine):
        images = torch.ones(50, 2, 20, 20)
        changed = augmented("erasing[share=0.5]", images, torch.Generator().manual_seed(0))
        assert float(changed.mean()) == pytest.approx(0.5, abs=0.02)
        assert changed.equal(augmented("erasing[share=0.5]", images, torch.Generator().manual_seed(0)))

    def test_an_optimizer_has_the_groups_and_the_decay_of_the_recipe(self, mine):
        network = build("cnn-small", shape=(1, 28, 28), classes=10)
        recipe = Recipe(optimiser="nadam", weight_decay=0.1, decayed="weights")
        made = make_optimizer(network, recipe)
        assert isinstance(made, torch.optim.NAdam)
        assert [group["weight_decay"] for group in made.param_groups] == [0.1, 0.0]

    @pytest.mark.parametrize("setting", OWN)
    def test_each_changes_what_is_trained(self, mine, setting):
        plain, own = weights_of(SHORT)[0], weights_of(replace(SHORT, **{setting: OWN[setting]}))[0]
        assert own.isfinite().all()
        assert not torch.equal(plain, own)

    def test_each_of_its_hyperparameters_does(self, mine):
        for setting, one, other in (
            ("loss", "focal", "focal[gamma=0.5]"),
            ("schedule", "polynomial", "polynomial[power=3]"),
            ("augmentation", "erasing", "erasing[share=0.9]"),
        ):
            found = [weights_of(replace(SHORT, **{setting: value}))[0] for value in (one, other)]
            assert not torch.equal(*found), setting

    def test_training_goes_on_where_it_stopped(self, mine, tmp_path):
        recipe = replace(SHORT, epochs=2, **OWN)
        whole, file = weights_of(recipe)[0], tmp_path / "checkpoint.safetensors"
        networks = []
        for epochs in (1, 2):
            torch.manual_seed(0)
            networks.append(build("capsnet-small", shape=(1, 28, 28), classes=10, method="uniform"))
            stopped = replace(recipe, epochs=epochs, schedule="constant")
            fit(networks[-1], data(), stopped, seed=0, device=torch.device("cpu"), checkpoint=file)
        going = torch.cat([value.flatten() for value in networks[-1].state_dict().values()])
        assert torch.equal(going, weights_of(replace(recipe, schedule="constant"))[0])
        assert not torch.equal(going, whole)


class TestIdentity:
    def planned(self, **training):
        told = [f"training.{'optimizer' if key == 'optimiser' else key}={value}" for key, value in training.items()]
        return plan(load_suite("accuracy", "smoke", told), "smoke", Choices()).cells[0]

    def test_defaults_and_numbers_are_written_one_way(self, mine):
        assert Recipe(loss="focal[gamma=2]").loss == Recipe(loss=" focal[ gamma = 2.0 ]").loss == "focal"
        assert Recipe(loss="focal[gamma=3]").loss == "focal[gamma=3.0]"
        assert self.planned(loss="focal[gamma=2]").key == self.planned(loss="focal").key
        assert len({self.planned(**{setting: value}).key for setting, value in OWN.items()} | {self.planned().key}) == 5

    @pytest.mark.parametrize("setting", OWN)
    def test_its_code_counts_unless_it_says_a_version(self, write, setting):
        text = EXAMPLE.read_text()
        kind = REGISTRIES[setting].kind
        name = OWN[setting].partition("[")[0]

        def identity(text):
            with extensions.restored():
                extensions.load_plugin(str(write({"mine.py": text})))
                return self.planned(**{setting: OWN[setting]})

        first = identity(text)
        assert first.identity.source
        assert first.plugins
        assert identity(text.replace("import torch\n", "import torch\n\nNEW = 1\n", 1)).key != first.key
        said = text.replace(f'register("{name}")', f'register("{name}", version=1)')
        known = identity(said)
        assert known.identity.source is None
        assert known.identity.versions == {setting: 1}
        assert identity(said.replace("import torch\n", "import torch\n\nNEW = 1\n", 1)).key == known.key
        assert identity(said.replace("version=1", "version=2")).key != known.key
        assert kind in ("loss", "optimizer", "schedule", "augmentation")

    def test_what_ships_has_the_versions_that_results_hold(self):
        training = {"loss": "spread-sigmoid", "optimiser": "rmsprop", "augmentation": "smallnorb-jitter-yl1993"}
        parts = NamedParts("capsnet-small", "mnist5k", "em", {}, training, protocol="accuracy")
        assert parts.versions().items() >= dict.fromkeys(training, 2).items()
        assert parts.source() is None


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"loss": "focal[gamma=-1]"}, "loss 'focal': gamma must be a number of at least 0, got -1"),
            ({"loss": "focal[gama=1]"}, "loss 'focal' has no hyperparameter 'gama'; did you mean 'gamma'"),
            ({"loss": "focal[gamma=1,gamma=2]"}, "loss 'focal[gamma=1,gamma=2]': 'gamma' is given twice"),
            ({"loss": "focla"}, "unknown loss 'focla'; did you mean 'focal'"),
            ({"optimiser": "nadam["}, "expected an optimizer as NAME or NAME[key=value,...], got 'nadam['"),
            ({"optimiser": ""}, "expected an optimizer as NAME"),
        ],
    )
    def test_a_value_that_is_not_legal_is_told(self, mine, given, told):
        with pytest.raises(UserError) as raised:
            Recipe(**given)
        assert told in str(raised.value)

    @pytest.mark.parametrize("value", ["3", "true", "[1]", "{ a = 1 }"])
    def test_a_value_that_is_no_text_is_told(self, value):
        with pytest.raises(
            UserError, match=r"key '.*training\.schedule': expected the name of a registered schedule, got"
        ):
            load_suite("accuracy", "smoke", [f"training.schedule={value}"])

    @pytest.mark.parametrize(
        ("registry", "text", "told"),
        [
            (losses, "lambda output, labels: 0", "expected a function of output, labels, moment"),
            (losses, "lambda output, labels, moment, gamma=1: 0", "its hyperparameters after a *"),
            (losses, "lambda output, labels, moment, **more: 0", "its hyperparameters after a *"),
            (losses, "lambda output, labels, moment, *, gamma: 0", "got none for 'gamma'; give it one"),
            (optimizers, "lambda parameters: 0", "expected a function of groups, recipe"),
            (optimizers, "torch.optim.Adam", "expected a function, got class Adam"),
            (augmentations, "lambda images: images", "expected a function of images, generator"),
        ],
    )
    def test_what_cannot_be_one_is_refused_where_it_is_registered(self, registry, text, told):
        with pytest.raises(UserError) as raised:
            registry.register("mine")(eval(text))  # of this file
        assert told in str(raised.value)
        assert "mine" not in registry

    @pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf"), True, None, torch.tensor([0.1, 0.2])])
    def test_a_schedule_gives_a_rate(self, rate):
        schedules.register("odd")(lambda recipe, moment: rate)
        with pytest.raises(UserError, match=r"schedule 'odd': expected a rate of at least 0, got .* at step 0"):
            weights_of(replace(SHORT, schedule="odd"))

    @pytest.mark.parametrize("loss", [0.5, None, torch.ones(3, requires_grad=True), torch.tensor(1.0)])
    def test_a_loss_gives_one_number_with_a_gradient(self, loss):
        losses.register("odd")(lambda output, labels, moment: loss)
        with pytest.raises(UserError, match="loss 'odd': expected one number with a gradient, got"):
            weights_of(replace(SHORT, loss="odd"))

    def test_a_loss_depends_on_the_network(self):
        losses.register("odd")(lambda output, labels, moment: torch.ones((), requires_grad=True))
        with pytest.raises(UserError, match="loss 'odd': expected one that depends on the network, got tensor"):
            weights_of(replace(SHORT, loss="odd"))

    @pytest.mark.parametrize("given", [lambda loss: loss[None].expand(3), lambda loss: 0.5, lambda loss: None])
    def test_a_loss_gives_one_number_of_held_out_images_too(self, given):
        def odd(output, labels, moment):
            loss = output.scores.sum()
            return loss if loss.requires_grad else given(loss)

        losses.register("odd")(odd)
        with pytest.raises(UserError, match="loss 'odd': expected one number with a gradient, got"):
            weights_of(replace(SHORT, loss="odd"))

    def test_a_loss_that_overwrites_what_it_is_given_changes_no_answer_and_no_label(self):
        """Otherwise it judges itself: all answers are right."""

        def cheating(output, labels, moment):
            loss = functional.cross_entropy(output.logits, labels.clone())
            output.scores.detach().copy_(functional.one_hot(labels, 10))
            labels.zero_()
            return loss

        losses.register("honest")(lambda output, labels, moment: functional.cross_entropy(output.logits, labels))
        losses.register("cheating")(cheating)
        honest, found = (weights_of(replace(SHORT, loss=name)) for name in ("honest", "cheating"))
        assert torch.equal(found[0], honest[0])
        assert [replace(one, seconds=0) for one in found[1]] == [replace(one, seconds=0) for one in honest[1]]

    @pytest.mark.parametrize(
        "change",
        [
            lambda images: images.at(torch.arange(10)),
            lambda images: images.joined(images),
            lambda images: Images(images.pixels[:, :, 1:], images.labels),
            lambda images: Images(images.pixels, images.labels + 1),
            lambda images: Images(images.pixels, functional.one_hot(images.labels, 10).bool()),
            lambda images: images.pixels,
        ],
    )
    def test_images_of_an_epoch_are_of_the_number_and_form_of_the_example(self, change):
        example = data()
        composed = replace(example, compose=lambda _: change(example.train))
        network = build("cnn-small", shape=(1, 28, 28), classes=10)
        with pytest.raises(UserError, match=r"'drawn': expected new images of \(1, 28, 28\) for an epoch, .* got"):
            fit(network, composed, SHORT, seed=0, device=torch.device("cpu"))

    @pytest.mark.parametrize("change", [lambda x: x[:, :, 1:], lambda x: x.double(), lambda x: None])
    def test_an_augmentation_gives_images_as_they_came(self, change):
        augmentations.register("odd")(lambda images, generator: change(images))
        with pytest.raises(UserError, match=r"augmentation 'odd': expected images as they came, torch.float32 of"):
            weights_of(replace(SHORT, augmentation="odd"))

    @pytest.mark.parametrize("value", [float("nan"), -float("inf")])
    @pytest.mark.parametrize("step", [0, 1])
    def test_an_augmentation_whose_numbers_are_not_finite_is_blamed_and_no_method(self, value, step):
        def odd(images, generator):
            calls.append(images)
            return images.masked_fill(torch.arange(28) == 3, value) if len(calls) > step else images

        calls = []
        augmentations.register("odd")(odd)
        with pytest.raises(UserError, match=r"augmentation 'odd': expected finite numbers, got NaN or infinity"):
            weights_of(replace(SHORT, augmentation="odd"))
        assert len(calls) == step + 1

    def test_an_optimizer_is_one_and_takes_the_decay_that_is_asked_for(self):
        network = build("cnn-small", shape=(1, 28, 28), classes=10)
        optimizers.register("odd")(lambda groups, recipe: groups)
        optimizers.register("lbfgs")(lambda groups, recipe: torch.optim.Rprop([{"params": groups[0]["params"]}]))
        with pytest.raises(UserError, match=r"optimizer 'odd': expected a torch\.optim\.Optimizer, got"):
            make_optimizer(network, Recipe(optimiser="odd"))
        with pytest.raises(UserError, match=r"'lbfgs': it takes no weight_decay, and the recipe asks for 0\.1"):
            make_optimizer(network, Recipe(optimiser="lbfgs", weight_decay=0.1))
        assert make_optimizer(network, Recipe(optimiser="lbfgs", weight_decay=0.0))

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda groups: torch.optim.SGD([torch.zeros(1, requires_grad=True)]), "got 0, without '"),
            (lambda groups: torch.optim.SGD(groups[0]["params"][:1]), "got 1, without '"),
            (lambda groups: torch.optim.LBFGS(groups[0]["params"]), "expected a step that needs no argument, got one"),
        ],
    )
    def test_an_optimizer_holds_every_parameter_and_steps_by_gradients(self, make, told):
        optimizers.register("odd")(lambda groups, recipe: make(groups))
        with pytest.raises(UserError, match="optimizer 'odd': expected") as raised:
            weights_of(replace(SHORT, optimiser="odd"))
        assert told in str(raised.value)

    def test_what_is_not_trained_may_be_left_out(self):
        network = build("cnn-small", shape=(1, 28, 28), classes=10)
        frozen = next(network.parameters()).requires_grad_(False)
        optimizers.register("odd")(
            lambda groups, recipe: torch.optim.SGD([one for one in groups[0]["params"] if one.requires_grad], lr=0.1)
        )
        held = {id(one) for one in make_optimizer(network, Recipe(optimiser="odd")).param_groups[0]["params"]}
        assert held and id(frozen) not in held

    @pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int])
    def test_a_rate_may_be_of_any_kind_of_number(self, kind):
        schedules.register("odd")(lambda recipe, moment: kind(1))
        rate = Recipe(schedule="odd").rate_at(Moment(0, 0.0, 0))
        assert rate == 1.0 and type(rate) is float

    def test_a_loss_that_takes_one_class_is_refused_for_images_of_several(self, mine):
        names = ("margin", "cross-entropy", "cross-entropy-of-scores", "focal", "own")
        assert [takes_several(name) for name in names] == [True, False, False, False, True]


def test_an_undecorated_function_is_told_by_its_arguments(write):
    text = EXAMPLE.read_text()
    for register in ("losses", "optimizers", "schedules", "augmentations"):
        text = text.replace(f"@{register}.register", f"# {register}")
    file = write({"mine.py": text})
    found = {kind: names for name in ("focal", "nadam", "polynomial", "erasing")
             for kind, names in extensions.load_plugin(f"{file}:{name}").items() if names}  # fmt: skip
    assert found == {
        "losses": ["focal"], "optimizers": ["nadam"], "schedules": ["polynomial"], "augmentations": ["erasing"],
    }  # fmt: skip


def test_a_folder_has_places_for_them(write):
    one = write({f"mine/{kind}/own.py": f"from routebench import {kind}\n{text}\n" for kind, text in {
        "losses": "@losses.register('a')\ndef a(output, labels, moment): return 0",
        "optimizers": "@optimizers.register('b')\ndef b(groups, recipe): return 0",
        "schedules": "@schedules.register('c')\ndef c(recipe, moment): return 0",
        "augmentations": "@augmentations.register('d')\ndef d(images, generator): return images",
    }.items()})  # fmt: skip
    added = extensions.load_plugin(str(one.parents[1]))
    assert {kind: names for kind, names in added.items() if names} == {
        "losses": ["a"], "optimizers": ["b"], "schedules": ["c"], "augmentations": ["d"],
    }  # fmt: skip


def test_a_suite_is_trained_and_reproduced_with_them(write, call, tmp_path):
    write({"mine.py": EXAMPLE.read_text()})
    own = {"optimizer": "nadam", "schedule": "polynomial", "augmentation": "erasing[share=0.5]"}
    changes = [f"--set=training.{key}={value}" for key, value in own.items()]
    asked = ["suite", "accuracy", "--preset", "smoke", "--method", "uniform", "--plugin", "mine.py", *changes]
    done = call(*asked, "--loss", "focal[gamma=3]")
    assert done.code == 0, done.error
    assert ", 0 to do" in call(*asked, "--loss", "focal[gamma=3.0]", "--dry-run").out
    record = next((tmp_path / "results" / "records").glob("*.json"))
    training = json.loads(record.read_text())["identity"]["training"]
    assert (training["loss"], training["augmentation"]) == ("focal[gamma=3.0]", "erasing[share=0.5]")
    page = (tmp_path / "results" / "report.html").read_text()
    assert "focal[gamma=3.0]" in page
    told = call("reproduce", record)
    assert "--plugin mine.py" in told.out, told
    assert "'focal[gamma=3]'" in told.out, told
    (tmp_path / "mine.py").unlink()
    assert call("report", "results").code == 0  # results are read without the plug-in
    assert call("status", "--results", "results").code == 0
    refused = call("suite", "accuracy", "--preset", "smoke", "--loss", "focal", "--results", "others")
    assert refused.code == 2
    assert "unknown loss 'focal'" in refused.error
    assert not (tmp_path / "others").exists()


TUNED = """
question = "Which loss?"
version = 1
protocol = "accuracy"
training = { epochs = 1, optimizer = "nadam" }
[tuning]
trials = 2
folds = 3
take = 300
[tuning.training]
loss = [LOSSES]
[[methods]]
name = "static"
[presets.smoke]
data = "mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
"""


def test_tuning_looks_among_them_each_in_one_form(write, call, tmp_path):
    own = write(
        {
            "mine.py": EXAMPLE.read_text(),
            "own.toml": TUNED.replace("LOSSES", '"focal[ gamma = 2.0 ]", "focal[gamma=1]"'),
        }
    )
    asked = ("own.toml", "--preset", "smoke", "--plugin", "mine.py", "--jobs", "1")
    done = call("tune", *asked)
    assert done.code == 0, done.error
    records = (tmp_path / "results" / "records").glob("*.json")
    trained = {json.loads(file.read_text())["identity"]["training"]["loss"] for file in records}
    assert trained == {"focal", "focal[gamma=1.0]"}
    settings = tmp_path / "results" / "own.smoke.settings.json"
    assert {one["point"]["loss"] for one in json.loads(settings.read_text())["choices"]} <= trained
    assert call("suite", *asked, "--settings", settings, "--data", "take:300:mnist5k", "--dry-run").code == 0
    for names, told in (
        ('"focal", "focal[gamma=2]"', "expected two different values or more to look among, got ['focal', 'focal']"),
        ('"focal", "focla"', "unknown loss 'focla'; did you mean 'focal'?"),
        ('"focal", "focal[gamma=-1]"', "loss 'focal': gamma must be a number of at least 0, got -1"),
    ):
        (own.parent / "own.toml").write_text(TUNED.replace("LOSSES", names))
        refused = call("tune", *asked)
        assert refused.code == 2
        assert f"own.toml: key 'tuning.training.loss': {told}" in refused.error


def test_they_are_listed(call, write):
    write({"mine.py": EXAMPLE.read_text()})
    listed = json.loads(call("list", "losses", "--json", "--plugin", "mine.py").out)
    (focal,) = [one for one in listed if one["name"] == "focal"]
    assert focal["hyperparameters"] == {"gamma": 2.0}
    assert {one["name"] for one in json.loads(call("list", "schedules", "--json").out)} == {
        "constant", "cosine", "exponential", "milestones",
    }  # fmt: skip


def test_the_python_interface_takes_them(write, tmp_path):
    file = write({"mine.py": EXAMPLE.read_text()})
    found = routebench.run_suite(
        "accuracy", preset="smoke", methods="uniform", plugins=file, loss="focal", results=tmp_path / "found", jobs=1
    )
    assert not found.failed
