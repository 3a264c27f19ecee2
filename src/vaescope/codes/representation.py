"""Codes of a data set: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.codes.reading import numpy_archive
from vaescope.errors import DataError

REQUIRED = ("mean", "variance", "sample")
PRIOR = ("prior_mean", "prior_variance")


@dataclass(frozen=True)
class Representation:
    """One row for each item. `variance` is a variance: never its logarithm, never a standard deviation.

    The prior's mean and variance are there where it is a Gaussian other than N(0, 1): a row for each item, or one
    number for each latent.
    """

    mean: Float[Tensor, "items latents"]
    variance: Float[Tensor, "items latents"]
    sample: Float[Tensor, "items latents"]
    factors: Int[Tensor, "items factors"] | None = None
    labels: Int[Tensor, "items"] | None = None
    prior_mean: Float[Tensor, "*items latents"] | None = None
    prior_variance: Float[Tensor, "*items latents"] | None = None

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def latents(self) -> int:
        """The number of latents."""
        return self.mean.shape[1]

    @property
    def prior(self) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of the prior, where it is a Gaussian other than N(0, 1)."""
        if self.prior_mean is None or self.prior_variance is None:
            return None
        return self.prior_mean, self.prior_variance

    def in_units_of_prior(self) -> Representation:
        """The codes less the prior's mean, over its standard deviation: to these, the prior is N(0, 1)."""
        if self.prior_mean is None or self.prior_variance is None:
            return self
        mean, variance = (part.to(self.mean.device) for part in (self.prior_mean, self.prior_variance))
        moved = {name: (getattr(self, name) - mean) / variance.sqrt() for name in ("mean", "sample")}
        return replace(self, **moved, variance=self.variance / variance, prior_mean=None, prior_variance=None)

    def save(self, path: str | Path) -> None:
        """Write the arrays that are there as an .npz archive, under exactly this name."""
        arrays = {name: value.numpy() for name, value in vars(self).items() if value is not None}
        with Path(path).open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Representation:
        """Read what `save` wrote."""
        known = [field.name for field in fields(cls)]
        with numpy_archive(Path(path)) as archive:
            arrays = {name: archive[name] for name in known if name in archive}
        missing = [name for name in REQUIRED if name not in arrays]
        if missing:
            raise DataError(f"{path} must hold the arrays {', '.join(REQUIRED)}; {', '.join(missing)} is missing.")
        for name, array in arrays.items():
            _check_array(path, name, array, arrays["mean"])
        return cls(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def _check_array(path: str | Path, name: str, array: np.ndarray, mean: np.ndarray) -> None:
    """Numbers, one row for each item, and the codes of one shape."""
    if array.dtype.kind not in "iuf":
        raise DataError(f"{path}: {name} must hold numbers, got type {array.dtype}.")
    if name in PRIOR and mean.ndim == 2:
        if array.shape not in (mean.shape, mean.shape[1:]):
            raise DataError(
                f"{path}: {name} must be of the shape of mean, {mean.shape}, or hold one number for each latent, got "
                f"the shape {array.shape}."
            )
    elif mean.ndim != 2 or len(array) != len(mean) or (name in REQUIRED and array.shape != mean.shape):
        raise DataError(
            f"{path}: mean, variance and sample must be of one shape, items x latents, with a row of factors and a "
            f"label for each item; mean has the shape {mean.shape} and {name} {array.shape}."
        )
