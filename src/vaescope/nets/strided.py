"""Convolutions of stride 2 on a GPU by the kernels of `strided_kernels`: as operators with derivatives, and batched.

A convolution, the transposed one and the sum over positions are the derivatives of one form in an image, a smaller
image and a weight, so that the derivatives of each are the other two. To a compiler each is one opaque operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

Part = Literal["down", "up", "weight"]
Operator = Callable[..., Tensor]
FIRST_CAPABILITY = (8, 0)  # of GPUs with bfloat16 and TF32
FULL_GPU = 264  # tiles that keep a large GPU busy
TERMS = 128  # of the weight in a tile
MAX_PARTS, FEWEST_POSITIONS = 64, 256  # of the sum over positions, and in a part


def has_kernels(x: Tensor) -> bool:
    """Whether there are kernels for images like this one: on a GPU, in bfloat16, or in float32 if TF32 is allowed."""
    coarse = x.dtype == torch.bfloat16 or (x.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32)
    return (
        x.is_cuda
        and coarse
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(x.device) >= FIRST_CAPABILITY
    )


def convolve_strided(x: Tensor, weight: Tensor) -> Tensor:
    """`convolve` of even sizes without a bias."""
    images, own = x.permute(0, 2, 3, 1), weight.permute(2, 3, 1, 0)
    return _of_one("down", images, own).permute(0, 3, 1, 2)


def deconvolve_strided(x: Tensor, weight: Tensor) -> Tensor:
    """`deconvolve` without a bias."""
    images, own = x.permute(0, 2, 3, 1), weight.permute(2, 3, 1, 0)
    return _of_one("up", images, own).permute(0, 3, 1, 2)


class _Form(torch.autograd.Function):
    """A derivative of the form: 'down' of (x, weight), 'up' of (y, weight), or 'weight' of (x, y)."""

    @staticmethod
    def forward(part: Part, kernel: int, first: Tensor, second: Tensor) -> Tensor:
        first, second = first.contiguous(), second.contiguous()
        tf32 = torch.backends.cuda.matmul.allow_tf32
        if part == "weight":
            parts = parts_of_sum(first, second, kernel)
            return weight_sums(first, second, kernel, parts, tf32).sum(0).to(first.dtype)
        return (down if part == "down" else up)(first, second, tf32)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Part, int, Tensor, Tensor], output: Tensor) -> None:
        ctx.part, ctx.kernel, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
        (gradient,), kernel = gradients, ctx.kernel
        first, second = ctx.saved_tensors
        wanted: dict[str, tuple[tuple[Part, Tensor, Tensor], tuple[Part, Tensor, Tensor]]] = {
            "down": (("up", gradient, second), ("weight", first, gradient)),
            "up": (("down", gradient, second), ("weight", gradient, first)),
            "weight": (("up", second, gradient), ("down", first, gradient)),
        }
        one, other = (
            _apply(part, kernel, *tensors) if needed else None
            for (part, *tensors), needed in zip(wanted[ctx.part], ctx.needs_input_grad[2:], strict=True)
        )
        return None, None, one, other

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[None, None, int | None, int | None], part: Part, kernel: int, *tensors: Tensor
    ) -> tuple[Tensor, int]:
        """Fold the members of an ensemble into the axis of members."""
        own = (
            tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip(tensors, in_dims[2:], strict=True)
        )
        result = _apply(part, kernel, *(tensor.flatten(0, 1) for tensor in own))
        return result.unflatten(0, (info.batch_size, -1)), 0


_apply: Callable[..., Tensor] = _Form.apply


def _of_one(part: Part, images: Tensor, weight: Tensor) -> Tensor:
    """The part of the form for a single member; its axis costs no copy in the backward pass."""
    return _apply(part, len(weight), images.unsqueeze(0), weight.unsqueeze(0)).squeeze(0)


def _operator(name: str, signature: str, shape_of: Callable[..., tuple[tuple[int, ...], torch.dtype]]) -> Operator:
    """A kernel as an operator that a compiler calls as it is; `shape_of` gives the shape and type of its result."""
    # torch.library.custom_op would import the compiler at the first call, which takes seconds.
    _library.define(f"{name}{signature} -> Tensor")

    def launched(*given: Any) -> Tensor:
        kernels = import_module("vaescope.nets.strided_kernels")
        with torch.cuda.device_of(given[0]):
            result: Tensor = getattr(kernels, name)(*given)
        return result

    def form(first: Tensor, *others: Any) -> Tensor:
        shape, dtype = shape_of(first, *others)
        return first.new_empty(shape, dtype=dtype)

    _library.impl(name, launched, "CompositeExplicitAutograd")
    torch.library.register_fake(f"vaescope::{name}", form, lib=_library)
    operator: Operator = getattr(torch.ops.vaescope, name).default
    return operator


_library = torch.library.Library("vaescope", "FRAGMENT")
down = _operator(
    "down",
    "(Tensor x, Tensor weight, bool tf32)",
    lambda x, weight, tf32: ((*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2, weight.shape[-1]), x.dtype),
)
up = _operator(
    "up",
    "(Tensor y, Tensor weight, bool tf32)",
    lambda y, weight, tf32: ((*y.shape[:2], 2 * y.shape[2], 2 * y.shape[3], weight.shape[-2]), y.dtype),
)
weight_sums = _operator(
    "weight_sums",
    "(Tensor x, Tensor y, int kernel, int parts, bool tf32)",
    lambda x, y, kernel, parts, tf32: ((parts, len(x), kernel, kernel, x.shape[-1], y.shape[-1]), torch.float32),
)


def parts_of_sum(x: Tensor, y: Tensor, kernel: int) -> int:
    """In how many parts the sum over positions is taken: many where a few members would leave a GPU idle."""
    members, positions = len(y), math.prod(y.shape[1:4])
    tiles = members * -(-(kernel**2 * x.shape[-1]) // TERMS)
    return min(MAX_PARTS, -(-positions // FEWEST_POSITIONS), max(1, FULL_GPU // tiles))
