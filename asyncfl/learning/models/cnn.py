"""McMahanCnn: the convolutional network of McMahan et al. (2017), "Communication-Efficient Learning"."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Widths
from asyncfl.learning.models.convolutional import TwoConvolutions


class McMahanCnn(TwoConvolutions):
    """Two 5x5 convolutions and a layer of 512 units: 1,663,370 parameters on 1x28x28 images and 10 classes.

    Source: McMahan et al. 2017, section 3, CNN.
    """

    seconds: ClassVar[float] = 5.7e-4
    kind: Literal["cnn"] = "cnn"
    channels: Annotated[Widths, MeasuredIn("channels")] = (32, 64)
    """Channels of each convolution."""
    hidden: Annotated[Widths, MeasuredIn("units")] = (512,)
    """Units of each hidden linear layer."""
