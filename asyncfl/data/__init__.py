"""Data sets by name, real or drawn, shared out over clients."""

from asyncfl.data.catalog import CATALOG, Dataset, DatasetName
from asyncfl.data.federated import FederatedData
from asyncfl.data.spec import DataSpec

__all__ = ["CATALOG", "DataSpec", "Dataset", "DatasetName", "FederatedData"]
