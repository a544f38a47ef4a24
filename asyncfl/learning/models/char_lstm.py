"""CharLstm: the next-character network of McMahan et al. (2017), "Communication-Efficient Learning"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Dropout, Shape

if TYPE_CHECKING:
    import torch


class CharLstm(Architecture):
    """Embedding, two LSTM layers and a linear layer on the last step: 822,570 parameters for 90 characters.

    An input (length,) holds the numbers of characters, 0..classes-1; the class is the number of the next character.

    Source: McMahan et al. 2017, section 3, Shakespeare.
    """

    classes_only: ClassVar[bool] = True
    supports_vmap: ClassVar[bool] = False
    kind: Literal["char_lstm"] = "char_lstm"
    alongside: ClassVar[Mapping[str, Any]] = {"data.dataset": "shakespeare"}
    embedding: Annotated[int, Field(ge=1, le=100_000), MeasuredIn("numbers")] = 8
    """Size of each character's embedding vector."""
    hidden: Annotated[int, Field(ge=1, le=100_000), MeasuredIn("units")] = 256
    """Units of each LSTM layer."""
    layers: Annotated[int, Field(ge=1, le=100), MeasuredIn("layers")] = 2
    """Number of LSTM layers."""
    dropout: Dropout = 0.0
    """Probability with which each output of an LSTM layer is dropped in a training step, 0 <= dropout < 1; the others
    are scaled by 1/(1 - dropout). Source: Zaremba et al. 2014."""

    def faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """Report data that are not texts."""
        if len(shape) != 1:
            yield Fault("kind", f"char_lstm reads texts (length,), got inputs of shape {shape}; take another network")

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Estimate six operations per weight and character, at the rate that small batches reach."""
        weights = 4 * self.hidden * (self.embedding + self.hidden + 2 * self.hidden * (self.layers - 1))
        return 1e-5 + 6 * (weights * shape[0] + self.hidden * outputs) / 100e9

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        from asyncfl.learning.models.torch_modules import CharLstmModule

        return CharLstmModule(outputs, self.embedding, self.hidden, self.layers, self.dropout)
