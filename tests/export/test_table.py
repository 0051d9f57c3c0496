import pytest

from routebench.tables._table import aligned

COLUMNS = [
    ["97.12 ± 0.40", "8.10 ± 0.40", "–", "97.12"],
    ["1.6 [1.4, 1.8]", "19 [17, 20]", "164 [151, 176]", "−0.02 [−0.70, 0.66]", "1.8 [−1.9, 5.4] (noise)"],
    ["+1.60 [+0.22, +2.98]", "−0.50 [−1.16, +0.16]"],
    ["≥ 2,048", "366", "–"],
    ["< 0.001", "0.041", "1.000"],
]


@pytest.mark.parametrize("texts", COLUMNS, ids=lambda texts: texts[0])
def test_decimal_points_and_right_edges_align(texts):
    padded = aligned(texts, lambda text: " " * len(text))
    numbers = [text for text in padded if "–" not in text]
    assert len({len(text) for text in numbers}) == 1
    ends = {min((text + " ").find(stop, len(text) - len(text.lstrip())) for stop in ". " if stop in text + " ")
            for text in numbers if "≥" not in text and "<" not in text}  # fmt: skip
    assert len(ends) == 1
    assert ["".join(text.split()) for text in padded] == ["".join(text.split()) for text in texts]


def test_equal_texts_are_left_alone():
    assert aligned(["3 / 3", "3 / 3"], lambda text: "?" * len(text)) == ["3 / 3", "3 / 3"]


def test_a_column_of_words_is_left_alone():
    assert aligned(["–", "none"], lambda text: "?" * len(text)) == ["–", "none"]
