"""Data sets of a user's own: a class with one method, or files."""

from asyncfl.data.own.base import Dataset
from asyncfl.data.own.bundled import TITLES, Bundled, BundledName
from asyncfl.data.own.huggingface import HuggingFace
from asyncfl.data.own.npy import NpyFolder
from asyncfl.data.own.npz import NpzFile
from asyncfl.data.own.pictures import PictureFolder
from asyncfl.data.own.samples import Samples
from asyncfl.data.own.table import TableFile

__all__ = [
    "TITLES",
    "Bundled",
    "BundledName",
    "Dataset",
    "HuggingFace",
    "NpyFolder",
    "NpzFile",
    "PictureFolder",
    "Samples",
    "TableFile",
]
