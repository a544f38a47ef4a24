"""Data sets by name, real or drawn, shared out over clients."""

from asyncfl.data.catalog import CATALOG, Dataset, DatasetName
from asyncfl.data.download import fetch
from asyncfl.data.federated import FederatedData
from asyncfl.data.listing import Available, available
from asyncfl.data.sheet import contact_sheet
from asyncfl.data.spec import DataSpec

__all__ = [
    "CATALOG",
    "Available",
    "DataSpec",
    "Dataset",
    "DatasetName",
    "FederatedData",
    "available",
    "contact_sheet",
    "fetch",
]
