"""Measures of slots: which shape is drawn by which."""

from routebench.declared import CORRELATION, LESS, MORE, NEITHER, POSITIVE, Measure, declare

declare(
    Measure("fg_ari", "FG-ARI", "", MORE, 2, "adjusted Rand index over the pixels that show a shape: the slot with the "
            "largest mask at a pixel against the shape seen there, mean over pictures in which two shapes or more are "
            "seen. 1 is right, 0 is chance", CORRELATION),
    Measure("fg_ari_coupling", "FG-ARI of coupling", "", MORE, 2, "the same for the slot with most of the coupling of "
            "the grid's capsule at a pixel", CORRELATION),
    Measure("squared_error", "Squared error", "", LESS, 4, "of pictures, mean over pixels in [0, 1]", POSITIVE),
    Measure("baseline_components", "FG-ARI of neighbours", "", NEITHER, 2, "`fg_ari` of neighbouring pixels of one "
            "colour", CORRELATION),
    Measure("baseline_kmeans", "FG-ARI of k-means", "", NEITHER, 2, "`fg_ari` of k-means by place and colour, of the "
            "pixels that show a shape, told how many shapes are seen", CORRELATION),
)  # fmt: skip
