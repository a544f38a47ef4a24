"""Settings of local training: mini-batch SGD on one client. A step on a batch of n examples is

    g <- gradient of the batch's mean loss;           g <- g min(1, gradient_clip / |g|)
    g <- g + proximal_mu (w - base)                    FedProx, Li et al. 2020; base: the model that was sent
    g <- g + c                                         constant of an algorithm (`asyncfl.algorithms`), if any
    v <- momentum v + g;   w <- w - lr v               v starts at 0 for every task

The last line is that of SGD without weight decay; `asyncfl.learning.optimizer` has the others.

The proximal term is not clipped, as it does not depend on the data; neither is c. With `example_clip` C and
`example_noise` z (DP-SGD, Abadi et al. 2016) the first line becomes g <- (sum_i g_i min(1, C / |g_i|) + z C N(0, I)) /
n, where g_i is the gradient of example i. A gradient whose norm is not finite in float32 counts as zero, with either
clip.

The L2 sensitivity of the sum is C if neighbouring data sets differ in one example that is present or counts as zero,
and 2 C if one example is replaced. n follows from the client's number of samples, which counts as public. Each example
takes part in one step of each epoch, a Gaussian mechanism with noise multiplier z; all else is post-processing.

With `batches: poisson` each of a client's m samples enters each batch with probability q = batch_size / m, on its own,
and an epoch has as many steps as with shuffled batches. The sum of the clipped gradients is divided by the expected
number of examples, n = q m, as Opacus does (`expected_batch_size`): the number that was drawn is not public. A step on
an empty batch applies the noise alone.

With `gradient_step: printed`, SAFL's algorithm 2 as it is printed, there is one step an epoch on the mean of the
clipped gradients of all n samples; one replaced sample moves the first step by at most 2 lr gradient_clip / n. It is
computed as a single batch with clipped examples (`Training.as_batches`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.former_names import FormerName
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.rate_schedule import RateSchedule

_Beta = Annotated[float, Field(ge=0, lt=1)]


class Training(Described):
    """Local training: length of a task, optimiser, learning rates, proximal term, clipping of gradients and DP-SGD."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 0.01
    """Learning rate, above 0."""
    momentum: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.0
    """Share of the previous step that is added to the next, 0 <= momentum < 1; of `optimizer: sgd` alone."""
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Rule that turns gradients into steps. With DP-SGD it follows after clipping and noise. Sources: Kingma and Ba
    2015 (Adam), algorithm 1; Loshchilov and Hutter 2019 (AdamW), algorithm 2."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.0
    """Weight decay d: `sgd` and `adam` add d times the weights to the gradient, after clipping; `adamw` shrinks the
    weights by the factor 1 - lr d in each step."""
    betas: Annotated[tuple[_Beta, _Beta], MeasuredIn("1")] = (0.9, 0.999)
    """Decay rates of the means of gradients and of their squares, of `adam` and `adamw`."""
    eps: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 1e-8
    """Number added to the root of the mean square, of `adam` and `adamw`."""
    state: Literal["fresh", "kept"] = "fresh"
    """Momentum and means of the optimiser. `fresh`: they begin at zero in every task. `kept`: each client goes on with
    those of its last task, whether or not its update was used; every task is then trained, and an upload depends on
    earlier tasks, which the ledger counts. Source: Karimireddy et al. 2021 (Mime)."""
    batch_size: Annotated[int, Field(ge=1), MeasuredIn("samples")] | Literal["full"] = 32
    """Samples per step (the last batch of an epoch may be shorter), or `full`: all samples of the client."""
    batches: Literal["shuffled", "poisson"] = "shuffled"
    """Batches of an epoch. `shuffled`: the samples in random order, cut into batches. `poisson`: each sample enters
    each batch with probability batch_size / samples, so that batches vary in size (`batch_size` on average) and
    `privacy.kind: dp_sgd` gets credit for the sampling; needs `example_clip`. Source: Abadi et al. 2016, algorithm
    1."""
    epochs: Annotated[int, Field(ge=1, le=1_000_000), MeasuredIn("epochs")] = 1
    """Passes over the client's samples per task."""
    steps: Annotated[int, Field(ge=1, le=1_000_000_000), MeasuredIn("steps")] | None = None
    """Gradient steps per task, in place of `epochs`: half an epoch, or as many for every client. Samples are drawn as
    in epochs, of which the last one may be incomplete. A task takes the time of the samples that it processes. DP-SGD
    counts the epochs that are begun, each of which uses a sample at most once; with Poisson batches it counts the
    steps. null: `epochs` decides."""
    gradient_step: Annotated[Literal["per_batch", "printed"], FormerName("local_steps")] = "per_batch"
    """`per_batch`: one step per batch, on its clipped mean gradient. `printed`: one step per epoch, on the mean of the
    clipped gradients of all samples; needs `batch_size: 1` and `gradient_clip`. Source: SAFL, algorithm 2, lines 1 to
    5, prints the second, which trains little in few epochs; the first is our reading."""
    schedule: RateSchedule = RateSchedule()
    """Factor of the learning rate over the steps of a task."""
    version_schedule: RateSchedule = RateSchedule()
    """Factor of the learning rate over model versions: a task has that of the version that its client was sent."""
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds of computing after which a client stops and uploads the model of its last complete epoch; without a
    complete epoch, or with `steps` before the last step, the client gives the task up. A client that really trains (a
    live run without --shape) measures the time on its own clock. The deadline is local to the client: it is independent
    of `world.failure_detection`, by which the server notices clients that are gone, and of the protocol's `open`, which
    says when the server aggregates. null: all epochs, however long they take."""
    proximal_mu: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.0
    """Strength mu of FedProx's proximal term, which pulls the weights towards the model that was sent; 0: plain SGD.
    Source: Li et al. 2020 (FedProx), equation 2; NbAFL, algorithm 1, line 5."""
    gradient_clip: Annotated[float, Field(gt=0), MeasuredIn("L2 norm")] | None = None
    """Largest L2 norm of a batch's gradient, before momentum and without the proximal term; null: no clipping. Source:
    SAFL, algorithm 2, line 4."""
    example_clip: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("L2 norm")] | None = None
    """C: largest L2 norm of one example's gradient, over all parameters together; null: examples are not clipped.
    Source: Abadi et al. 2016, algorithm 1."""
    example_noise: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("example_clip")] = 0.0
    """z: standard deviation of the noise on the sum of a batch's clipped gradients, in units of C; 0: none. Source:
    Abadi et al. 2016, algorithm 1."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device for training; `auto`: a CUDA device if torch finds one, else the CPU."""
    gemm: Literal["auto", "default", "onednn", "mixed"] = "auto"
    """Library for matrix products on a CPU. `default`: the default library of torch. `onednn`: oneDNN, if its products
    are exact to float32 on this CPU. `mixed`: oneDNN for large products, the default for small ones. `auto`: the one
    that is fastest at the sizes of the run's layers and batches, measured once on a machine, or `default` unless the
    other saves a tenth at least; `timing.json` reports the choice."""
    kernels: Literal["auto", "torch", "compiled"] = "auto"
    """Kernels on a CPU for 3x3 and 5x5 convolutions with 2x2 max-pooling, of the built-in networks that have these.
    `torch`: those of torch. `compiled`: those that an installation with a C compiler has, for AVX2 or AVX-512, or torch
    where there are none. `auto`: `compiled` if training has one thread. Updates differ by 1e-6 to 1e-5 of their length;
    `timing.json` reports the choice."""

    @model_validator(mode="after")
    def _check_clips(self) -> Training:
        if self.example_clip is not None and self.gradient_clip is not None:
            raise ValueError("gradient_clip and example_clip exclude each other; leave one of them null")
        if self.gradient_step == "printed" and (self.batch_size != 1 or self.gradient_clip is None):
            got = f"batch_size {self.batch_size} and gradient_clip {self.gradient_clip}"
            raise ValueError(
                f"gradient_step: printed clips single samples: set batch_size: 1 and gradient_clip, got {got}"
            )
        if self.steps is not None and self.epochs != 1:
            got = f"epochs {self.epochs} and steps {self.steps}"
            raise ValueError(f"epochs and steps exclude each other; leave one of them out, got {got}")
        if self.optimizer != "sgd" and self.momentum:
            got = f"momentum {self.momentum:g}; set betas instead"
            raise ValueError(f"momentum must be 0 with optimizer: {self.optimizer}, whose momentum is betas, got {got}")
        fields = type(self).model_fields
        if self.optimizer == "sgd" and any(getattr(self, one) != fields[one].default for one in ("betas", "eps")):
            got = f"betas {list(self.betas)} and eps {self.eps:g}"
            raise ValueError(f"betas and eps are for adam and adamw: optimizer: sgd does not use them, got {got}")
        if self.state == "kept" and self.optimizer == "sgd" and not self.momentum:
            raise ValueError("state: kept needs momentum, adam or adamw: sgd without momentum has no state to keep")
        if self.batches == "poisson" and (self.example_clip is None or self.batch_size == "full"):
            got = f"example_clip {self.example_clip} and batch_size {self.batch_size}"
            raise ValueError(f"batches: poisson is for DP-SGD: set example_clip and a number as batch_size, got {got}")
        if self.example_noise and self.example_clip is None:
            raise ValueError(f"example_noise is in units of example_clip, which must be set for {self.example_noise:g}")
        return self

    def as_batches(self) -> Training:
        """Return the same training as steps on batches: `printed` is one batch with clipped examples."""
        if self.gradient_step == "per_batch":
            return self
        changes = {"gradient_step": "per_batch", "batch_size": "full", "gradient_clip": None}
        return self.model_copy(update={**changes, "example_clip": self.gradient_clip})

    @property
    def is_basic(self) -> bool:
        """Whether steps are those of SGD, perhaps with momentum, of one learning rate, from a fresh state and without
        weight decay, for which the fastest implementations are written."""
        return self.bounds_steps and self.has_one_rate

    @property
    def bounds_steps(self) -> bool:
        """Whether no step is longer than lr / (1 - momentum) times the largest gradient: SGD from a fresh state without
        weight decay. No schedule raises the rate above `lr`."""
        return self.optimizer == "sgd" and not self.weight_decay and self.state == "fresh"

    @property
    def has_one_rate(self) -> bool:
        """Whether all steps of a run have the same learning rate."""
        return self.schedule.is_constant and self.version_schedule.is_constant

    def rates(self, steps: int, factor: float = 1.0) -> list[float]:
        """Return the learning rate of each of the `steps` of a task; `factor`: of its version."""
        if self.schedule.is_constant:
            return [self.lr * factor] * steps
        return [self.lr * factor * self.schedule.factor(step, steps) for step in range(steps)]

    def version_factor(self, version: int, versions: int) -> float:
        """Return the factor of the learning rate for tasks that are sent `version`, of `versions` in the run."""
        return self.version_schedule.factor(version, versions)

    @property
    def samples_per_step(self) -> int:
        """Number of samples of a full step; 0: all samples of the client."""
        return 0 if self.gradient_step == "printed" or self.batch_size == "full" else self.batch_size

    def batch_of(self, samples: int) -> int:
        """Return the number of samples in a full step of a client that holds `samples` samples; with Poisson batches
        the expected number in any step."""
        return min(self.samples_per_step or samples, samples)

    def steps_of(self, samples: int, epochs: int | None = None) -> int:
        """Count the steps of one task of a client with `samples` samples (over `epochs` epochs, if given)."""
        if not samples:
            return 0
        of_epoch = -(-samples // self.batch_of(samples))
        return (epochs or self.epochs) * of_epoch if self.steps is None else self.steps

    def steps_of_epochs(self, samples: int) -> list[int]:
        """Return the number of steps of each epoch of a task; with `steps` the last epoch may be incomplete."""
        of_epoch = -(-samples // self.batch_of(samples))
        whole, rest = divmod(self.steps_of(samples), of_epoch)
        return [of_epoch] * whole + [rest] * (rest > 0)

    def epochs_of(self, samples: int) -> int:
        """Count the epochs that a task of a client with `samples` samples begins."""
        return self.epochs if self.steps is None else -(-self.steps // -(-samples // self.batch_of(samples)))

    def processed(self, samples: int) -> int:
        """Count the samples that a task of a client with `samples` samples processes, each as often as it is used; with
        Poisson batches and `steps` as many as are expected."""
        if self.steps is None or not samples:
            return self.epochs * samples
        batch = self.batch_of(samples)
        if self.batches == "poisson":
            return self.steps * batch
        whole, rest = divmod(self.steps, -(-samples // batch))
        return whole * samples + rest * batch
