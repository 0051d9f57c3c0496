"""Data sets: one file per family, all of them fixed by a fingerprint.

>>> from routebench.data import load
>>> data = load("mnist5k")
>>> len(data.train), len(data.held_out), len(data.test)
(3600, 400, 1000)
"""

from routebench.data._load import declared_where_missing, load, loader_of, read_again
from routebench.data.affnist import CANVAS, VARIANTS, affnist_is_there, place
from routebench.data.backbones import pretrained
from routebench.data.corruptions import CORRUPTIONS, SEVERITIES, corrupted
from routebench.data.dataset import SIZE_ALONE, Dataset, Images, TrainingData, facts, fingerprint, stratified_split
from routebench.data.extracting import extract
from routebench.data.official import absent, data_root
from routebench.data.pinning import pinned
from routebench.data.rotation import draw_angles, rotate, rotate_up_to
from routebench.data.seal import sealed_test_images
from routebench.data.taking import Taken, at_most
from routebench.data.tokens import Tokens
from routebench.data.torchvision_sets import PUBLISHED
from routebench.data.unused import near_missing

__all__ = [
    "CANVAS",
    "CORRUPTIONS",
    "PUBLISHED",
    "SEVERITIES",
    "SIZE_ALONE",
    "VARIANTS",
    "Dataset",
    "Images",
    "Taken",
    "Tokens",
    "TrainingData",
    "absent",
    "affnist_is_there",
    "at_most",
    "corrupted",
    "data_root",
    "declared_where_missing",
    "draw_angles",
    "extract",
    "facts",
    "fingerprint",
    "load",
    "loader_of",
    "near_missing",
    "pinned",
    "place",
    "pretrained",
    "read_again",
    "rotate",
    "rotate_up_to",
    "sealed_test_images",
    "stratified_split",
]
