"""The built-in networks, one per file."""

from asyncfl.learning.models.char_lstm import CharLstm
from asyncfl.learning.models.cnn import McMahanCnn
from asyncfl.learning.models.digits import DigitsNet
from asyncfl.learning.models.dp_cnn import DpCnn
from asyncfl.learning.models.lenet import LeNet
from asyncfl.learning.models.linear import Linear
from asyncfl.learning.models.mlp import Mlp
from asyncfl.learning.models.resnet import ResNet
from asyncfl.learning.models.small_cnn import SmallCnn

__all__ = ["CharLstm", "DigitsNet", "DpCnn", "LeNet", "Linear", "McMahanCnn", "Mlp", "ResNet", "SmallCnn"]
