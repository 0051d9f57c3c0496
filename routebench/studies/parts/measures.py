"""Measures of coupling of parts, and the same of inference in the true model; some others are of the core."""

from dataclasses import replace

from routebench.declared import CORRELATION, MORE, NEITHER, Measure, declare, measure_of

COUPLING = (
    Measure("ari", "ARI", "", MORE, 2, "adjusted Rand index: the parent with most of each part's coupling against its "
            "true object, mean over scenes of two objects or more. 1 is right, 0 is chance. Clutter takes part in "
            "routing, and is not counted", CORRELATION),
    Measure("ari_clutter", "ARI with clutter", "", MORE, 2, "the same with clutter counted as one group more",
            CORRELATION),
    Measure("true_share", "True share", "", MORE, 2, "share of a part's coupling at its true object", share=True),
    Measure("clutter_mass", "Clutter's coupling", "", NEITHER, 2, "of a part that belongs to nothing with all parents, "
            "where that of a part of an object is 1"),
)  # fmt: skip
declare(*COUPLING)
declare(
    *(
        replace(one, name=f"ceiling_{one.name}", title=f"{one.title}, true model", higher_is_better=NEITHER,
                meaning=f"`{one.name}` of inference in the true model")
        for one in (*COUPLING, measure_of("pose_r2"), measure_of("exact_match"))
    )
)  # fmt: skip
