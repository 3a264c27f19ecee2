"""Convolutions of stride 2 that halve and double images, as library calls or as products of patches.

On a CPU the library's convolution is fastest, except for a deconvolution to one channel, which it pads to many. On a
GPU, products of matrices are faster than the grouped convolution that results from batching over weights: in the coarse
precisions by the kernels of `strided`, else of gathered patches. The linear maps `patches` and `overlap_add`, each the
adjoint of the other, then come before or after the product. They need a compiler: one model without it is faster in a
block of `library_convolutions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.nets.strided import convolve_strided, deconvolve_strided, has_kernels

_library_on_gpu: ContextVar[bool] = ContextVar("library_on_gpu", default=False)


@contextmanager
def library_convolutions() -> Iterator[None]:
    """Use the library's convolutions on a GPU, too, inside the block, where `strided` has no kernels."""
    token = _library_on_gpu.set(True)
    try:
        yield
    finally:
        _library_on_gpu.reset(token)


def convolve(
    x: Float[Tensor, "batch channels height width"],
    weight: Float[Tensor, "filters channels kernel kernel"],
    bias: Float[Tensor, "filters"] | None,
) -> Float[Tensor, "batch filters half_height half_width"]:
    """Convolution of stride 2 with 'same' padding (sizes halve, rounded up); the kernel is even."""
    height, width = x.shape[-2:]
    if height % 2 or width % 2:
        x = F.pad(x, (0, width % 2, 0, height % 2))
    if not _by_products(x):
        return F.conv2d(x, weight, bias, stride=2, padding=weight.shape[-1] // 2 - 1)
    if has_kernels(x):
        return _with_bias(convolve_strided(x, weight), bias)
    return convolve_patches(x, weight, bias)


def deconvolve(
    x: Float[Tensor, "batch channels height width"],
    weight: Float[Tensor, "channels filters kernel kernel"],
    bias: Float[Tensor, "filters"] | None,
) -> Float[Tensor, "batch filters double_height double_width"]:
    """Transposed convolution of stride 2 that doubles the sizes; the kernel is even."""
    if not (_by_products(x) if x.is_cuda else weight.shape[1] == 1):
        return F.conv_transpose2d(x, weight, bias, stride=2, padding=weight.shape[-1] // 2 - 1)
    if has_kernels(x):
        return _with_bias(deconvolve_strided(x, weight), bias)
    return deconvolve_patches(x, weight, bias)


def _by_products(x: Tensor) -> bool:
    """Whether convolutions of these images are matrix products, not calls of the library."""
    return x.is_cuda and (has_kernels(x) or not _library_on_gpu.get())


def _with_bias(image: Tensor, bias: Tensor | None) -> Tensor:
    return image if bias is None else image + bias[:, None, None]


def convolve_patches(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`convolve` of even sizes as one matrix product."""
    batch, channels, height, width = x.shape
    filters, _, kernel, _ = weight.shape
    rows = patches(x.permute(0, 2, 3, 1), kernel).reshape(-1, kernel * kernel * channels)
    product = rows @ weight.permute(2, 3, 1, 0).reshape(-1, filters)
    product = product if bias is None else product + bias
    return product.reshape(batch, height // 2, width // 2, filters).permute(0, 3, 1, 2)


def deconvolve_patches(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`deconvolve` as one matrix product."""
    batch, channels, height, width = x.shape
    _, filters, kernel, _ = weight.shape
    rows = x.permute(0, 2, 3, 1).reshape(-1, channels) @ weight.permute(0, 2, 3, 1).reshape(channels, -1)
    columns = rows.reshape(batch, height, width, kernel * kernel * filters)
    image = overlap_add(columns, kernel)
    return (image if bias is None else image + bias).permute(0, 3, 1, 2)


def patches(
    x: Float[Tensor, "batch height width channels"], kernel: int
) -> Float[Tensor, "batch half_height half_width patch"]:
    """Every kernel x kernel window at stride 2, zero-padded, as one row (row, column, channel)."""
    return _windows(x, kernel, False)


def overlap_add(
    columns: Float[Tensor, "batch height width patch"], kernel: int
) -> Float[Tensor, "batch double_height double_width channels"]:
    """The adjoint of `patches`: every row is added to its window."""
    return _windows(columns, kernel, True)


def _gather(x: Tensor, kernel: int) -> Tensor:
    pad = kernel // 2 - 1
    padded = F.pad(x, (0, 0, pad, pad, pad, pad)) if pad else x
    windows = padded.unfold(1, kernel, 2).unfold(2, kernel, 2)
    return windows.permute(0, 1, 2, 4, 5, 3).reshape(*windows.shape[:3], -1)


def _scatter(columns: Tensor, kernel: int) -> Tensor:
    batch, height, width, patch = columns.shape
    taps = columns.reshape(batch, height, width, kernel, kernel, patch // kernel**2)
    last = kernel // 2 - 1
    image = _fused_sum(taps) if columns.is_cuda else _stepwise_sum(taps)
    return image[:, last : image.shape[1] - last, last : image.shape[2] - last]


def _fused_sum(taps: Tensor) -> Tensor:
    """The sum of the windows as one expression, which a compiler turns into one kernel."""
    batch, height, width, kernel, _, channels = taps.shape
    blocks = kernel // 2
    parts = taps.reshape(batch, height, width, blocks, 2, blocks, 2, channels)
    last = blocks - 1
    total = functools.reduce(
        torch.add,
        [
            F.pad(parts[:, :, :, down, :, right], (0, 0, 0, 0, 0, 0, right, last - right, down, last - down))
            for down in range(blocks)
            for right in range(blocks)
        ],
    )
    return total.transpose(2, 3).reshape(batch, 2 * (height + last), 2 * (width + last), channels)


def _stepwise_sum(taps: Tensor) -> Tensor:
    """The sum of the windows in place, tap by tap, which moves the fewest numbers without a compiler."""
    batch, height, width, kernel, _, channels = taps.shape
    image = taps.new_zeros(batch, 2 * height + kernel - 2, 2 * width + kernel - 2, channels)
    for down in range(kernel):
        for right in range(kernel):
            image[:, down : down + 2 * height : 2, right : right + 2 * width : 2] += taps[:, :, :, down, right]
    return image


class _Windows(torch.autograd.Function):
    """`patches` or its adjoint `overlap_add`; each is the backward pass of the other."""

    @staticmethod
    def forward(x: Tensor, kernel: int, adjoint: bool) -> Tensor:
        return _scatter(x, kernel) if adjoint else _gather(x, kernel)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, bool], output: Tensor) -> None:
        _, ctx.kernel, ctx.adjoint = inputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _windows(gradients[0], ctx.kernel, not ctx.adjoint), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, None, None], x: Tensor, kernel: int, adjoint: bool
    ) -> tuple[Tensor, int]:
        """Fold the members of an ensemble into the batch, apply, and unfold."""
        x = x.movedim(in_dims[0] or 0, 0)
        result = _windows(x.flatten(0, 1), kernel, adjoint)
        return result.unflatten(0, x.shape[:2]), 0


