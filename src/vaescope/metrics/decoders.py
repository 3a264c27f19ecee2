"""Decoders as functions of codes, and their Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import vjp

from vaescope.checks import random_seed, whole_number
from vaescope.codes import CodesLike, means_of
from vaescope.codes.arrays import as_table
from vaescope.errors import DataError

MAX_JACOBIAN_ENTRIES = 2**22  # held at once


@dataclass(frozen=True)
class DecoderFunction:
    """A function from a batch of codes to a batch of items, with its conditions and its type.

    Attributes:
        function: Called with codes, items x latents, and, if there are conditions, with their rows.
        conditions: One row for each item whose code is decoded. Default: the decoder is unconditional.
        latents: Indices of the latents that the decoder uses. Default: all.
        like: A tensor of the type and on the device that the decoder works in. Default: those of the codes.
        output: What the function returns, for the description of a score.
    """

    function: Callable[..., Tensor]
    conditions: Float[Tensor, "items width"] | None = None
    latents: tuple[int, ...] | None = None
    like: Tensor | None = None
    output: str = "output"

    @classmethod
    def of(cls, decoder: DecoderLike) -> DecoderFunction:
        """A decoder from any function of codes; a module works in the type of its parameters."""
        if isinstance(decoder, DecoderFunction):
            return decoder
        if not callable(decoder):
            raise DataError(f"decoder must be a function from codes to items, got {type(decoder).__name__}.")
        return cls(decoder, like=next(decoder.parameters(), None) if isinstance(decoder, nn.Module) else None)

    def __call__(self, z: Float[Tensor, "batch latents"], rows: Int[np.ndarray, "batch"]) -> Float[Tensor, "batch ..."]:
        """Decode the codes of the items `rows`."""
        condition = () if self.conditions is None else (self.conditions[torch.from_numpy(rows)].to(z),)
        try:
            items = self.function(z, *condition)
        except (RuntimeError, TypeError) as error:
            raise DataError(
                f"decoder must map tensors of {z.shape[1]} latents to items by operations of torch, so that it can be "
                f"differentiated, but it failed: {error}. Check the width of the codes, and that it does not use numpy."
            ) from error
        if not isinstance(items, Tensor) or items.ndim < 2 or len(items) != len(z):
            got = f"the shape {tuple(items.shape)}" if isinstance(items, Tensor) else type(items).__name__
            raise DataError(f"decoder must return a tensor with one row for each of {len(z)} codes, got {got}.")
        return items


DecoderLike: TypeAlias = DecoderFunction | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class JacobianProducts:
    """J^T J at each item, in float64.

    Attributes:
        latents: The indices of the latents, in the order of the rows and columns.
        dimensions: The number of dimensions of an item.
        rounding: The machine epsilon of the type that the decoder works in.
        output: What was differentiated.
    """

    products: Float[np.ndarray, "items latents latents"]
    latents: tuple[int, ...]
    dimensions: int
    rounding: float
    output: str


@torch.no_grad()
def jacobian_products(decoder: DecoderLike, codes: CodesLike, items: int, seed: int) -> JacobianProducts:
    """J^T J at the means of at most `items` codes, drawn by `seed`, a few at a time."""
    whole_number("items", items, 1)
    random_seed(seed)
    decoder = DecoderFunction.of(decoder)
    table = as_table(means_of(codes), "codes")
    if decoder.conditions is not None and len(decoder.conditions) != len(table):
        raise DataError(
            f"a conditional decoder needs one condition for each code, got {len(decoder.conditions)} conditions and "
            f"{len(table)} codes. Encode the same items."
        )
    latents = tuple(range(table.shape[1])) if decoder.latents is None else decoder.latents
    rows = np.sort(np.random.default_rng(seed).permutation(len(table))[:items])
    means = table[rows].to(table if decoder.like is None else decoder.like)
    _require_gradient(decoder, means[:1], rows[:1])
    directions = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)[list(latents)]
    products: list[Tensor] = []
    start, size, dimensions = 0, 1, 0
    while start < len(means):
        part = slice(start, start + size)
        columns = _columns(decoder, means[part], rows[part], directions)
        products.append(columns.mT @ columns)
        dimensions = columns.shape[1]
        start, size = start + size, max(1, MAX_JACOBIAN_ENTRIES // (dimensions * len(latents)))
    found = torch.cat(products).numpy()
    if not np.isfinite(found).all():
        place = int(np.argwhere(~np.isfinite(found))[0][0])
        raise DataError(f"the Jacobian of the decoder must be finite, that of code {place} is not. Check the codes.")
    return JacobianProducts(found, latents, dimensions, float(torch.finfo(means.dtype).eps), decoder.output)


def _require_gradient(decoder: DecoderFunction, z: Float[Tensor, "one latents"], rows: Int[np.ndarray, "one"]) -> None:
    """Raise an error if gradients do not reach the codes: the Jacobian would be 0, which looks orthogonal."""
    with torch.enable_grad():
        leaf = z.detach().requires_grad_()
        item = decoder(leaf.clone(), rows)
        reached = item.requires_grad and torch.autograd.grad(item.sum(), leaf, allow_unused=True)[0] is not None
    if not reached:
        raise DataError("decoder must pass gradients to its codes, but none arrive. Remove torch.no_grad and detach.")


def _columns(
    decoder: DecoderFunction,
    z: Float[Tensor, "items latents"],
    rows: Int[np.ndarray, "items"],
    directions: Float[Tensor, "kept latents"],
) -> Float[Tensor, "items dimensions kept"]:
    """J e for each direction e: the pullback u -> J^T u is linear, and its own pullback is e -> J e.

    Reverse mode twice costs about as much as forward mode, which not every layer supports.
    """
    items, pull = vjp(lambda codes: decoder(codes, rows), z)[:2]
    push = vjp(lambda change: pull(change)[0], torch.zeros_like(items))[1]
    columns = [push(direction.expand_as(z).contiguous())[0].flatten(1) for direction in directions]
    return torch.stack(columns, 2).cpu().double()
