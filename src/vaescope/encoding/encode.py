"""Codes of a data set under a model: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.data.conditions import conditions_of
from vaescope.errors import ConfigurationError
from vaescope.models.variational import gaussian_prior
from vaescope.numerics import counter
from vaescope.progress import track

LONG_ITEMS = 5000


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
    for start in track(starts, f"encoding {data.name}", len(starts), long=long):
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


def _beside(codes: Tensor | None) -> Tensor | None:
    return None if codes is None else codes.cpu()
