"""The built-in networks."""

from asyncfl.learning.models.char_lstm import CharLstm
from asyncfl.learning.models.convolutional import DigitsNet, LeNet, McMahanCnn, SmallCnn
from asyncfl.learning.models.mlp import Linear, Mlp
from asyncfl.learning.models.resnet import ResNet

__all__ = ["CharLstm", "DigitsNet", "LeNet", "Linear", "McMahanCnn", "Mlp", "ResNet", "SmallCnn"]
