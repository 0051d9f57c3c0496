"""Measures of overlapping digits; `exact_match` is of the core."""

from routebench.declared import MORE, NEITHER, Measure, declare

declare(
    Measure("exact_match_one_digit", "Exact match, one digit", "%", MORE, 1, "exact match, of images that show one "
            "digit"),
    Measure("exact_match_two_digits", "Exact match, two digits", "%", MORE, 1, "exact match, of images that show two"),
    Measure("exact_match_half", "Exact match, threshold 0.5", "%", MORE, 1, "exact match with a fixed threshold of one "
            "half"),
    Measure("recall", "Recall", "%", MORE, 1, "of the test images that show the digit, those in which it is answered"),
    Measure("precision", "Precision", "%", MORE, 1, "of the test images in which the digit is answered, those that "
            "show it; a dash where it never is"),
    Measure("predicted_digits", "Digits answered", "count", NEITHER, 2, "mean over test images"),
)  # fmt: skip
