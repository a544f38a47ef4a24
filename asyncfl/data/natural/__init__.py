"""Data sets with owners of their own: FEMNIST by its writers, Shakespeare by his roles, Adult by what its people do,
learnt or come from; or stand-ins for them."""

from asyncfl.data.natural.catalog import NATURAL, NaturalName, NaturalSet
from asyncfl.data.natural.natural_source import natural_on_disk, natural_source

__all__ = ["NATURAL", "NaturalName", "NaturalSet", "natural_on_disk", "natural_source"]
