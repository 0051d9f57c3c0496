"""Tsai et al., "Capsules with inverted dot-product attention routing" (ICLR 2020), and its overlapping digits."""
