"""Training: how a client trains.

One step of a client on a batch, with `base` the model it was sent:

    g <- gradient of the batch's mean loss;           g <- g min(1, gradient_clip / |g|)
    g <- g + proximal_mu (w - base)                    FedProx, Li et al. 2020
    v <- momentum v + g;   w <- w - lr v               v starts at 0 for every task

The proximal term is not clipped: the clip bounds what the data can do to a step, and `w - base` is no data.

With `example_clip` C and `example_noise` z (DP-SGD, Abadi et al. 2016) the first line becomes, for a batch of n
examples, each with the gradient g_i of its own loss,

    g <- (sum_i g_i min(1, C / |g_i|) + z C N(0, I)) / n

The noise stands on the sum, whose L2 sensitivity is C where neighbours differ in one example that is there or counts as
zero, and 2 C where it is replaced by another. n is the size of the batch itself, also of a shorter last one: sizes
follow from the client's number of samples, which is taken to be public (it fixes the number of steps as well), so that
dividing by them is post-processing. The batches of an epoch are disjoint and cut without regard to the data: an example
takes part in `epochs` steps of a task, each a Gaussian mechanism of noise multiplier z. Momentum, the proximal term and
the step touch no data and are post-processing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.component import Described
from asyncfl.quantities import MeasuredIn


class Training(Described):
    """Local training: mini-batch SGD, with momentum, a proximal term and gradient clipping where asked for."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 0.01
    """Learning rate, above 0."""
    momentum: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.0
    """Share of the last step that is added to the next, 0 <= momentum < 1."""
    batch_size: Annotated[int, Field(ge=1), MeasuredIn("samples")] | Literal["full"] = 32
    """Samples per step (the last batch of an epoch may be shorter), or `full`: all of the client's samples."""
    epochs: Annotated[int, Field(ge=1, le=1_000_000), MeasuredIn("epochs")] = 1
    """Passes over the client's samples per task."""
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds of computing after which a client stops, and uploads what it had at the end of its last whole epoch; who
    has not done one by then gives the task up. A client that really trains (a live run without --shape) measures them
    by its own clock. It is the client's own: a lease (`world.failure_detection`) ends only where nothing is heard, and
    a protocol's `open` says when the server goes on. null: all epochs, however long."""
    proximal_mu: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.0
    """Strength mu of FedProx's pull towards the model that was sent; 0: plain SGD. Source: Li et al. 2020 (FedProx),
    equation 2; NbAFL, algorithm 1, line 5."""
    gradient_clip: Annotated[float, Field(gt=0), MeasuredIn("L2 norm")] | None = None
    """Largest L2 norm of a batch's gradient, before momentum and without the proximal term; null: no clipping. Source:
    SAFL, algorithm 2, line 4."""
    example_clip: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("L2 norm")] | None = None
    """C: largest L2 norm of one example's gradient, over all parameters together; null: no clipping of examples.
    Source: Abadi et al. 2016, algorithm 1."""
    example_noise: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("example_clip")] = 0.0
    """z: standard deviation of the noise on the sum of a batch's clipped gradients, in units of C; 0: none. Source:
    Abadi et al. 2016, algorithm 1."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where training runs; `auto`: a CUDA device where torch sees one, else the CPU."""
    gemm: Literal["auto", "default", "onednn", "mixed"] = "auto"
    """Matrix products of torch's default library, of oneDNN where it is exact on this CPU, of oneDNN for all but small
    ones (`mixed`), or (`auto`) `mixed` where a probe has found oneDNN exact and faster; it is kept for the machine and
    told in `timing.json`."""

    @model_validator(mode="after")
    def _check_clips(self) -> Training:
        if self.example_clip is not None and self.gradient_clip is not None:
            raise ValueError("gradient_clip and example_clip exclude each other; leave one of them null")
        if self.example_noise and self.example_clip is None:
            raise ValueError(f"example_noise is in units of example_clip, which must be set for {self.example_noise:g}")
        return self

    def batch_of(self, samples: int) -> int:
        """Samples in a full batch of a client that holds `samples` of them."""
        return samples if self.batch_size == "full" else min(self.batch_size, samples)

    def steps(self, samples: int, epochs: int | None = None) -> int:
        """Steps that one task of a client with `samples` samples takes, or `epochs` of it."""
        return (epochs or self.epochs) * -(-samples // self.batch_of(samples)) if samples else 0
