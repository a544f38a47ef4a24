"""Partitions: how samples are shared out over clients."""

from asyncfl.data.partition.by_column import ByColumn
from asyncfl.data.partition.dirichlet import Dirichlet, InnerDirichlet
from asyncfl.data.partition.iid import Iid
from asyncfl.data.partition.partition import Partition
from asyncfl.data.partition.pathological import Pathological
from asyncfl.data.partition.quantity import Quantity
from asyncfl.data.partition.shards import Shards

__all__ = ["ByColumn", "Dirichlet", "Iid", "InnerDirichlet", "Partition", "Pathological", "Quantity", "Shards"]
