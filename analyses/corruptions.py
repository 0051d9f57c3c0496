"""Accuracy and calibration on corrupted images: noise, blur, contrast, brightness, coarse pixels."""

from routebench.analysis import (
    METHOD,
    SEEDS,
    Analysis,
    Column,
    Estimate,
    Mean,
    Runs,
    analysis_of,
    gains_over,
    run,
    table_of,
)

MEAN = {"severity": "mean"}
CLEAN, ALL = {**MEAN, "corruption": "none"}, {**MEAN, "corruption": "all"}
ACCURACY, ERROR = "corrupted_accuracy", "calibration_error"


@analysis_of("robustness", "corruptions", place=60)
def corruptions(runs: Runs) -> Analysis | None:
    """Accuracy per method, clean and under each corruption, mean over severities, and calibration error."""
    measured = runs.values(ACCURACY, severity="mean")
    if measured.empty:
        return None
    columns = _columns([name for name in measured["corruption"].unique() if name not in ("none", "all")])
    table = table_of(runs, columns, order="corrupted")
    gains = gains_over("uniform", runs.by_seed(ACCURACY, **ALL))
    table["gain"] = table["method"].map(lambda method: gains.get(method, Estimate()))
    return Analysis(
        title="Corrupted images",
        reading="How much accuracy is left on corrupted images?",
        table=table,
        columns=columns,
        notes=(
            "Severities are those of the suite. Test images are as many of each class.",
            "Confidence is by a softmax of logits, which margin and spread loss do not train to be a probability.",
            (
                "Gains over uniform routing are paired by seed and corrected over all methods (Holm), on these images: "
                "which of them were right was not kept, so that nothing is known of others."
            ),
        ),
    )


def _columns(names: list[str]) -> tuple[Column, ...]:
    return (
        METHOD,
        Mean.of(ACCURACY, "clean", "Clean (%)", "accuracy on the same images uncorrupted", where=CLEAN),
        Mean.of(ACCURACY, "corrupted", "Corrupted (%)", "accuracy, mean over all corruptions and severities",
                where=ALL),
        Column("Gain", "gain", "+.1", "points of accuracy on corrupted images more than uniform routing"),
        *(Mean.of(ACCURACY, name, name.replace("-", " ").capitalize(), "accuracy (%), mean over severities", text=".1",
                  where={**MEAN, "corruption": name}, extra=True) for name in names),
        Mean.of(ERROR, "ece_clean", "ECE clean (%)", "expected calibration error, over 15 bins of confidence: 0 is "
                "calibrated", where=CLEAN),
        Mean.of(ERROR, "ece", "ECE corrupted (%)", "the same, mean over all corruptions and severities", where=ALL),
        SEEDS,
    )  # fmt: skip


if __name__ == "__main__":
    run(corruptions)
