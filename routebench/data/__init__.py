"""Data sets: one file per family, all of them fixed by a fingerprint.

>>> from routebench.data import load
>>> data = load("mnist5k")
>>> len(data.train), len(data.held_out), len(data.test)
(3600, 400, 1000)
"""

from routebench.data.augment import Augmentation, augmentations
from routebench.data.dataset import Dataset, Images, TrainingData, facts, stratified_split
from routebench.data.load import load

__all__ = ["Augmentation", "Dataset", "Images", "TrainingData", "augmentations", "facts", "load", "stratified_split"]
