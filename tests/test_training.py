"""Short real fits on real digits: same bits from the same seed, and no option without effect."""

import json
from dataclasses import asdict, fields, replace

import pytest
import torch

from routebench import optimizers
from routebench.checkpoint import Checkpoint
from routebench.data import TrainingData, load
from routebench.errors import Diverged
from routebench.models import build
from routebench.models.network import routing_methods
from routebench.recipe import Moment
from routebench.registry import losses, routing, schedules
from routebench.training import Epoch, evaluate
from tests.short_fits import CPU, RECIPES, SHORT, curves, network_of, same_weights, sixty_digits, trained


@pytest.fixture(scope="module")
def data():
    return sixty_digits()


class TestSeeds:
    @pytest.mark.parametrize("method", routing)
    def test_same_seed_gives_the_same_bits(self, data, method):
        recipe = replace(SHORT, epochs=1, augmentation="shift2")
        one, other = (trained(data, recipe, network=network_of(method)) for _ in range(2))
        assert same_weights(one[0], other[0])
        assert curves(one[1]) == curves(other[1])

    def test_another_seed_gives_other_weights(self, data):
        assert not same_weights(trained(data, seed=0)[0], trained(data, seed=1)[0])

    def test_the_seed_orders_the_images_even_for_equal_initial_weights(self, data):
        one, other = (trained(data, seed=seed, network=network_of(seed=0))[0] for seed in (0, 1))
        assert not same_weights(one, other)

    def test_random_numbers_drawn_elsewhere_do_not_matter(self, data):
        def disturbing(share):
            torch.rand(7)

        assert same_weights(trained(data, RECIPES["augmented and decaying"])[0],
                            trained(data, RECIPES["augmented and decaying"], on_progress=disturbing)[0])  # fmt: skip

    def test_layers_that_draw_numbers_draw_the_same_when_a_run_goes_on(self, data, tmp_path):
        file, networks = tmp_path / "checkpoint.safetensors", [network_of("slot-attention") for _ in range(3)]
        trained(data, replace(SHORT, epochs=1), network=networks[0], checkpoint=file)
        torch.rand(7)
        resumed = trained(data, replace(SHORT, epochs=2), network=networks[1], checkpoint=file)[0]
        assert same_weights(resumed, trained(data, replace(SHORT, epochs=2), network=networks[2])[0])

    @pytest.mark.parametrize("params", [{"start": "random"}, {"dropout": 0.3}], ids=str)
    def test_what_layers_draw_is_drawn_again_when_a_run_goes_on(self, data, tmp_path, params):
        def drawing():
            return network_of("inverted-attention", **params)

        file, recipe = tmp_path / "checkpoint.safetensors", replace(SHORT, loss="cross-entropy")
        trained(data, replace(recipe, epochs=1), network=drawing(), checkpoint=file)
        torch.rand(7)
        resumed = trained(data, replace(recipe, epochs=2), network=drawing(), checkpoint=file)[0]
        assert same_weights(resumed, trained(data, replace(recipe, epochs=2), network=drawing())[0])


class TestDivergence:
    def test_step_is_named_when_weights_explode(self, data):
        recipe = replace(SHORT, optimiser="sgd", learning_rate=1e30, loss="cross-entropy")
        with pytest.raises(Diverged) as raised:
            trained(data, recipe, network=network_of(None, model="cnn-small"))
        assert raised.value.step in (1, 2)  # the first loss comes before the first update
        assert f"step {raised.value.step}" in str(raised.value)

    @pytest.mark.parametrize("train_on", ["train", "all"])
    def test_a_last_step_that_explodes_is_no_answer(self, data, monkeypatch, train_on):
        """Scores that are no numbers would make the first class the answer, and some of these are right."""
        last = 2 if train_on == "train" else 3
        monkeypatch.setitem(schedules.entries, "leap", lambda recipe, moment: 1e30 if moment.step == last else 1e-2)
        recipe = replace(SHORT, epochs=1, schedule="leap", loss="cross-entropy", train_on=train_on)

        def measure():
            network = trained(data, recipe, network=network_of(None, model="cnn-small"))[0]
            return evaluate(network, data.train, recipe, CPU)

        with pytest.raises(Diverged, match="answers were not finite after a step"):
            measure()

    @pytest.mark.parametrize("bad_step", [0, 2, 4])
    def test_step_is_the_first_whose_loss_is_not_finite(self, data, monkeypatch, bad_step):
        def nan_once(output, labels, moment):
            value = losses["margin"](output, labels, moment)
            return value * float("nan") if moment.step == bad_step else value

        monkeypatch.setitem(losses.entries, "spread", nan_once)
        with pytest.raises(Diverged) as raised:
            trained(data, replace(SHORT, loss="spread"))
        assert raised.value.step == bad_step

    def test_checkpoint_is_of_the_last_sound_epoch(self, data, monkeypatch, tmp_path):
        def nan_later(output, labels, moment):
            return losses["margin"](output, labels, moment) * (float("nan") if moment.step >= 4 else 1)

        monkeypatch.setitem(losses.entries, "spread", nan_later)
        file = tmp_path / "checkpoint.safetensors"
        with pytest.raises(Diverged):
            trained(data, replace(SHORT, loss="spread"), checkpoint=file)
        found = Checkpoint.read(file)
        assert len(json.loads(found.notes["epochs"])) == 1
        assert all(bool(torch.isfinite(value).all()) for value in found.weights.values())


