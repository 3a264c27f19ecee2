"""Codes of a data set under a model: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import counter


@dataclass(frozen=True)
class Representation:
    """One row for each item. `variance` is a variance: never its logarithm, never a standard deviation."""

    mean: Float[Tensor, "items latents"]
    variance: Float[Tensor, "items latents"]
    sample: Float[Tensor, "items latents"]
    factors: Int[Tensor, "items factors"] | None = None
    labels: Int[Tensor, "items"] | None = None

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def latents(self) -> int:
        """The number of latents."""
        return self.mean.shape[1]

    def save(self, path: str | Path) -> None:
        """Write an .npz file of the arrays that are there."""
        arrays = {name: value.numpy() for name, value in vars(self).items() if value is not None}
        np.savez(path, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Representation:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: torch.from_numpy(file[name]) for name in file.files}
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} must be an .npz file of codes, it could not be read ({error}).") from error
        missing = {"mean", "variance", "sample"} - set(arrays)
        if missing:
            raise DataError(f"{path} must hold mean, variance and sample, {', '.join(sorted(missing))} is missing.")
        known = {field.name for field in fields(cls)}
        return cls(**{name: array for name, array in arrays.items() if name in known})


@torch.no_grad()
def encode(
    model: Any,
    data: Any,
    *,
    chunk: int = 1024,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Representation:
    """The codes of every item, `chunk` items at a time, on the model's device or on `device`.

    The sample of item i depends on `seed` and i alone, not on the chunk it came in.
    """
    if chunk < 1:
        raise ConfigurationError(f"chunk must be at least 1, got {chunk}.")
    data = open_dataset(data)
    first = next(model.parameters())
    device = first.device if device is None else torch.device(device)
    model = model.to(device)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(data), chunk):
        index = torch.arange(start, min(start + chunk, len(data)), device=device)
        posterior = model.encode(data.batch(index).to(first.dtype))
        noise = counter.normal(
            torch.tensor(seed, device=device), "encode", torch.tensor(0), index, posterior.mean.shape[1]
        )
        sample = posterior.sample(noise.to(posterior.mean.dtype))
        parts.append((posterior.mean.cpu(), posterior.variance.cpu(), sample.cpu()))
    mean, variance, sample = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return Representation(mean, variance, sample, _beside(data.factors), _beside(data.labels))


def _beside(codes: Tensor | None) -> Tensor | None:
    return None if codes is None else codes.cpu()
