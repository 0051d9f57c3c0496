"""A suite file is read strictly."""

import pytest

from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.notation import Spec
from routebench.registry import shipped, suite_files


@pytest.mark.parametrize("name", sorted(suite_files()))
def test_shipped_suites_are_whole(name):
    suite = load_suite(name)
    assert suite.question.endswith("?")
    assert {"smoke", "quick", "full"} <= suite.presets.keys()
    assert len(suite.presets["full"].seeds) >= 3


@pytest.fixture
def changed(tmp_path):
    """The shipped suite with one passage replaced."""

    def write(old, new):
        text = (shipped("suites") / "accuracy.toml").read_text()
        assert old in text
        file = tmp_path / "mine.toml"
        file.write_text(text.replace(old, new, 1))
        return str(file)

    return write


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("seeds = 1", "sedes = 1", ["presets.smoke.sedes", "'seeds'"]),
        ("[presets.smoke]", "[presets.smoke-trials]", ["presets.smoke-trials", "end in '-trials'", "rename it"]),
        ("seeds = 1", 'seeds = "one"', ["presets.smoke.seeds", "integer", "'one'"]),
        ("seeds = 1", "seeds = true", ["presets.smoke.seeds", "integer"]),
        ("seeds = 1", "seeds = 0", ["presets.smoke.seeds", "at least 1"]),
        ("seeds = 1", "", ["presets.smoke.seeds", "nothing"]),
        ("seeds = 1", 'seeds = 1\nentries_of = "standart"', ["unknown suite 'standart'", "'standard'"]),
        ("version = 2", 'version = 2\nentries_of = "standart"', ["'entries_of'", "unknown suite", "'standard'"]),
        ("version = 2", 'version = 2\nentries_of = "standard"', ["'methods'", "none beside `entries_of`"]),
        ("iterations = [1, 3]", "iterations = []", ["presets.smoke.iterations", "[]"]),
        ("iterations = [1, 3]", "iterations = [1, 1]", ["presets.smoke.iterations", "[1, 1]"]),
        ("iterations = [1, 3]", "iterations = 3", ["presets.smoke.iterations", "list"]),
        ("batch_size = 128", "batchsize = 128", ["training.batchsize", "'batch_size'"]),
        ("batch_size = 128", 'batch_size = "many"', ["training.batch_size", "'many'"]),
        ('loss = "margin"', 'loss = "margn"', ["loss", "margin", "'margn'"]),
        ('protocol = "accuracy"', 'protocol = "acuracy"', ["'protocol'", "'acuracy'", "'accuracy'"]),
        ('question = "', 'questoin = "', ["questoin", "'question'"]),
        ("version = 2", "version = 1.5", ["version", "1.5"]),
        ("[[methods]]", "[methods]", ["TOML"]),
        ('model = "capsnet-small"', "model = []", ["presets.smoke.model", "list of different", "[]"]),
        ('model = "capsnet-small"', 'model = ["a", "a"]', ["presets.smoke.model", "['a', 'a']"]),
        (
            "seeds = 1",
            "seeds = 1\ntraining_of = { capsnt = { epochs = 2 } }",
            ["presets.smoke.training_of", "'capsnt'", "'capsnet'"],
        ),
        (
            "seeds = 1",
            "seeds = 1\ntraining_of = { capsnet = { epochs = 2 } }",
            ["'presets.smoke.training_of'", "networks that run there, capsnet-small, cnn-small, got 'capsnet'"],
        ),
        (
            'name = "cnn"',
            'name = "cnn"\ntraining_of = { capsnet-small = { epochs = 2 } }',
            [
                "'baselines.cnn.training_of'",
                "networks that run there, cnn, cnn-residual, cnn-small, got 'capsnet-small'",
            ],
        ),
        (
            "seeds = 1",
            "seeds = 1\ntraining_of = { capsnet-small = { epoch = 2 } }",
            ["presets.smoke.training_of.capsnet-small.epoch", "'epochs'"],
        ),
        (
            'name = "dynamic"',
            'name = "dynamic"\ntraining_of = { capsnt = { epochs = 2 } }',
            ["methods.dynamic.training_of", "'capsnt'", "'capsnet'"],
        ),
        (
            'name = "dynamic"',
            'name = "dynamic"\nmodels = { capsnt-small = "capsnet" }',
            ["methods.dynamic.models", "'capsnt-small'", "'capsnet-small'"],
        ),
        (
            'name = "dynamic"',
            'name = "dynamic"\nfirst_is = "unifrom"',
            ["methods.dynamic.first_is", "'unifrom'", "'uniform'"],
        ),
        ('name = "em"', 'name = "em"\nfirst_is = "em"', ["methods.em.first_is", "configuration itself", "uniform"]),
        ('name = "none"', 'name = "none"\nfirst_is = "em"', ["baselines.none.first_is", "a method that iterates"]),
        ('name = "cnn"', 'name = "cnn"\niterations = [3]', ["baselines.cnn.iterations", "a method that iterates"]),
        ('name = "em"', 'name = "self-attention"\niterations = [3]', ["methods.self-attention.iterations"]),
        ('name = "em"', 'name = "em"\nparams = { iterations = 3 }', ["methods.em.params", "the key `iterations`"]),
        ("version = 2", 'version = 2\ncaveat_on = { mnist5 = "x" }', ["'caveat_on'", "'mnist5'", "'mnist5k'"]),
        ('name = "cnn"', 'name = "a\\nb"', ["'baselines[1].name'", "in one line", r"'a\nb'"]),
        ('name = "cnn"', 'name = "cnn\\n"', ["'baselines[1].name'", "in one line", r"'cnn\n'"]),
        ('name = "em"', 'name = "em"\nvariant = "a\\nb"', ["'methods[1].variant'", "in one line", r"'a\nb'"]),
        ('title = "Accuracy"', 'title = "a\\nb"', ["'page.title'", "in one line"]),
        *(
            ("[presets.smoke]", f'[presets."{name}"]', ["letters, digits and hyphens", "rename it"])
            for name in ("", "x.y", "a/../b", "..", "a b", "x" * 300)
        ),
        ("place_in_all = 1", "place_in_all = 0", ["place_in_all", "at least 1"]),
        ("version = 2", "version = 2\nprimary = { margin = 101 }", ["'primary.margin'", "at most 100", "101"]),
    ],
)
def test_error_names_file_key_and_expectation(changed, old, new, says):
    with pytest.raises(UserError) as caught:
        load_suite(changed(old, new))
    message = str(caught.value)
    assert "mine.toml" in message
    assert "\n" not in message
    for part in says:
        assert part in message


