"""Codes of a data set under a model: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data import Dataset, open_dataset
from vaescope.data.conditions import condition_table
from vaescope.data.reading import numpy_archive
from vaescope.errors import ConfigurationError, DataError
from vaescope.models.variational import gaussian_prior
from vaescope.numerics import counter
from vaescope.progress import follow

LONG_ITEMS = 5000
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


@torch.no_grad()
def encode(
    model: Any,
    data: Any,
    *,
    chunk: int = 1024,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Representation:
    """The codes of every item, `chunk` items at a time, on the model's device or on `device`.

    The sample of item i depends on `seed` and i alone, not on the chunk it came in. A progress bar is shown for many
    items on a terminal, or as `progress` says.
    """
    if chunk < 1:
        raise ConfigurationError(f"chunk must be at least 1, got {chunk}.")
    data = open_dataset(data)
    first = next(model.parameters())
    device = first.device if device is None else torch.device(device)
    model = model.to(device)
    told = conditions_of(model, data, device)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    priors: list[tuple[Tensor, Tensor]] = []
    starts = range(0, len(data), chunk)
    long = len(data) > LONG_ITEMS if progress is None else progress
    for start in follow(starts, f"encoding {data.name}", len(starts), long=long):
        index = torch.arange(start, min(start + chunk, len(data)), device=device)
        condition = () if told is None else (told[index].to(first.dtype),)
        posterior = model.encode(data.batch(index).to(first.dtype), *condition)
        noise = counter.normal(
            torch.tensor(seed, device=device), "encode", torch.tensor(0), index, posterior.mean.shape[1]
        )
        sample = posterior.sample(noise.to(posterior.mean.dtype))
        parts.append((posterior.mean.cpu(), posterior.variance.cpu(), sample.cpu()))
        prior = gaussian_prior(model, *condition)
        if prior is not None:
            priors.append((prior.mean.cpu(), prior.variance.cpu()))
    mean, variance, sample = (torch.cat(columns) for columns in zip(*parts, strict=True))
    beside = (_beside(data.factors), _beside(data.labels))
    return Representation(mean, variance, sample, *beside, *_one_prior(priors))


def _one_prior(priors: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, ...]:
    """Mean and variance over all chunks; of a prior that is the same for all items, those of the first."""
    if not priors or priors[0][0].ndim == 1:
        return priors[0] if priors else ()
    return tuple(torch.cat(columns) for columns in zip(*priors, strict=True))


def conditions_of(model: Any, data: Dataset, device: torch.device | str = "cpu") -> Tensor | None:
    """What a conditional model is told about every item."""
    kind = getattr(model, "condition_on", None)
    return None if kind is None else condition_table(data, kind, model.condition_width).to(device)


def _beside(codes: Tensor | None) -> Tensor | None:
    return None if codes is None else codes.cpu()
