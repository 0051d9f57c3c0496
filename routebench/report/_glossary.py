"""The words of a report, for readers who are new to capsules or statistics."""

GLOSSARY: tuple[tuple[str, str], ...] = (
    ("capsule", "A group of neurons whose vector says whether something is there and how it is posed."),
    ("routing", "The rule that decides how much each lower capsule (child) contributes to each higher one (parent)."),
    ("T", "How many times routing refines its decision: its iterations. T′ is the number used when testing."),
    ("coupling", "How much of one child goes to one parent."),
    (
        "uniform routing",
        "The baseline uniform: the same coupling for all parents, so nothing is routed. Formerly equal shares.",
    ),
    ("random coupling", "The baseline random: coupling is drawn once at random and stays fixed."),
    ("no sharing", "The baseline none: votes are summed with coefficient 1, and nothing is shared out."),
    ("CNN", "A baseline: a plain convolutional network of matched size, without capsules."),
    ("baseline", "A method that every suite runs unasked, because without it a gain cannot be told from no gain."),
    ("seed", "The number that fixes initial weights, order of batches and augmentation. Another seed is another run."),
    (
        "95 % interval",
        (
            "Made so that 95 of 100 such intervals contain the true mean. Over seeds it is Student's t; with one "
            "seed it is Wilson's over test images, and then says nothing about other seeds."
        ),
    ),
    ("points", "Percentage points of accuracy."),
    ("paired", "Compared seed by seed (or image by image), so that what both share cancels."),
    (
        "p, Holm",
        (
            "The chance of a difference this large if there were none. Holm's correction keeps the chance of any false "
            "alarm among all comparisons of a table below 5 %."
        ),
    ),
    (
        "rank",
        "The places that a method may have among all, by tests of all pairs. 1 to 7: none is significantly better.",
    ),
    (
        "smallest detectable difference",
        "The true difference that these seeds would show 8 times in 10. Smaller ones usually go unnoticed.",
    ),
    (
        "equal within 0.5 points",
        "Shown to differ by less: two one-sided tests at 5 %, Holm. Not the same as finding no difference.",
    ),
    (
        "effect size",
        "The mean difference in standard deviations of the differences between seeds (Hedges' g): 0 is none.",
    ),
    (
        "critical difference",
        "How far apart two mean ranks over data sets must be to count as different (Nemenyi's test at 5 %).",
    ),
    ("held-out", "A tenth of the training images, never trained on, for looking at training and for selection."),
    ("fingerprint", "A hash over pixels and labels, or what features are computed from: if equal, the data are."),
    (
        "noise floor",
        "How far apart two measurements of the same time lie, in 95 of 100 cases. Smaller differences are not claimed.",
    ),
    ("back end", "The code that does the sweeps over children: plain torch (reference), fused for processors, triton."),
    ("run", "One method with one T and one seed: the unit that is run, kept, or failed."),
)
