"""What analyses are made of: the runs they read, the result they return, comparisons, figures, and numbers as text."""