class TestPrecisionAndLayout:
    @pytest.mark.parametrize("method", routing)
    def test_bfloat16_trains_close_to_float32(self, data, method):
        recipe = replace(SHORT, epochs=1)
        losses = [
            trained(data, replace(recipe, precision=precision), network=network_of(method))[1][0].train_loss
            for precision in ("float32", "bfloat16")
        ]
        assert losses[0] != losses[1]
        assert losses[1] == pytest.approx(losses[0], rel=0.1)

    def test_weights_stay_in_single_precision(self, data):
        network, _ = trained(data, replace(SHORT, epochs=1, precision="bfloat16"))
        assert {value.dtype for value in network.parameters()} == {torch.float32}

    def test_channels_last_is_a_layout_and_changes_results_by_rounding_only(self, data):
        recipe = replace(SHORT, epochs=1)
        plain, first = trained(data, recipe)
        turned, second = trained(data, replace(recipe, channels_last=True))
        convolution = turned.primary.convolution.weight
        assert convolution.is_contiguous(memory_format=torch.channels_last)
        assert plain.primary.convolution.weight.is_contiguous()
        assert second[0].train_loss == pytest.approx(first[0].train_loss, rel=1e-4)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_step_in_one_kernel_changes_results_by_rounding_only_and_goes_on_where_it_stopped(
    data, monkeypatch, tmp_path, optimiser
):
    """As on CUDA, for which torch's fused step on the CPU stands in."""
    recipe = replace(SHORT, epochs=2, optimiser=optimiser, weight_decay=1e-3)
    first = trained(data, recipe)[1]
    monkeypatch.setattr(optimizers, "_steps_in_one_kernel", lambda parameters: True)
    assert optimizers.make_optimizer(network_of(), recipe).defaults["fused"]
    fused, second = trained(data, recipe)
    assert [one.train_loss for one in second] == pytest.approx([one.train_loss for one in first], rel=1e-4)
    file = tmp_path / "checkpoint.safetensors"
    trained(data, replace(recipe, epochs=1), checkpoint=file)
    assert same_weights(fused, trained(data, recipe, checkpoint=file)[0])


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
def test_weights_alone_decay_where_the_recipe_says_so(optimiser):
    """With gradients of zero, weight decay is all that moves a parameter."""
    network = build("matrix-capsules-small", shape=(2, 48, 48), classes=5, method="em")
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    recipe = replace(SHORT, optimiser=optimiser, weight_decay=0.1, decayed="weights", learning_rate=1e-3)
    for value in network.parameters():
        value.data += 0.5  # none is zero, which nothing pulls
        value.grad = torch.zeros_like(value)
    optimizers.make_optimizer(network, recipe).step()
    moved = {name for name, value in network.named_parameters() if not torch.equal(value, before[name] + 0.5)}
    assert moved == {name for name in before if name.endswith(".weight")}
    assert {name.rpartition(".")[2] for name in before.keys() - moved} == {"bias", "beta_u", "beta_a"}


def test_on_a_processor_the_optimiser_takes_its_plain_step():
    assert not optimizers.make_optimizer(network_of("dynamic"), SHORT).defaults["fused"]


