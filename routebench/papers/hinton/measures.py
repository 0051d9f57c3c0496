"""Measures of Hinton et al.'s viewpoints."""

from routebench.declared import MORE, Measure, declare

declare(
    Measure(
        "novel_accuracy",
        "Novel viewpoints",
        "%",
        MORE,
        1,
        "accuracy on viewpoints that training did not show",
        main=True,
    ),
    Measure("familiar_accuracy", "Familiar viewpoints", "%", MORE, 1, "accuracy on viewpoints as in training"),
    Measure("accuracy_by_view", "By viewpoint", "%", MORE, 1, "accuracy at one azimuth or elevation, in degrees"),
)
