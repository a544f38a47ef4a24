"""Learner: trains clients and evaluates models, with the fastest implementation for the network and the device.

| implementation | networks | device |
|---|---|---|
| `mlp.MlpLearner` | Mlp, Linear | CPU: hand-written backward pass, one client after another |
| `module.ModuleLearner` | any other | CPU (own networks: also CUDA): one channels_last module, one client at a time |
| `batched.BatchedLearner` | those of this package | CUDA: many clients at once with `torch.func.vmap` |

All compute the same as a plain loop over the module, up to the rounding of float32.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Architecture, Shape, untrained_module
from asyncfl.learning.gemm import products, resolve, sizes_of
from asyncfl.learning.job import Job
from asyncfl.learning.kernels import TORCH
from asyncfl.learning.layout import Vector
from asyncfl.learning.loss import is_regression, loss_of, loss_slope
from asyncfl.learning.normal_noise import StandardNormal
from asyncfl.learning.tensors import split, tensor_of
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch


class Learner(ABC):
    """Training and evaluation of one network. Between calls it keeps buffers but no other state."""

    chunk = 500
    """Images per forward pass of an evaluation: few enough for the activations to stay in the cache."""
    kernels: str = TORCH
    """Kernels of convolutions behind pooling, a member of `kernels.KERNELS`."""

    def __init__(self, model: Architecture, training: Training, shape: Shape, outputs: int, device: str) -> None:
        import torch

        self.model = model
        self.training = training.as_batches()
        self.shape = shape
        self.n_outputs = outputs
        self.device = torch.device(device)
        self.layout = model.layout(shape, outputs)
        sizes = sizes_of(self.layout, training.batch_size)
        self.gemm = resolve(training.gemm, sizes) if device == "cpu" else "default"

    @cached_property
    def n_parameters(self) -> int:
        return self.layout.n_parameters

    @property
    def draws(self) -> bool:
        """Whether training may draw random numbers in the network, as dropout does."""
        return self.model.draws

    @property
    def description(self) -> dict[str, Any]:
        """Device, threads and implementation of the training, for the summary of a run."""
        import torch

        return {
            "path": type(self).__name__,
            "device": str(self.device),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "n_parameters": self.n_parameters,
        }

    @property
    def log_line(self) -> str:
        """Device, implementation and size of the model in one sentence."""
        about = self.description
        trains = f"{about['path']} on {about['device']} trains {about['n_parameters']} parameters"
        compiled = "" if self.kernels == TORCH else f", convolutions behind pooling by kernels for {self.kernels}"
        return f"{trains}, products by {self.gemm}{compiled}"

    def train(self, rows: Vector, jobs: Sequence[Job]) -> NDArray[np.float64]:
        """Train one model per job, write the models into `rows` and return the mean training loss (n,) of each last
        epoch.

        rows: (n, n_parameters) float32, C-contiguous, overwritten. The loss is evaluated at the parameters before each
        step and averaged over the samples. Losses and parameters that are not finite are returned as they are.

        Raises ValueError if an array has the wrong shape or type.
        """
        self._check(rows, jobs)
        losses = np.empty(len(jobs))
        with self._products():
            self._train(rows, jobs, losses)
        return losses

    def evaluate(self, parameters: Vector, images: Vector, labels: NDArray[Any]) -> tuple[float, float]:
        """Compute mean loss and accuracy (0..1) of a model (n_parameters,) on images (m, C, H, W).

        An image with NaN logits counts as wrong. The accuracy of a regression is NaN. Raises ValueError without images.
        """
        if not len(labels):
            raise ValueError("evaluation needs at least one image, got none")
        loss, correct = 0.0, math.nan if is_regression(labels) else 0.0
        with self._evaluating(parameters):
            for part in self._chunks(len(labels)):
                logits, truth = self._logits(self._tensor(images[part])), self._tensor(labels[part])
                if not math.isnan(correct):
                    best, found = logits.max(1)
                    correct += float(((found == truth) & (best == best)).sum())  # NaN never counts as correct
                loss += float(loss_of(logits, truth, "none").double().sum())
        return loss / len(labels), correct / len(labels)

    def outputs(self, parameters: Vector, images: Vector) -> Vector:
        """Compute the outputs (m, outputs) of a model for the images: logits, or predicted numbers."""
        found = np.empty((len(images), self.n_outputs), np.float32)
        with self._evaluating(parameters):
            for part in self._chunks(len(images)):
                found[part] = self._logits(self._tensor(images[part])).cpu().numpy()
        return found

    def losses(self, parameters: Vector, images: Vector, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Compute the loss (m,) of a model on each of the images."""
        found = np.empty(len(labels))
        with self._evaluating(parameters):
            for part in self._chunks(len(labels)):
                logits = self._logits(self._tensor(images[part])).double()
                found[part] = loss_of(logits, self._tensor(labels[part]), "none").cpu().numpy()
        return found

    def slopes(
        self, parameters: Vector, direction: Vector, images: Vector, labels: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Compute the derivative (m,) of each image's loss at a model along `direction` (n_parameters,).

        This is the inner product of `direction` with each image's gradient, which is never formed: the backward pass of
        the logits is linear in the vector that is passed back, so differentiating it gives the change of the logits
        along `direction`.
        """
        import torch

        module, weights = self._module_with(parameters)
        along = split(self._tensor(direction), weights)
        found = np.empty(len(labels))
        for chosen in self._chunks(len(labels)):
            logits = module(self._tensor(images[chosen]))
            passed = torch.zeros_like(logits, requires_grad=True)
            back = torch.autograd.grad(logits, weights, passed, create_graph=True, materialize_grads=True)
            total = torch.stack([(one * part).sum() for one, part in zip(back, along, strict=True)]).sum()
            change = torch.autograd.grad(total, passed)[0].double()
            slope = loss_slope(logits.detach().double(), self._tensor(labels[chosen]))
            found[chosen] = (slope * change).sum(1).cpu().numpy()
        return found

    def accuracies(self, models: Vector, images: Vector, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Compute the accuracy (n,), 0..1, of each model (n, n_parameters) on the images; NaN for a regression."""
        return np.array([self.evaluate(model, images, labels)[1] for model in models], np.float64)

    def gradient(self, parameters: Vector, images: Vector, labels: NDArray[Any]) -> Vector:
        """Compute the unclipped gradient (n_parameters,) of a model's mean loss on the images."""
        import torch

        module, weights = self._module_with(parameters)
        total = [torch.zeros_like(w) for w in weights]
        for part in self._chunks(len(labels)):
            loss = loss_of(module(self._tensor(images[part])), self._tensor(labels[part]), "sum") / len(labels)
            torch._foreach_add_(total, torch.autograd.grad(loss, weights, materialize_grads=True))
        return torch.cat([g.reshape(-1) for g in total]).cpu().numpy()

    def _step_noise(self, job: Job) -> StandardNormal | None:
        """Return the source of noise for a job's steps, None for training without noise."""
        return StandardNormal(job.noise, self.n_parameters) if self.training.example_noise and job.noise else None

    @cached_property
    def _differentiable(self) -> torch.nn.Module:
        return untrained_module(self.model, self.shape, self.n_outputs).to(self.device).train(not self.model.draws)

    def module_with(self, parameters: Vector) -> torch.nn.Module:
        """Return a new module of the network with these parameters (n_parameters,), on the learner's device."""
        return deepcopy(self._module_with(parameters)[0])

    def _module_with(self, parameters: Vector) -> tuple[torch.nn.Module, list[torch.nn.Parameter]]:
        """Return the network's module with these parameters (n_parameters,), and its parameters."""
        import torch

        weights = list(self._differentiable.parameters())
        with torch.no_grad():
            for weight, part in zip(weights, split(self._tensor(parameters), weights), strict=True):
                weight.copy_(part)
        return self._differentiable, weights

    @contextmanager
    def _evaluating(self, parameters: Vector) -> Iterator[None]:
        """Load a model (n_parameters,) for `_logits`, without gradients."""
        import torch

        with self._products(), torch.inference_mode():
            self._load(tensor_of(parameters))
            yield

    def _chunks(self, samples: int) -> Iterator[slice]:
        return (slice(start, start + self.chunk) for start in range(0, samples, self.chunk))

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return tensor_of(array).to(self.device)

    def _products(self) -> AbstractContextManager[None]:
        import torch

        if self.device.type == "cuda":
            # float32 as on the CPU (by default convolutions round to TF32), and the same kernels in every run
            return torch.backends.cudnn.flags(benchmark=False, deterministic=True, allow_tf32=False)
        return products(self.gemm)

    @abstractmethod
    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        """Fill `rows` and `losses`. The arguments have been checked."""

    @abstractmethod
    def _load(self, parameters: torch.Tensor) -> None:
        """Load the model (n_parameters,) that `_logits` applies."""

    @abstractmethod
    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return the loaded model's outputs (m, outputs) for images (m, C, H, W) on the device."""

    def _check(self, rows: Vector, jobs: Sequence[Job]) -> None:
        d, n = self.n_parameters, len(jobs)
        if rows.shape != (n, d) or rows.dtype != np.float32 or not rows.flags.c_contiguous:
            raise ValueError(f"rows must be C-contiguous float32 of shape ({n}, {d}), got {rows.dtype} {rows.shape}")
        for number, job in enumerate(jobs):
            m = len(job.labels)
            # A client that was stopped has fewer epochs, but at least one.
            most = self.training.epochs_of(m) if m else 1
            epochs = min(len(job.order), most) or most
            wanted = {
                "base": (d,),
                "images": (m, *self.shape),
                "labels": (m, self.n_outputs) if is_regression(job.labels) else (m,),
                "order": (epochs, m),
            }
            steps = self.training.steps_of_epochs(m)[:epochs] if m else []
            if self.training.batches == "poisson":
                if [len(epoch) for epoch in job.order] != steps:
                    raise ValueError(f"order of job {number} must have epochs of {steps} Poisson batches")
                del wanted["order"]
            elif self.training.steps is not None and m:
                lengths = [min(m, one * self.training.batch_of(m)) for one in steps]
                if [len(epoch) for epoch in job.order] != lengths:
                    raise ValueError(f"order of job {number} must have epochs of {lengths} samples")
                del wanted["order"]
            if job.correction is not None:
                wanted["correction"] = (d,)
            for name, shape in wanted.items():
                array = getattr(job, name)
                if array.shape != shape:
                    raise ValueError(f"{name} of job {number} must have shape {shape}, got {array.shape}")
                if name in ("base", "images", "correction") and array.dtype != np.float32:
                    raise ValueError(f"{name} of job {number} must be float32, got {array.dtype}")
            if not m:
                raise ValueError(f"job {number} has no samples to train on")
            if self.training.example_noise and job.noise is None:
                raise ValueError(f"job {number} needs a generator for the noise that example_noise asks for")