@pytest.mark.parametrize("others", ["mine.toml", "other.toml"])
def test_two_suites_may_each_take_the_methods_of_the_other(changed, tmp_path, others):
    more = (
        f'without = ["random"]\nentries_of = "{tmp_path / others}"\n[presets.smoke.training_of]\ncapsnet-small = {{}}'
    )
    mine = changed("training = { epochs = 1 }", more)
    (tmp_path / "other.toml").write_text((tmp_path / "mine.toml").read_text().replace(others, "mine.toml"))
    suite = load_suite(mine)
    assert suite.with_entries("smoke").methods == suite.methods


@pytest.mark.parametrize(
    ("protocol", "option", "expected"),
    [
        ("overlap", "threshold = 0.0", "a number above 0 and below 1"),
        ("overlap", "threshold = 1", "a number above 0 and below 1"),
        ("overlap", "threshold = nan", "a number"),
        ("robustness", "steps = 0", "an integer of at least 1"),
        ("robustness", "targets = -1", "an integer of at least 0"),
        ("robustness", "further_starts = 2.0", "an integer of at least 0"),
        ("robustness", "eps = [0.1, true]", "a list, each a number above 0"),
        ("robustness", "attacks = 3", "a list, each text"),
        ("accuracy", "test_iterations = []", "a list, each an integer of at least 1"),
        ("accuracy", "best_on_test = 1", "true or false"),
        ("accuracy", "test_iterations = [2, 3, 2]", "different values"),
        ("cost", "batches = [8, 8]", "different values"),
        ("robustness", "attacks = ['fgsm', 'fgsm']", "different values"),
        ("robustness", "l2_eps = [0.5, 0.50000001]", "different values"),
        ("equivariance", "scales = [1.2, 1.20]", "different values"),
        ("generation", "optimiser = 'adm'", "one of sgd, adam"),
        ("cost", "backends = ['fusd']", "a list, each one of auto, reference, fused, triton"),
        ("predictive-coding", "targets = ['labl']", "a list, each one of none, predicted, label"),
        ("predictive-coding", "free = ['class']", "a list, each one of classes, children"),
        ("predictive-coding", "l1 = -0.1", "a number of at least 0"),
        ("predictive-coding", "steps = 0", "an integer of at least 1"),
        ("predictive-coding", "step_size = 0", "a number above 0"),
        ("sparsity", "follow = -1", "an integer of at least 1"),
        ("sparsity", "images = 0", "an integer of at least 1"),
        ("parts", "objects = [2, 0]", "a list, each an integer of at least 1"),
        ("parts", "clutter = [-1]", "a list, each an integer of at least 0"),
        ("parts", "scenes = 0", "an integer of at least 1"),
        ("parts", "follow = -1", "an integer of at least 0"),
    ],
)
def test_an_option_of_the_protocol_is_refused_before_anything_runs(tmp_path, protocol, option, expected):
    file = tmp_path / "mine.toml"
    file.write_text(f'question = "?"\nversion = 1\nprotocol = "{protocol}"\n[presets.smoke]\n{option}\n')
    with pytest.raises(UserError) as caught:
        load_suite(str(file))
    key = option.partition(" ")[0]
    assert str(caught.value).startswith(f"mine.toml: key 'presets.smoke.{key}': expected {expected}, got ")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("attacks = ['fgms']", "unknown attack 'fgms'; did you mean 'fgsm'"),
        ("losses = ['trainin']", "unknown loss to attack 'trainin'"),
        ("targeted = ['square']", "unknown targeted attack 'square'"),
        ("corruptions = ['snw']", "unknown corruption 'snw'"),
        ("severities = [9]", "severities must be from 1 to 5"),
        ("main_eps = 0.5", "main_eps must be one of eps"),
        ("transfer_from = 'cnn-smal'", "unknown model 'cnn-smal'; did you mean 'cnn-small'"),
    ],
)
def test_a_name_that_a_protocol_does_not_know_is_refused_when_it_is_planned(tmp_path, option, told):
    file = tmp_path / "mine.toml"
    file.write_text(f"""
question = "?"
version = 1
protocol = "robustness"
[[methods]]
name = "dynamic"
[presets.smoke]
data = "take:100:mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
{option}
""")
    with pytest.raises(UserError) as caught:
        plan(load_suite(str(file)), "smoke", Choices())
    assert str(caught.value).startswith("mine.toml: preset smoke, dynamic: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "em"', 'name = "emm"', "mine.toml: key 'methods.emm': unknown method 'emm'; did you mean 'em'?"),
        ('name = "em"', 'name = "mnist5k"', "mine.toml: key 'methods.mnist5k': unknown method 'mnist5k'"),
        ('name = "em"', 'name = "capsnet"', "mine.toml: key 'methods.capsnet': unknown method 'capsnet'"),
        ('name = "em"', 'name = "cnn-small"', "mine.toml: key 'methods.cnn-small': 'cnn-small' is a network without"),
        ('name = "none"', 'name = "nonee"', "mine.toml: key 'baselines.nonee': unknown method 'nonee'"),
        ('name = "em"', 'name = "em"\nparams = { x = 1 }', "mine.toml: key 'methods.em': method 'em' has no hyper"),
        (
            '-small = "cnn-small"',
            '-small = "cnn-smal"',
            "mine.toml: key 'baselines.cnn.models': unknown model 'cnn-smal'",
        ),
        (
            'data = "mnist5k"',
            'data = "mnist5"',
            "mine.toml: preset smoke, data: unknown data set 'mnist5'; did you mean",
        ),
        ('data = "mnist5k"', 'data = "em"', "mine.toml: preset smoke, data: unknown data set 'em'"),
        ("take = 5000", "take = 2", "mine.toml: preset smoke, data: expected to take at least 3 of 5,000 images"),
        (
            "seeds = 1",
            "seeds = 1\nmodel_params = { posee = 1 }",
            "suite mine, preset smoke: model 'capsnet-small': unk",
        ),
        (
            "epochs = 1",
            "epochs = 1, reconstruction = 0.5",
            "suite mine, preset smoke: training: reconstruction above 0",
        ),
    ],
)
def test_what_a_suite_names_and_nobody_knows_is_told_with_its_place(changed, tmp_path, old, new, says):
    file = changed(old, new)
    with pytest.raises(UserError) as caught:
        plan(load_suite(file), "smoke", Choices())
    assert str(caught.value).startswith(says)
    if new.startswith("name"):  # a suite that takes these methods tells of the file that lists them
        other = tmp_path / "other.toml"
        text = f'question = "?"\nversion = 1\nprotocol = "accuracy"\nentries_of = "{file}"\n[presets.smoke]\n'
        other.write_text(f'{text}data = "take:100:mnist5k"\nmodel = "capsnet-small"\niterations = [1]\nseeds = 1\n')
        with pytest.raises(UserError) as caught:
            plan(load_suite(str(other)), "smoke", Choices())
        assert str(caught.value).startswith(says)


