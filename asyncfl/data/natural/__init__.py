"""Data sets whose samples have owners, or stand-ins for them: FEMNIST by writer, Shakespeare by role, Adult by the
people's occupation, education or origin."""

from asyncfl.data.natural.catalog import NATURAL, NaturalName, NaturalSet
from asyncfl.data.natural.natural_source import natural_on_disk, natural_source

__all__ = ["NATURAL", "NaturalName", "NaturalSet", "natural_on_disk", "natural_source"]
