"""Measures of what changed images do to capsules; `pose_r2` and `right_answers` are of the core."""

from routebench.declared import AT_MOST_ONE, CORRELATION, MORE, NEITHER, Measure, declare

declare(
    Measure("pose_r2_same", "Pose R² without a map", "", NEITHER, 2, "`pose_r2` with A = 1 and b = 0: how far the pose "
            "does not change at all", AT_MOST_ONE),
    Measure("activation_correlation", "Correlation of activations", "", NEITHER, 2, "Pearson's correlation of "
            "activations before and after, over images and types of capsules; of the class layer, of the scores: 1 is "
            "invariance", CORRELATION),
    Measure("changed_accuracy", "Accuracy, changed images", "%", MORE, 1, "accuracy on changed test images"),
)  # fmt: skip
