"""Posterior means and variances, in memory or memory-mapped, checked and converted to float64 chunk by chunk."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.arrays import Array, ArrayLike, as_array, check_finite, first_where
from vaescope.codes.representation import Representation, check_shapes
from vaescope.errors import DataError

# Numbers of one array in one chunk: 2 MB in float64.
CHUNK_NUMBERS = 1 << 18

MeanAndVariance: TypeAlias = tuple[ArrayLike, ArrayLike]
PosteriorsLike: TypeAlias = Representation | MeanAndVariance


@dataclass(frozen=True)
class Chunk:
    """Codes of some items in float64 on one device; the prior's arrays are None for N(0, 1)."""

    mean: Float[Tensor, "items latents"]
    variance: Float[Tensor, "items latents"]
    prior_mean: Float[Tensor, "#items latents"] | None = None
    prior_variance: Float[Tensor, "#items latents"] | None = None


@dataclass(frozen=True)
class Codes:
    """Arrays of matching shapes, of any type and on any device; their values are checked chunk by chunk."""

    mean: Array
    variance: Array
    prior_mean: Array | None = None
    prior_variance: Array | None = None

    @classmethod
    def of(cls, codes: PosteriorsLike, prior: MeanAndVariance | None = None) -> Codes:
        """Check the shapes of codes.

        Args:
            codes: A `Representation` or a pair (mean, variance), items x latents.
            prior: A pair (mean, variance), items x latents or one number per latent. Default: the prior of the
                representation, or N(0, 1).
        """
        if prior is None and isinstance(codes, Representation):
            prior = codes.prior
        mean, variance = (codes.mean, codes.variance) if isinstance(codes, Representation) else _pair("codes", codes)
        given = {"mean": mean, "variance": variance}
        if prior is not None:
            given["prior mean"], given["prior variance"] = _pair("prior", prior)
        arrays = {name: as_array(values, name) for name, values in given.items()}
        check_shapes(arrays)
        if arrays["mean"].shape[1] == 0:
            raise DataError(f"codes must have at least one latent, got the shape {tuple(arrays['mean'].shape)}.")
        return cls(*arrays.values())

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def prior(self) -> tuple[Array, Array] | None:
        """Mean and variance of the prior; None for N(0, 1)."""
        if self.prior_mean is None or self.prior_variance is None:
            return None
        return self.prior_mean, self.prior_variance

    @property
    def latents(self) -> int:
        """The number of latents."""
        return int(self.mean.shape[1])

    def chunks(self, items: int | None = None, first: int = 0) -> Iterator[Chunk]:
        """All items in order, `items` at a time; error messages number the items from `first`."""
        items = max(1, CHUNK_NUMBERS // self.latents) if items is None else whole_number("chunk", items, 1)
        for start in range(0, len(self), items):
            stop = min(start + items, len(self))
            yield self.chunk(slice(start, stop), range(first + start, first + stop))
            for array in (self.mean, self.variance, self.prior_mean, self.prior_variance):
                _release_pages(array)

    def chunk(self, rows: slice | np.ndarray, numbers: Sequence[int]) -> Chunk:
        """The items at `rows`; `numbers` are their numbers in error messages."""
        device = self.mean.device if isinstance(self.mean, Tensor) else torch.device("cpu")
        arrays = {name: array for name, array in vars(self).items() if array is not None}
        return Chunk(**{name: checked_rows(name, array, rows, numbers, device) for name, array in arrays.items()})


def checked_rows(
    name: str, array: Array, rows: slice | np.ndarray, numbers: Sequence[int], device: torch.device
) -> Float[Tensor, "rows latents"]:
    """Rows of an array in float64 on a device, checked; an array that all items share is one row."""
    name, shared = name.replace("_", " "), array.ndim == 1
    values = _float64(array[None] if shared else array[rows], device)
    names: Sequence[int] = () if shared else numbers
    low = float(values.min())
    if not (math.isfinite(low) and math.isfinite(float(values.max()))):
        check_finite(values, name, numbers=names)
    if name.endswith("variance") and low < 0:
        place, value = first_where(values < 0, values, numbers=names)
        raise DataError(
            f"{name} must not be negative, got {value:g} for {place}. If it is a log-variance, pass its exponential."
        )
    if name == "prior variance" and low == 0:
        place, _ = first_where(values == 0, values, numbers=names)
        raise DataError(f"prior variance must be above 0, got 0 for {place}. Pass a prior with a positive variance.")
    return values


def _pair(name: str, values: object) -> MeanAndVariance:
    if not isinstance(values, tuple | list) or len(values) != 2:
        accepted = "a Representation or a pair" if name == "codes" else "a pair"
        raise DataError(f"{name} must be {accepted} (mean, variance) of arrays, got {type(values).__name__}.")
    return values[0], values[1]


def _float64(values: Array, device: torch.device) -> Tensor:
    if isinstance(values, Tensor):
        return values.to(device=device, dtype=torch.float64).contiguous()
    # A copy: torch cannot hold read-only memory, foreign byte orders or long doubles. Rows first, so that the order of
    # sums, and with it their rounding, does not depend on how the array is stored.
    return torch.from_numpy(np.array(values, dtype=np.float64, order="C")).to(device)


def _release_pages(array: Array | None) -> None:
    """Return the pages of a memory-mapped file to the system, or they would count as memory of this process.

    Only of maps that share the file's pages: a copy-on-write map may hold changes that are stored nowhere else.
    """
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or getattr(base, "mode", None) not in ("r", "r+", "w+"):
        return
    pages = getattr(base, "_mmap", None)
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
