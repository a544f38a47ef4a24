"""Noise that is correlated over the versions of a model: its factorisations, its streams, and its sensitivity."""

from typing import Any

from asyncfl.base.component import choice
from asyncfl.privacy.correlation.banded import Banded
from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.correlation.factorisation import Factorisation, Independent
from asyncfl.privacy.correlation.tree import Tree

AnyFactorisation: Any = choice(Factorisation, Independent, Tree, Banded)
"""Annotation of a field that holds a factorisation, chosen by `kind`."""

__all__ = ["AnyFactorisation", "Banded", "Encoder", "Factorisation", "Independent", "Tree"]
