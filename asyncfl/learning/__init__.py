"""Models as flat vectors, and the local training of clients.

`models/` holds the networks, `training` the settings of a client's SGD, `learner` the code that trains and evaluates. A
network of your own derives from `Architecture`, or is any `nn.Module`.
"""

from typing import Any

from asyncfl.base.component import choice
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.job import Job
from asyncfl.learning.layout import Layer, Layout
from asyncfl.learning.learner import Learner, make_learner
from asyncfl.learning.models import CharLstm, DigitsNet, LeNet, Linear, McMahanCnn, Mlp, ResNet, SmallCnn
from asyncfl.learning.training import Training

AnyArchitecture: Any = choice(Architecture, Mlp, Linear, LeNet, McMahanCnn, SmallCnn, DigitsNet, ResNet, CharLstm)
"""Type of a scenario's field that holds a network, chosen by `kind`."""

__all__ = [
    "AnyArchitecture",
    "Architecture",
    "CharLstm",
    "DigitsNet",
    "Job",
    "Layer",
    "Layout",
    "LeNet",
    "Learner",
    "Linear",
    "McMahanCnn",
    "Mlp",
    "ResNet",
    "Shape",
    "SmallCnn",
    "Training",
    "make_learner",
]
