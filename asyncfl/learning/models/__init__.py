"""The networks a scenario can name, one per file."""

from asyncfl.learning.models.cnn import McMahanCnn
from asyncfl.learning.models.digits import DigitsNet
from asyncfl.learning.models.lenet import LeNet
from asyncfl.learning.models.mlp import Mlp
from asyncfl.learning.models.small_cnn import SmallCnn

__all__ = ["DigitsNet", "LeNet", "McMahanCnn", "Mlp", "SmallCnn"]
