"""Data sets by name or of the user's own, real or drawn, and their partition over clients."""

from asyncfl.base.own_classes import own_file
from asyncfl.data.catalog import CATALOG, CatalogEntry, DatasetName
from asyncfl.data.data_spec import DataSpec
from asyncfl.data.download import fetch
from asyncfl.data.federated import FederatedData
from asyncfl.data.listing import Available, available
from asyncfl.data.own import Dataset, Samples

__all__ = [
    "CATALOG",
    "Available",
    "CatalogEntry",
    "DataSpec",
    "Dataset",
    "DatasetName",
    "FederatedData",
    "Samples",
    "available",
    "fetch",
    "own_file",
]