def test_what_the_user_names_and_nobody_knows_is_no_fault_of_the_file(changed):
    suite = load_suite(changed("version = 2", "version = 2"))
    for choices, says in (
        (Choices(data="mnist5"), "unknown data set 'mnist5'"),
        (Choices(methods=(Spec("emm"),)), "unknown method 'emm'"),
    ):
        with pytest.raises(UserError) as caught:
            plan(suite, "smoke", choices)
        assert str(caught.value).startswith(says)


def test_no_methods_is_an_error(tmp_path):
    file = tmp_path / "empty.toml"
    file.write_text('question = "?"\nversion = 1\nprotocol = "accuracy"\n')
    with pytest.raises(UserError, match="methods"):
        load_suite(str(file))


def test_mistyped_suite_is_suggested():
    with pytest.raises(UserError, match="did you mean 'accuracy'"):
        load_suite("acuracy")


def test_missing_suite_file_is_said(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_suite(str(tmp_path / "absent.toml"))


def test_later_overrides_win_and_numbers_become_floats(changed):
    suite = load_suite(changed("learning_rate = 3e-3", "learning_rate = 1"))
    recipe = suite.recipe({"learning_rate": 0.5}, {"epochs": 7})
    assert (recipe.learning_rate, recipe.epochs, recipe.batch_size) == (0.5, 7, 128)
    assert isinstance(suite.training["learning_rate"], float)


def test_the_suites_of_all_have_a_place_each():
    suites = [load_suite(name) for name in suite_files()]
    places = [suite.place_in_all for suite in suites if suite.place_in_all]
    assert len(set(places)) == len(places) >= 3
    assert next(suite.name for suite in suites if suite.place_in_all == min(places)) == "accuracy"


OTHER = """question = "Are they sparse?"
version = 1
protocol = "sparsity"
entries_of = "{of}"
[presets.quick]
data = "mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
without = ["{without}"]
"""


def test_a_suite_may_take_the_entries_of_another(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(OTHER.format(of="accuracy", without="cnn"))
    own, accuracy = load_suite(str(file)).with_entries("quick"), load_suite("accuracy")
    assert (own.methods, own.controls, own.training) == (accuracy.methods, accuracy.controls, accuracy.training)
    file.write_text(OTHER.format(of="accuracy", without="cn"))
    with pytest.raises(UserError, match="unknown variant or baseline 'cn'; did you mean 'cnn'"):
        load_suite(str(file))


def test_entries_are_taken_from_the_suite_that_has_them(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(OTHER.format(of="sparsity", without="cnn"))
    with pytest.raises(UserError, match="got 'sparsity', which takes those of 'accuracy'; name that one"):
        load_suite(str(file))
