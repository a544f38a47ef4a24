"""The networks a scenario can name, one per file."""

from asyncfl.learning.models.cnn import McMahanCnn
from asyncfl.learning.models.lenet import LeNet
from asyncfl.learning.models.mlp import Mlp

__all__ = ["LeNet", "McMahanCnn", "Mlp"]