_windows: Callable[[Tensor, int, bool], Tensor] = _Windows.apply


class Convolution(nn.Module):
    """A layer of `convolve`.

    Attributes:
        normalised: Whether a normalisation follows. Batched over members, these refuse images with the channels last.
    """

    def __init__(self, channels: int, filters: int, kernel: int, bias: bool = True, normalised: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(filters, channels, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(filters)) if bias else None
        self.normalised = normalised

    def forward(self, x: Tensor) -> Tensor:
        image = convolve(x, self.weight, self.bias)
        return image.contiguous() if self.normalised and _by_products(x) else image


class Deconvolution(nn.Module):
    """A layer of `deconvolve`, cropped to the size of the encoder's input at the same depth.

    Attributes:
        normalised: As for `Convolution`.
    """

    def __init__(
        self,
        channels: int,
        filters: int,
        kernel: int,
        size: tuple[int, int],
        bias: bool = True,
        normalised: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, filters, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(filters)) if bias else None
        self.size, self.normalised = size, normalised

    def forward(self, x: Tensor) -> Tensor:
        image = deconvolve(x, self.weight, self.bias)
        image = image.contiguous() if self.normalised and _by_products(x) else image
        # A slice, even of everything, costs a copy in the backward pass.
        return image if image.shape[-2:] == self.size else image[..., : self.size[0], : self.size[1]]
