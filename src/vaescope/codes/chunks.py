"""Posterior means and variances from numpy, memory maps or torch, checked and handed out in float64 chunks."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes import Representation
from vaescope.errors import DataError

# Numbers of one array in one chunk: a few megabytes in float64, whatever the number of latents.
CHUNK_NUMBERS = 1 << 18


@dataclass(frozen=True)
class Chunk:
    """Codes of a few items in float64 on one device; the prior's arrays are None for N(0, 1)."""

    mean: Float[Tensor, "items latents"]
    variance: Float[Tensor, "items latents"]
    prior_mean: Float[Tensor, "#items latents"] | None = None
    prior_variance: Float[Tensor, "#items latents"] | None = None


@dataclass(frozen=True)
class Codes:
    """The arrays as they came, of shapes that fit; their values are checked chunk by chunk."""

    mean: Any
    variance: Any
    prior_mean: Any = None
    prior_variance: Any = None

    @classmethod
    def of(cls, codes: Any, prior: Any = None) -> Codes:
        """From a `Representation` or a pair (mean, variance); `prior` is a pair too, items x latents or latents.

        Without one, it is the representation's own, if it has any.
        """
        if prior is None and isinstance(codes, Representation):
            prior = codes.prior
        pair = (codes.mean, codes.variance) if isinstance(codes, Representation) else _pair("codes", codes)
        mean, variance = (checked_array(name, values) for name, values in zip(("mean", "variance"), pair, strict=True))
        _check_codes(mean, variance)
        if prior is None:
            return cls(mean, variance)
        names = ("prior mean", "prior variance")
        arrays = [checked_array(name, values) for name, values in zip(names, _pair("prior", prior), strict=True)]
        for name, array in zip(names, arrays, strict=True):
            if tuple(array.shape) not in (tuple(mean.shape), (mean.shape[1],)):
                raise DataError(
                    f"{name} must be of the shape of mean, {tuple(mean.shape)}, or hold one number for each of the "
                    f"{mean.shape[1]} latents; got the shape {tuple(array.shape)}."
                )
        return cls(mean, variance, *arrays)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def prior(self) -> tuple[Any, Any] | None:
        """Mean and variance of the prior; None for N(0, 1)."""
        return None if self.prior_mean is None else (self.prior_mean, self.prior_variance)

    @property
    def latents(self) -> int:
        """The number of latents."""
        return int(self.mean.shape[1])

    def chunks(self, items: int | None = None, first: int = 0) -> Iterator[Chunk]:
        """All items in order, `items` at a time; `first` is the number that messages give to the first item."""
        items = max(1, CHUNK_NUMBERS // self.latents) if items is None else whole_number("chunk", items, 1)
        for start in range(0, len(self), items):
            stop = min(start + items, len(self))
            yield self.chunk(slice(start, stop), range(first + start, first + stop))
            for array in vars(self).values():
                _release_pages(array)

    def chunk(self, rows: slice | np.ndarray, numbers: Sequence[int]) -> Chunk:
        """The items at `rows`, which messages call by `numbers`."""
        device = self.mean.device if isinstance(self.mean, Tensor) else torch.device("cpu")
        arrays = {name: array for name, array in vars(self).items() if array is not None}
        return Chunk(**{name: checked_rows(name, array, rows, numbers, device) for name, array in arrays.items()})


def checked_rows(name: str, array: Any, rows: slice | np.ndarray, numbers: Sequence[int], device: Any) -> Tensor:
    """Rows of an array in float64 on a device, all finite and no variance negative; one row, where it has but one."""
    shared = array.ndim == 1
    values = _float64(array[None] if shared else array[rows], device)
    _check_values(name.replace("_", " "), values, None if shared else numbers)
    return values


def checked_array(name: str, values: Any) -> Any:
    """A numpy array or a torch tensor of real numbers, not copied."""
    if isinstance(values, Tensor):
        array: Any = values.detach()
        numbers = not (array.is_complex() or array.dtype == torch.bool)
    elif hasattr(values, "__array__"):
        array = values if isinstance(values, np.memmap) else np.asarray(values)
        numbers = array.dtype.kind in "iuf"
    else:
        raise DataError(f"{name} must be a numpy array or a torch tensor, got {type(values).__name__}.")
    if not numbers:
        raise DataError(f"{name} must hold real numbers, got type {array.dtype}; convert it to a float type.")
    return array


def _pair(name: str, values: Any) -> tuple[Any, Any]:
    if not isinstance(values, tuple | list) or len(values) != 2:
        accepted = "a Representation or a pair" if name == "codes" else "a pair"
        raise DataError(f"{name} must be {accepted} (mean, variance) of arrays, got {type(values).__name__}.")
    return values[0], values[1]


def _check_codes(mean: Any, variance: Any) -> None:
    for name, array in (("mean", mean), ("variance", variance)):
        if array.ndim != 2:
            raise DataError(f"{name} must be 2-dimensional, items x latents, got the shape {tuple(array.shape)}.")
    if mean.shape != variance.shape:
        raise DataError(
            "mean and variance must be of one shape, items x latents, got "
            f"{tuple(mean.shape)} and {tuple(variance.shape)}."
        )
    if mean.shape[1] == 0:
        raise DataError(f"codes must have at least one latent, got the shape {tuple(mean.shape)}.")


def _float64(values: Any, device: torch.device) -> Tensor:
    if isinstance(values, Tensor):
        return values.to(device=device, dtype=torch.float64).contiguous()
    # A copy: torch cannot hold read-only memory, foreign byte orders or long doubles. Rows first, so that the order of
    # sums, and with it their rounding, does not depend on how the array is stored.
    return torch.from_numpy(np.array(values, dtype=np.float64, order="C")).to(device)


def _check_values(name: str, values: Tensor, numbers: Sequence[int] | None) -> None:
    low, high = (float(bound) for bound in torch.aminmax(values))
    if not (math.isfinite(low) and math.isfinite(high)):
        place, value = _first(~torch.isfinite(values), values, numbers)
        raise DataError(f"{name} must be finite, but {place} holds {value:g}; leave it out or encode it again.")
    if name.endswith("variance") and low < 0:
        place, value = _first(values < 0, values, numbers)
        raise DataError(
            f"{name} must not be negative, but {place} holds {value:g}; it looks like a log-variance: "
            "pass its exponential, exp(log-variance)."
        )
    if name == "prior variance" and low == 0:
        place, _ = _first(values == 0, values, numbers)
        raise DataError(f"prior variance must be above 0, but {place} holds 0; pass a prior with some width.")


def _first(wrong: Tensor, values: Tensor, numbers: Sequence[int] | None) -> tuple[str, float]:
    item, latent = (int(number) for number in wrong.nonzero()[0])
    place = f"latent {latent}" if numbers is None else f"item {numbers[item]}, latent {latent}"
    return place, float(values[item, latent])


def _release_pages(array: Any) -> None:
    """Hand pages of a memory-mapped file back, or they would count as this process's memory until the end.

    Only where the pages are the file's own: a copy-on-write map may hold changes that live nowhere else.
    """
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    if not isinstance(array, np.memmap) or getattr(array, "mode", None) not in ("r", "r+", "w+"):
        return
    pages = getattr(array, "_mmap", None)
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
