"""Training: how a client trains.

One step of a client on a batch, with `base` the model it was sent:

    g <- gradient of the batch's mean cross-entropy;   g <- g min(1, gradient_clip / |g|)
    g <- g + proximal_mu (w - base)                    FedProx, Li et al. 2020
    v <- momentum v + g;   w <- w - lr v               v starts at 0 for every task

The proximal term is not clipped: the clip bounds what the data can do to a step, and `w - base` is no data.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from asyncfl.component import Described


class Training(Described):
    """Local training: mini-batch SGD, with momentum, a proximal term and gradient clipping where asked for."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    """Learning rate, above 0."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the last step that is added to the next, 0 <= momentum < 1."""
    batch_size: Annotated[int, Field(ge=1)] | Literal["full"] = 32
    """Samples per step (the last batch of an epoch may be shorter), or `full`: all of the client's samples."""
    epochs: Annotated[int, Field(ge=1)] = 1
    """Passes over the client's samples per task."""
    proximal_mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Strength mu of FedProx's pull towards the model that was sent; 0: plain SGD."""
    gradient_clip: Annotated[float, Field(gt=0)] | None = None
    """Largest L2 norm of a batch's gradient, before momentum and without the proximal term; null: no clipping."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where training runs; `auto`: a CUDA device where torch sees one, else the CPU."""
    gemm: Literal["default", "onednn"] = "default"
    """Matrix products of torch's default library, or of oneDNN where a probe finds it exact and faster on this CPU."""

    def batch_of(self, samples: int) -> int:
        """Samples in a full batch of a client that holds `samples` of them."""
        return samples if self.batch_size == "full" else min(self.batch_size, samples)

    def steps(self, samples: int) -> int:
        """Steps that one task of a client with `samples` samples takes."""
        return self.epochs * -(-samples // self.batch_of(samples)) if samples else 0
