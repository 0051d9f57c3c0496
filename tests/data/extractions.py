"""Small extractions of features, for tests."""

from routebench.data import extract, load, pretrained

SMALL = "torchvision:squeezenet1_1"
"""A network of 1.2 million weights, drawn anew for each test with one seed."""


def drawn(**given):
    return pretrained(SMALL, weights="random", size=48, **given)


def written(file, backbone=None, data="take:200:mnist5k", **given):
    """The data set of a file that an extraction has just written."""
    extract(backbone or drawn(layer="features.3"), load(data) if isinstance(data, str) else data, file, **given)
    return load(f"features:{file}")
