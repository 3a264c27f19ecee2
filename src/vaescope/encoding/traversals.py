"""What a decoder makes of a code while one latent moves and the others stay (Pastrana, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.representation import Representation
from vaescope.data import Dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding.activations import _still
from vaescope.errors import DataError

CHUNK = 256
REACH, STEPS = 5.0, 10  # Pastrana's [-5, 5], in ten steps
OUTER, QUANTILES = 0.02, 9


@dataclass(frozen=True)
class Traversal:
    """The items that a decoder makes with one latent at each of the values, in their order."""

    latent: int
    values: tuple[float, ...]
    items: Float[Tensor, "values ..."] = field(repr=False)


@dataclass(frozen=True)
class Traversals:
    """Those of several latents from the mean code of one example.

    Attributes:
        example: The place of that example in the data.
        wide: Over the range from -5 to 5, the same for every latent (Pastrana, section 3.4).
        usual: Over the quantiles from .02 to .98 of the latent's own means: where the data are.
    """

    example: int
    wide: tuple[Traversal, ...]
    usual: tuple[Traversal, ...]

    @property
    def latents(self) -> tuple[int, ...]:
        """The latents that were moved."""
        return tuple(one.latent for one in self.wide)


def traversals(
    model: Any,
    data: Dataset,
    codes: Representation,
    *,
    example: int = 0,
    latents: Sequence[int] | None = None,
    chunk: int = CHUNK,
) -> Traversals:
    """Every latent, or the given ones, moved from the mean code of one example, which brings its own condition.

    `codes` are those of `data` under `model`; `chunk` codes are decoded at a time.
    """
    if len(codes) != len(data):
        raise DataError(
            f"codes must be those of {data.name}, which has {len(data)} items, got codes of {len(codes)}. Encode it."
        )
    example = whole_number("example", example, 0, len(data) - 1)
    moved = range(codes.latents) if latents is None else [_latent(one, codes.latents) for one in latents]
    told = conditions_of(model, data)
    condition = None if told is None else told[example]
    wide, usual = wide_values(codes.latents), usual_values(codes.mean)
    code = codes.mean[example]
    found = (_traversals(model, code, moved, values, condition, chunk) for values in (wide, usual))
    return Traversals(example, *found)


def traverse(
    model: Any,
    code: Float[Tensor, "latents"],
    latent: int,
    values: Sequence[float],
    condition: Float[Tensor, "width"] | None = None,
) -> Float[Tensor, "values ..."]:
    """The decoder's means of a code with one latent set to each value; on the CPU."""
    _latent(latent, len(code))
    given = torch.as_tensor(values, dtype=torch.float64)
    table = given.new_zeros(len(code), len(given))
    table[latent] = given
    return _traversals(model, code, [latent], table, condition, CHUNK)[0].items


def wide_values(latents: int) -> Float[Tensor, "latents steps"]:
    """The same ten steps from -5 to 5 for every latent, whatever its value was."""
    return torch.linspace(-REACH, REACH, STEPS, dtype=torch.float64).expand(latents, STEPS)


def usual_values(mean: Float[Tensor, "items latents"]) -> Float[Tensor, "latents steps"]:
    """Nine quantiles, evenly spaced from .02 to .98, of each latent's mean over the data."""
    shares = np.linspace(OUTER, 1 - OUTER, QUANTILES)
    # numpy, since torch takes no quantiles of more than 16 million numbers.
    return torch.from_numpy(np.quantile(mean.double().cpu().numpy(), shares, axis=0).T)


@torch.no_grad()
def _traversals(
    model: Any,
    code: Tensor,
    latents: Sequence[int],
    values: Float[Tensor, "latents steps"],
    condition: Tensor | None,
    chunk: int,
) -> tuple[Traversal, ...]:
    """All latents in as few decodes as `chunk` allows."""
    first = next(model.parameters())
    steps = values.shape[1]
    rows = code.double().cpu().repeat(len(latents) * steps, 1).unflatten(0, (len(latents), steps))
    for place, latent in enumerate(latents):
        rows[place, :, latent] = values[latent]
    rows = rows.flatten(0, 1).to(first.device, first.dtype) * model.latent_mask
    with _still(model):
        parts = [_decoded(model, part, condition) for part in rows.split(whole_number("chunk", chunk, 1))]
    items = torch.cat(parts).unflatten(0, (len(latents), steps)) if parts else torch.empty(0)
    return tuple(
        Traversal(latent, tuple(values[latent].tolist()), one) for latent, one in zip(latents, items, strict=True)
    )


def _decoded(model: Any, rows: Float[Tensor, "batch latents"], condition: Tensor | None) -> Float[Tensor, "batch ..."]:
    told = () if condition is None else (condition.to(rows).expand(len(rows), -1),)
    return model.decode(rows, *told).mean.cpu()


def _latent(latent: int, latents: int) -> int:
    return whole_number("latent", latent, 0, latents - 1)
