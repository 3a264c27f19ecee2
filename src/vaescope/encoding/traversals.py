"""Latent traversals: items decoded while one latent varies and the others stay fixed (Pastrana, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.representation import Representation
from vaescope.data import Dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding.encode import recognised_model
from vaescope.encoding.generate import CHUNK_CODES, decode
from vaescope.errors import DataError

WIDE_LIMIT, WIDE_STEPS = 5.0, 10  # [-5, 5] in ten steps, as in Pastrana
LOWEST_QUANTILE, QUANTILE_STEPS = 0.02, 9


@dataclass(frozen=True)
class Traversal:
    """The decoded items with one latent set to each of `values`, in their order."""

    latent: int
    values: tuple[float, ...]
    items: Float[Tensor, "values ..."] = field(repr=False)


@dataclass(frozen=True)
class Traversals:
    """Traversals of several latents, from the mean code of one example.

    Attributes:
        example: The index of the example in the data.
        wide: From -5 to 5, the same for every latent (Pastrana, section 3.4).
        usual: Over the quantiles 0.02 to 0.98 of the latent's means, which is where the data are.
    """

    example: int
    wide: tuple[Traversal, ...]
    usual: tuple[Traversal, ...]

    @property
    def latents(self) -> tuple[int, ...]:
        """The latents that were varied."""
        return tuple(one.latent for one in self.wide)


def traversals(
    model: object,
    data: Dataset,
    codes: Representation,
    *,
    example: int = 0,
    latents: Sequence[int] | None = None,
    chunk: int = CHUNK_CODES,
) -> Traversals:
    """Vary latents one by one, starting from the mean code of one example.

    Args:
        model: A run, or a model of this library or any other; a conditional model gets the condition of the example.
        data: The data set of the example.
        codes: The codes of `data` under `model`.
        example: The index of the example.
        latents: The latents to vary. Default: all.
        chunk: The number of codes per forward pass.
    """
    if codes.item_count != len(data):
        raise DataError(
            f"codes must be those of {data.name}, which has {len(data)} items, got codes of {codes.item_count} items."
        )
    model = recognised_model(model, data)
    example = whole_number("example", example, 0, len(data) - 1)
    conditions = conditions_of(model, data)
    condition = None if conditions is None else conditions[example]
    return traversals_from(model, codes.code(example), condition, codes, example=example, latents=latents, chunk=chunk)


def traversals_from(
    model: object,
    code: Float[Tensor, "latents *positions"],
    condition: Float[Tensor, "width"] | None,
    codes: Representation,
    *,
    example: int = 0,
    latents: Sequence[int] | None = None,
    chunk: int = CHUNK_CODES,
) -> Traversals:
    """Vary the latents of a code one by one, over the quantiles of the means of other codes.

    The other arguments are those of `traversals`.
    """
    known = range(codes.latents)
    varied = known if latents is None else [whole_number("latent", one, 0, known[-1]) for one in latents]
    wide = torch.linspace(-WIDE_LIMIT, WIDE_LIMIT, WIDE_STEPS, dtype=torch.float64).expand(codes.latents, WIDE_STEPS)
    shares = np.linspace(LOWEST_QUANTILE, 1 - LOWEST_QUANTILE, QUANTILE_STEPS)
    # numpy, because torch limits quantiles to 16 million numbers.
    usual = torch.from_numpy(np.quantile(codes.item_means().double().cpu().numpy(), shares, axis=0).T)
    found = (_traversals(model, code, varied, values, condition, chunk) for values in (wide, usual))
    return Traversals(example, *found)


def traverse(
    model: object,
    code: Float[Tensor, "latents *positions"],
    latent: int,
    values: Sequence[float],
    condition: Float[Tensor, "width"] | None = None,
) -> Float[Tensor, "values ..."]:
    """The decoded means of a code with one latent set to each value, on the CPU.

    A wrapped model must have encoded a batch; the average of a channel of a spatial code is set.
    """
    whole_number("latent", latent, 0, len(code) - 1)
    given = torch.as_tensor(values, dtype=torch.float64)
    table = given.new_zeros(len(code), len(given))
    table[latent] = given
    return _traversals(model, code, [latent], table, condition, CHUNK_CODES)[0].items


def with_latent(
    code: Float[Tensor, "latents *positions"], latent: int, values: Float[Tensor, "steps"]
) -> Float[Tensor, "steps latents *positions"]:
    """Copies of a code with one latent set to each value; a channel of a spatial code is shifted to that average."""
    rows = code.repeat(len(values), *[1] * code.ndim)
    shift = values.reshape(-1, *[1] * (code.ndim - 1)).to(code) - code[latent].mean()
    # Of a vector, the value itself: adding a shift would round.
    rows[:, latent] = values.to(code) if code.ndim == 1 else code[latent] + shift
    return rows


def _traversals(
    model: object,
    code: Tensor,
    latents: Sequence[int],
    values: Float[Tensor, "latents steps"],
    condition: Tensor | None,
    chunk: int,
) -> tuple[Traversal, ...]:
    """All latents together, `chunk` codes per forward pass."""
    steps, start = values.shape[1], code.double().cpu()
    rows = torch.cat([with_latent(start, latent, values[latent]) for latent in latents])
    items = decode(model, rows, condition, chunk=chunk)
    return tuple(
        Traversal(latent, tuple(values[latent].tolist()), items[position * steps :][:steps])
        for position, latent in enumerate(latents)
    )