class TestProgress:
    def test_runs_up_to_one_a_step_at_a_time(self, data):
        shares = []
        trained(data, on_progress=shares.append)
        assert shares == pytest.approx([step / 9 for step in range(1, 10)])
        assert shares[-1] == 1.0

    def test_routing_is_told_how_much_of_training_has_passed(self, data):
        network, seen = network_of("em", lambda_schedule="training"), []
        trained(data, network=network, on_progress=lambda _: seen.append(routing_methods(network)[0].progress))
        assert seen == pytest.approx([step / 9 for step in range(9)])
        assert routing_methods(network)[0].progress == 1.0

    def test_losses_are_told_step_and_progress(self, data, monkeypatch):
        moments = []

        def listening(output, labels, moment):
            if torch.is_grad_enabled():
                moments.append(moment)
            return losses["margin"](output, labels, moment)

        monkeypatch.setitem(losses.entries, "spread", listening)
        trained(data, replace(SHORT, loss="spread"))
        assert moments == [Moment(step, step / 9, step // 3) for step in range(9)]


class TestWhatTrainingSees:
    def test_training_data_has_no_test_images(self):
        known = {field.name for field in fields(TrainingData)}
        assert known == {"name", "classes", "train", "held_out", "fingerprint", "compose"}
        assert not hasattr(load("mnist5k").for_training(), "test")

    def test_held_out_images_do_not_touch_the_weights(self, data):
        others = replace(data, held_out=data.held_out.at(torch.arange(3)))
        assert same_weights(trained(data)[0], trained(others)[0])

    def test_every_image_is_seen_once_an_epoch(self, data):
        network, seen = network_of(), []
        network.register_forward_pre_hook(lambda module, given: seen.append(given[0]) if module.training else None)
        trained(data, replace(SHORT, epochs=1), network=network)
        assert [len(batch) for batch in seen] == [24, 24, 12]
        shown = torch.cat(seen).mul(255).round().to(torch.uint8).flatten(1)
        expected = data.train.pixels.flatten(1)
        assert sorted(map(bytes, shown.numpy())) == sorted(map(bytes, expected.numpy()))

    def test_images_come_in_another_order_every_epoch(self, data):
        network, seen = network_of(), []
        network.register_forward_pre_hook(lambda module, given: seen.append(given[0]) if module.training else None)
        trained(data, replace(SHORT, epochs=2, batch_size=60), network=network)
        assert not torch.equal(seen[0], seen[1])

    def test_held_out_images_are_not_augmented(self, data):
        network, seen = network_of(), []
        network.register_forward_pre_hook(lambda module, given: None if module.training else seen.append(given[0]))
        trained(data, replace(SHORT, epochs=1, augmentation="shift2"), network=network)
        assert torch.equal(torch.cat(seen), data.held_out.pixels / 255)


class TestCurves:
    def test_loss_goes_down_and_digits_are_learned(self, data):
        _, epochs = trained(data, replace(SHORT, epochs=12))
        assert epochs[-1].train_loss < 0.6 * epochs[0].train_loss
        assert epochs[-1].train_accuracy > 70
        assert epochs[-1].held_out_accuracy > 40

    def test_epochs_are_counted_from_one(self, data):
        assert [epoch.epoch for epoch in trained(data)[1]] == [1, 2, 3]

    def test_held_out_numbers_are_those_of_the_weights_that_the_epoch_left(self, data):
        network, epochs = trained(data)
        found = evaluate(network, data.held_out, SHORT, CPU)
        assert found.accuracy == epochs[-1].held_out_accuracy
        assert found.loss == epochs[-1].held_out_loss

    def test_train_loss_is_a_mean_over_images_and_not_over_batches(self, data):
        still = replace(SHORT, epochs=1, optimiser="sgd", learning_rate=1e-30, momentum=0.0)
        network, epochs = trained(data, still)
        assert epochs[0].train_loss == pytest.approx(evaluate(network, data.train, still, CPU).loss, rel=1e-5)
        assert epochs[0].train_accuracy == pytest.approx(evaluate(network, data.train, still, CPU).accuracy)

    def test_epoch_survives_json(self, data):
        epochs = trained(data)[1]
        assert [Epoch(**json.loads(json.dumps(asdict(epoch)))) for epoch in epochs] == epochs


class TestEvaluate:
    def test_predictions_do_not_hang_on_the_size_of_batches(self, data, monkeypatch):
        network = network_of().eval()
        whole = evaluate(network, data.train, SHORT, CPU)
        monkeypatch.setattr("routebench.training.EVALUATION_BATCH", 7)
        parts = evaluate(network, data.train, SHORT, CPU)
        assert torch.equal(whole.predicted, parts.predicted)
        assert parts.loss == pytest.approx(whole.loss, rel=1e-5)

    def test_accuracy_is_the_share_of_right_answers_in_per_cent(self, data):
        found = evaluate(network_of(), data.train, SHORT, CPU)
        right = [int(guess) == int(label) for guess, label in zip(found.predicted, data.train.labels, strict=True)]
        assert found.correct.tolist() == right
        assert found.accuracy == pytest.approx(100 * sum(right) / len(right))

    @pytest.mark.parametrize("training", [True, False])
    def test_leaves_the_network_in_the_mode_it_was_in(self, data, training):
        network = network_of().train(training)
        evaluate(network, data.held_out, SHORT, CPU)
        assert network.training is training


def test_network_is_left_in_evaluation_mode(data):
    assert not trained(data)[0].training
