"""Models as flat vectors, and the local training of clients.

`models/` holds the networks, `training` the settings of a client's SGD, `learner` the code that trains and evaluates. A
network of your own derives from `Architecture`, or is any `nn.Module`.
"""

from typing import Any

from asyncfl.base.component import choice
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.job import Job
from asyncfl.learning.layout import Layer, Layout
from asyncfl.learning.learner import Learner
from asyncfl.learning.models import CharLstm, DigitsNet, DpCnn, LeNet, Linear, McMahanCnn, Mlp, ResNet, SmallCnn
from asyncfl.learning.models.mlp import Layered
from asyncfl.learning.training import Training

AnyArchitecture: Any = choice(
    Architecture, Mlp, Linear, LeNet, McMahanCnn, SmallCnn, DpCnn, DigitsNet, ResNet, CharLstm
)
"""Type of a scenario's field that holds a network, chosen by `kind`."""

__all__ = [
    "AnyArchitecture", "Architecture", "CharLstm", "DigitsNet", "Job", "Layer", "Layout", "LeNet", "Learner", "Linear",
    "McMahanCnn", "Mlp", "ResNet", "Shape", "SmallCnn", "Training", "make_learner",
]  # fmt: skip


def make_learner(model: Architecture, training: Training, shape: Shape, outputs: int) -> Learner:
    """Build the learner for this network on the device that `training` asks for.

    Raises ScenarioError for `device: cuda` if torch finds no CUDA device.
    """
    import torch

    from asyncfl.learning.batched import BatchedLearner
    from asyncfl.learning.mlp import MlpLearner
    from asyncfl.learning.module import ModuleLearner

    cuda = torch.cuda.is_available()
    if training.device == "cuda" and not cuda:
        message = "must be auto or cpu on this machine, got cuda, and torch sees no CUDA device"
        raise ScenarioError([Fault("training.device", message)])
    if training.device == "cuda" or (training.device == "auto" and cuda):
        on_gpu = BatchedLearner if model.supports_vmap else ModuleLearner
        return on_gpu(model, training, shape, outputs, "cuda")
    if isinstance(model, Layered):
        return MlpLearner(model, training, shape, outputs)
    return ModuleLearner(model, training, shape, outputs, "cpu")
