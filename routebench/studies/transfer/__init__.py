"""Training on digits that are only moved, tests on transformed ones."""
