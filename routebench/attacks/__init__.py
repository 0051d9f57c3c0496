"""Adversarial attacks through foolbox, what they are aimed at, and how what they return is judged."""

import warnings

with warnings.catch_warnings():  # foolbox 3.3.4 imports from a name that SciPy will drop in 2.0
    warnings.simplefilter("ignore", DeprecationWarning)
    import foolbox  # noqa: F401  # here, so that every file of this package finds it imported
