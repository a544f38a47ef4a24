"""The user's own data sets: files, or a class with one method."""

from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.file_formats import ImageFolder, NpyFolder, NpzFile
from asyncfl.data.own.huggingface import HuggingFace
from asyncfl.data.own.samples import Samples
from asyncfl.data.own.scikit_learn import ScikitLearn
from asyncfl.data.own.table import TableFile

__all__ = [
    "Dataset", "HuggingFace", "ImageFolder", "NpyFolder", "NpzFile", "Samples", "ScikitLearn",
    "TableFile",
]  # fmt: skip
