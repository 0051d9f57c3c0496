"""Measures of inference in the class layer; sparsity, and `residual`, are of the core."""

from routebench.declared import LESS, MORE, NEITHER, Measure, declare

declare(
    Measure("silent", "Silent capsules", "", NEITHER, 1, "class capsules of length zero exactly"),
    Measure("right_length", "Length of the right capsule", "", NEITHER, 3, "length of the right class capsule"),
    Measure("other_length", "Length of the others", "", NEITHER, 3, "mean length of the others"),
    Measure("right_longest", "Right longest", "%", MORE, 2, "test images whose right capsule is longest; given away by "
            "the right label"),
    Measure("energy_before", "Energy before", "", LESS, 4, "at the start of inference"),
    Measure("energy_after", "Energy", "", LESS, 4, "of inference, in the end: squared errors and penalties, per image"),
    Measure("largest_rise", "Largest rise of energy", "", LESS, 4, "largest rise of the energy of any image in any "
            "step. Inference takes no step that raises it, so only rounding is left"),
    Measure("halved_share", "Halved step sizes", "", LESS, 3, "share of images for which the step size had to be "
            "halved", share=True),
)  # fmt: skip
