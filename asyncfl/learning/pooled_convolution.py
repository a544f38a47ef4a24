"""Convolutions behind 2x2 max-pooling, by the compiled kernels of `pooled_convolution.c`.

A block of a network is a convolution, its pooling and, perhaps, a ReLU. `with_compiled_blocks` replaces the blocks that
the kernels can compute; values and gradients stay those of torch within the rounding of float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from asyncfl.learning.kernels import TORCH, WIDTHS, library

_Sizes = ctypes.c_int64 * 9
"""Images, channels, height, width, filters, kernel, padding, whether a ReLU follows, and whether the gradients of
weight and bias are those of each image."""
_Strides = ctypes.c_int64 * 4
KERNEL_SIDES = (3, 5)
"""Sides of convolutions that the kernels are compiled for."""


class PooledConvolution(nn.Module):
    """Convolution, 2x2 max-pooling and perhaps ReLU of images (n, C, H, W) float32 on the CPU, in one pass.

    It shares the parameters of `convolution` and computes in one thread. `rectified`: whether a ReLU is part of it;
    `flattened`: whether the next module flattens its output, which is contiguous then and in channels_last memory
    otherwise; `kernels`: an instruction set of `kernels.WIDTHS`.
    """

    def __init__(self, convolution: nn.Conv2d, rectified: bool, flattened: bool, kernels: str) -> None:
        super().__init__()
        assert convolution.bias is not None
        self.weight, self.bias = convolution.weight, convolution.bias
        self.rectified = rectified
        self._padding = int(convolution.padding[0])
        self._format = torch.contiguous_format if flattened else torch.channels_last
        self.keeps_examples = False
        """Whether a backward pass keeps the gradients of each image in `of_examples` in place of returning their sums,
        for which it returns None."""
        self.of_examples: list[torch.Tensor] | None = None
        """Gradients of weight and bias of each image: (n, filters, C, side, side), (n, filters)."""
        self._vector = ctypes.c_int64(WIDTHS[kernels])
        self._workspace = torch.empty(0)
        loaded = library()
        assert loaded is not None
        self._library = loaded
        self._library.asyncfl_workspace.restype = ctypes.c_int64

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the outputs (n, filters, rows, columns)."""
        output: torch.Tensor = _Pass.apply(images, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
        return output

    def compute(self, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs, and of each (n, rows, columns, filters) the place 0..3 of the largest number in its
        window, 4 where the ReLU stops it."""
        sizes, (rows, columns) = self._sizes(images, weight), self._pooled(images, weight)
        n, filters = len(images), len(weight)
        output = torch.empty((n, filters, rows, columns), memory_format=self._format)
        places = torch.empty((n, rows, columns, filters), dtype=torch.uint8)
        arrays = _addresses(images, weight, bias, output)
        strides = _Strides(*output.stride())
        workspace = self._workspace_for(sizes)
        self._library.asyncfl_forward(self._vector, sizes, *arrays, strides, *_addresses(places, workspace))
        return output, places

    def gradients(
        self, images: torch.Tensor, weight: torch.Tensor, places: torch.Tensor, slope: torch.Tensor, of_images: bool
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """Return the gradients of images (None unless asked for by `of_images`), weight and bias; with `keeps_examples`
        the latter two of each image.

        slope: (n, filters, rows, columns) gradient of the output, with any strides.
        """
        each = self.keeps_examples
        sizes = self._sizes(images, weight, each)
        filters, channels, *sides = weight.shape
        parts = (len(images),) if each else ()
        of_weight, of_bias = (
            torch.empty(*parts, filters, *sides, channels).movedim(-1, -3),
            torch.empty(*parts, filters),
        )
        back = torch.empty(images.shape, memory_format=torch.channels_last) if of_images else None
        strides = _Strides(*slope.stride())
        arrays = _addresses(of_weight, of_bias, back, self._workspace_for(sizes))
        self._library.asyncfl_backward(
            self._vector, sizes, *_addresses(images, weight, places, slope), strides, *arrays
        )
        return back, of_weight, of_bias

    def _pooled(self, images: torch.Tensor, weight: torch.Tensor) -> tuple[int, int]:
        margin = 2 * self._padding + 1 - weight.shape[2]
        return (images.shape[2] + margin) // 2, (images.shape[3] + margin) // 2

    def _sizes(self, images: torch.Tensor, weight: torch.Tensor, each: bool = False) -> Any:
        return _Sizes(*images.shape, len(weight), weight.shape[2], self._padding, self.rectified, each)

    def _workspace_for(self, sizes: Any) -> torch.Tensor:
        """Return a workspace for a pass."""
        needed = self._library.asyncfl_workspace(sizes)
        if len(self._workspace) < needed:
            self._workspace = torch.empty(needed)
        return self._workspace


class _Pass(torch.autograd.Function):
    """The pass through a `PooledConvolution` as an operation that autograd can differentiate once."""

    @staticmethod
    def forward(
        ctx: Any, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, block: PooledConvolution
    ) -> torch.Tensor:
        images, weight = (one.contiguous(memory_format=torch.channels_last) for one in (images, weight))
        output, places = block.compute(images, weight, bias)
        ctx.save_for_backward(images, weight, places)
        ctx.block = block
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        images, weight, places = ctx.saved_tensors
        block: PooledConvolution = ctx.block
        of_images, *of_parameters = block.gradients(images, weight, places, slope, ctx.needs_input_grad[0])
        if block.keeps_examples:
            block.of_examples = of_parameters
            return of_images, None, None, None
        return of_images, *of_parameters, None


def _addresses(*tensors: torch.Tensor | None) -> list[ctypes.c_void_p]:
    """Return the addresses of tensors' memory, null for None."""
    return [ctypes.c_void_p(None if one is None else one.data_ptr()) for one in tensors]


def with_compiled_blocks(module: nn.Module, kernels: str) -> nn.Module:
    """Return a module with the parameters of `module`, whose blocks are computed by `kernels`.

    It is `module` itself if `kernels` is "torch", or if `module` is no sequence with such blocks.
    """
    if kernels == TORCH or type(module) is not nn.Sequential:
        return module
    parts = list(_replaced(list(module), kernels))
    return nn.Sequential(*parts) if len(parts) < len(module) else module


def _replaced(parts: Sequence[nn.Module], kernels: str) -> Iterator[nn.Module]:
    """Yield the parts of a sequence, a `PooledConvolution` in place of those of each block."""
    at = 0
    while at < len(parts):
        first, pooling, *_ = *parts[at:], None
        if not isinstance(first, nn.Conv2d) or not _is_supported(first, pooling):
            yield first
            at += 1
            continue
        rectified = type(parts[at + 2]) is nn.ReLU if at + 2 < len(parts) else False
        at += 3 if rectified else 2
        flattened = at < len(parts) and isinstance(parts[at], nn.Flatten)
        yield PooledConvolution(first, rectified, flattened, kernels)


def _is_supported(convolution: nn.Conv2d, pooling: nn.Module | None) -> bool:
    """Whether the kernels compute this convolution and the pooling that follows it."""
    sides = [(side, side) for side in KERNEL_SIDES]
    padding = convolution.padding
    return (
        type(convolution) is nn.Conv2d
        and convolution.kernel_size in sides
        and convolution.stride == convolution.dilation == (1, 1)
        and convolution.groups == 1
        and convolution.bias is not None
        and isinstance(padding, tuple)
        and padding[0] == padding[1]
        and convolution.padding_mode == "zeros"
        and type(pooling) is nn.MaxPool2d
        and (pooling.kernel_size, pooling.stride, pooling.padding, pooling.dilation) == (2, 2, 0, 1)
        and not pooling.ceil_mode
        and not pooling.return_indices
    )
