"""With one seed, a network that differs is not yet a method that is worse; and a regression is not its own noise."""

import numpy as np
import pytest

from routebench.analysis import Verdict
from routebench.comparing import Wishes, compare_folders, verdict
from routebench.comparing._evidence import weigh
from routebench.comparing._noise import Noise
from routebench.comparing._series import Group, PairedSeries
from routebench.comparing._verdicts import ALL, SETTING
from tests.comparing.planted import headline, lose, retrained, write

LOSSES = {"dynamic": 5, "em": 8, "inverted-attention": 10, "uniform": 12}
ACCURACY_ONLY = Wishes(metrics=("accuracy",))


def of_seeds(count):
    return lambda record: headline(record) and record["identity"]["seed"] < count


def losing(points, rng):
    edits = [lose(round(10 * size), method, rng) for method, size in points.items()]

    def edit(record, arrays):
        for own in edits:
            own(record, arrays)

    return edit


def rows(comparison, word, level=SETTING):
    return [row for row in comparison.with_verdict(word) if row.level == level]


def test_four_of_seven_methods_that_lose_are_four_regressions(tmp_path, fixed_rng):
    base = write(tmp_path / "base", keep=of_seeds(1))
    comparison = compare_folders(base, write(tmp_path / "head", losing(LOSSES, fixed_rng), keep=of_seeds(1)), Wishes())
    assert comparison.exit_code == 1
    assert len(rows(comparison, Verdict.REGRESSION)) == 4


@pytest.mark.parametrize("seeds", [1, 3])
def test_they_are_seen_where_all_weights_are_others_too(tmp_path, fixed_rng, seeds):
    base = write(tmp_path / "base", retrained(fixed_rng, 0.5), keep=of_seeds(seeds))
    head = write(tmp_path / "head", retrained(fixed_rng, 0.5, LOSSES), keep=of_seeds(seeds))
    assert compare_folders(base, head, ACCURACY_ONLY).exit_code == 1


def test_what_all_methods_lose_is_seen_in_all_of_them_together(tmp_path, fixed_rng):
    base = write(tmp_path / "base", retrained(fixed_rng, 0.3), keep=of_seeds(1))
    worse = dict.fromkeys((*LOSSES, "random", "none", "cnn"), 2.5)
    comparison = compare_folders(
        base, write(tmp_path / "head", retrained(fixed_rng, 0.3, worse), keep=of_seeds(1)), ACCURACY_ONLY
    )
    assert rows(comparison, Verdict.REGRESSION, ALL)


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("spread", [0.3, 0.8])
def test_trained_again_passes(tmp_path, seeds, spread):
    """95 of 100 do, so that fewer than 18 of 20 are rare."""
    codes = []
    for draw in range(20):
        rng = np.random.default_rng(draw)
        folders = [
            write(tmp_path / f"{name}{draw}", retrained(rng, spread), keep=of_seeds(seeds)) for name in ("base", "head")
        ]
        codes.append(compare_folders(*folders, ACCURACY_ONLY).exit_code)
    assert codes.count(0) >= 18, codes


def test_a_loss_that_one_seed_cannot_judge_is_not_green(tmp_path, fixed_rng):
    """Most methods move by four points, so that much is noise; but no chance of the images."""
    moved = {**dict.fromkeys(("dynamic", "em", "uniform", "random"), -4), "cnn": 4}
    base = write(tmp_path / "base", keep=of_seeds(1))
    head = write(tmp_path / "head", losing(moved, fixed_rng), keep=of_seeds(1))
    comparison = compare_folders(base, head, ACCURACY_ONLY)
    assert [row.name for row in rows(comparison, Verdict.UNDECIDED)] == ["cnn"]
    assert comparison.exit_code == 4
    assert verdict(comparison).startswith("Undecided: accuracy of cnn: −4.00 points")
    assert "run more seeds" in verdict(comparison)


def test_the_spread_of_bases_other_seeds_is_the_noise_of_one(tmp_path, fixed_rng):
    """BASE's three seeds lie 0.57 points apart, pooled: the floor is known, and less than where nothing tells."""
    again, worse = (retrained(fixed_rng, 0.2) for _ in range(2))
    three = write(tmp_path / "three", again, keep=of_seeds(3))
    one = write(tmp_path / "one", again, keep=of_seeds(1))
    head = write(tmp_path / "head", worse, keep=of_seeds(1))
    known, unknown = (
        next(row for row in compare_folders(base, head, ACCURACY_ONLY).changes if row.threshold)
        for base in (three, one)
    )
    assert 0 < known.threshold < unknown.threshold


def weighed(right, data):
    """The evidence for one method whose answers (side, image) are those of one seed."""
    base, head = ({0: np.array([100 * one.mean()])} for one in right)
    group = Group("viewpoint", "quick", data, "accuracy", "test", "%", higher_is_better=True)
    one = PairedSeries(group, "em", 3, "", base, head, right={0: right}, base_means={0: float(base[0][0])})
    return weigh([one], Noise([one]))


def test_views_of_one_object_are_one_sample_of_the_gate():
    objects = np.random.default_rng(2).random((2, 25)) < [[0.9], [0.5]]
    images = np.repeat(objects, 162, axis=1)
    plain, toys, apart = weighed(objects, "mnist5k"), weighed(images, "rendered-shapes-small"), weighed(images, "mnist")
    assert toys.p_value == pytest.approx(plain.p_value)
    assert apart.p_value < 1e-9 < plain.p_value
    assert {one.kind for one in (plain, toys, apart)} == {"samples"}
    assert weighed(images, "smallnorb").kind == ""  # nobody knows which images show one object
