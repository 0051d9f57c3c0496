"""The sparsity of the class capsules, and how far coupling singles out one parent."""

from routebench.analysis import (
    BASELINE,
    METHOD,
    SEEDS,
    Analysis,
    Main,
    Mean,
    Runs,
    analysis_of,
    gains_over,
    run,
    table_of,
)

SCORES = {"layer": "classes", "of": "activation"}
COUPLING = {"layer": "classes", "as_trained": True}
COLUMNS = (
    METHOD,
    Mean.of("hoyer", explained="Hoyer's sparsity of the class scores, mean over test images: 0 is spread evenly, 1 is "
            "one alone", where=SCORES),
    Mean.of("top_share", explained="share of the most active class capsule in the sum; 0.1 is spread evenly over ten",
            where=SCORES),
    Mean.of("active_above_0.1", explained="class capsules whose score is above 0.1, mean over test images",
            where=SCORES),
    Mean.of("dead_share", title="Dead", explained="share of class capsules whose score is above 0.1 for no test image",
            where=SCORES),
    Mean.of("d_score", explained="largest standard deviation over test images of any class score (Peer et al.)",
            where=SCORES),
    Mean.of("t_score", explained="1 where every child has one parent, 0 where it has all alike; at the T trained with",
            where=COUPLING),
    Mean.of("effective_parents", explained="exp of the entropy of a child's coupling over class capsules",
            where=COUPLING),
    SEEDS,
)  # fmt: skip


@analysis_of("sparsity", "sparsity-table", place=10)
def sparsity_table(runs: Runs) -> Analysis | None:
    """Sparsity of class scores per method, and decidedness of the coupling into the class layer."""
    table = table_of(runs, COLUMNS, order="hoyer")
    if table.empty:
        return None
    return Analysis(
        title="Sparsity of class capsules, and of the coupling into them",
        reading="How sparse are class capsules, and how selective is the coupling into them?",
        table=table,
        columns=COLUMNS,
        notes=(
            "Mean over test images, then over seeds with its 95 % t interval.",
            (
                "Scores are lengths of class capsules, activations, or sigmoids of class logits, as the method has it: "
                "their scales differ, so that counts above a threshold compare methods of one kind only."
            ),
        ),
        main=Main.of(
            "t_score",
            title="T-score of coupling",
            explained="0: uniform coupling; 1: one parent",
            gains=gains_over(BASELINE, runs.by_seed("t_score", **COUPLING)),
        ),
    )


if __name__ == "__main__":
    run(sparsity_table)
