"""Training on images of several classes, which are composed anew every epoch."""

from dataclasses import replace

import pytest
import torch

from routebench.data import Images, TrainingData
from routebench.errors import UserError
from routebench.training import answers, evaluate, highest
from tests.short_fits import CPU, SHORT, network_of, same_weights, sixty_digits, trained, with_decoder


@pytest.fixture(scope="module")
def data():
    return sixty_digits()


def two_at_once(seed=0):
    """The sixty digits, each overlaid by another, composed anew in every epoch; half size."""
    digits = sixty_digits()

    def compose(generator):
        return _overlaid(digits.train, torch.randperm(len(digits.train), generator=generator))

    order = torch.randperm(20, generator=torch.Generator().manual_seed(seed))
    train, held_out = compose(torch.Generator().manual_seed(seed)), _overlaid(digits.held_out, order)
    return TrainingData(digits.name, digits.classes, train, held_out, "", compose)


def _overlaid(digits, others):
    marked = torch.nn.functional.one_hot(digits.labels, 10).bool()
    return Images(torch.maximum(digits.pixels, digits.pixels[others]), marked | marked[others])


class TestSeveralLabels:
    def test_images_are_composed_anew_every_epoch_by_seed_and_epoch(self):
        seen = []
        data = two_at_once()

        def compose(generator):
            seen.append(data.compose(generator).pixels)
            return data.compose(generator)

        watched = replace(data, compose=compose)
        trained(watched, replace(SHORT, epochs=2))
        trained(watched, replace(SHORT, epochs=1))
        trained(watched, replace(SHORT, epochs=1), seed=1)
        assert seen[0].equal(seen[2])
        assert not seen[0].equal(seen[1])
        assert not seen[0].equal(seen[3])

    def test_a_run_that_was_interrupted_goes_on_with_the_same_images(self, tmp_path):
        data, file = two_at_once(), tmp_path / "checkpoint.safetensors"
        trained(data, replace(SHORT, epochs=1), checkpoint=file)
        resumed = trained(data, replace(SHORT, epochs=2), checkpoint=file)[0]
        assert same_weights(resumed, trained(data, replace(SHORT, epochs=2))[0])

    def test_what_is_composed_is_what_is_trained_on(self):
        data = two_at_once()
        assert not same_weights(trained(data)[0], trained(replace(data, compose=None))[0])

    def test_right_is_when_the_classes_shown_score_higher_than_all_others(self):
        network, data = network_of(), two_at_once()
        found = evaluate(network, data.held_out, SHORT, CPU)
        with torch.no_grad():
            scores = network.eval()(data.held_out.pixels.float() / 255).scores
        assert torch.allclose(found.scores, scores, atol=1e-6)
        shown = data.held_out.labels
        by_hand = [float(scores[n][shown[n]].min()) > float(scores[n][~shown[n]].max()) for n in range(20)]
        assert found.correct.tolist() == by_hand
        assert found.predicted.sum(dim=1).equal(shown.sum(dim=1))
        assert found.accuracy == 100 * sum(by_hand) / 20
        answered = replace(data.held_out, labels=highest(scores, shown.sum(dim=1)))
        assert evaluate(network, answered, SHORT, CPU).accuracy == 100

    @pytest.mark.parametrize("shift", [0.0, 0.4, -0.4])
    def test_the_height_of_scores_changes_no_answer(self, shift):
        scores = torch.tensor([[0.5, 0.45, 0.4], [0.55, 0.41, 0.42]])
        shown = torch.tensor([[True, True, False], [True, False, True]])
        assert answers(scores + shift, shown).equal(shown)

    def test_training_accuracy_is_the_share_of_exact_matches(self):
        data = two_at_once()
        found, epochs = trained(
            replace(data, compose=None), replace(SHORT, epochs=1, learning_rate=1e-12, batch_size=60)
        )
        assert epochs[0].train_accuracy == pytest.approx(evaluate(found, data.train, SHORT, CPU).accuracy)

    def test_what_needs_one_class_is_refused(self):
        data = two_at_once()
        with pytest.raises(UserError, match="images of 'mnist5k' may show several; set reconstruction to 0"):
            trained(data, replace(SHORT, reconstruction=0.1), network=with_decoder())
        with pytest.raises(UserError, match="a softmax cross entropy takes one class per image"):
            trained(data, replace(SHORT, loss="cross-entropy"))
