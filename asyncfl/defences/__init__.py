"""How updates become one: aggregation rules, one per file."""

from asyncfl.defences.mean import Mean
from asyncfl.defences.rule import Rule

__all__ = ["Mean", "Rule"]
