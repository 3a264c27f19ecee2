"""Codes of a data set under a model: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vaescope.codes import Representation
from vaescope.data import DataLike, open_dataset
from vaescope.encoding.inputs import Encodes, ModelInputs, index_chunks, missing_method
from vaescope.models import LatentModel
from vaescope.models.module import evaluation_mode, gaussian_prior


@torch.no_grad()
def encode(
    model: nn.Module,
    data: DataLike,
    *,
    chunk: int = 1024,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Representation:
    """Encode every item of a data set.

    Args:
        model: A model with a method `encode`, such as those of this library.
        data: Anything that `open_dataset` takes.
        chunk: The number of items per forward pass; it does not change the result.
        seed: Random seed for sampling; the sample of item i depends on `seed` and i alone.
        device: Where the model runs. Default: where it is.
        progress: Whether to show a progress bar. Default: for many items on a terminal.

    Returns:
        The codes on the CPU, with the factors and labels of the data, and the mean and variance of the prior if it is a
        Gaussian other than N(0, 1).
    """
    if not isinstance(model, Encodes):
        raise missing_method(model, "encode")
    opened = open_dataset(data)
    inputs = ModelInputs(model, opened, seed=seed, device=device)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    priors: list[tuple[Tensor, Tensor]] = []
    with evaluation_mode(model.to(inputs.device)):
        for index in index_chunks(opened, chunk, "encoding", device=inputs.device, progress=progress):
            condition = inputs.condition(index)
            posterior = model.encode(inputs.batch(index), *condition)
            sample = inputs.sample(posterior, index)
            parts.append((posterior.mean.cpu(), posterior.variance.cpu(), sample.cpu()))
            prior = gaussian_prior(model, *condition) if isinstance(model, LatentModel) else None
            if prior is not None:
                priors.append((prior.mean.cpu(), prior.variance.cpu()))
    mean, variance, sample = (torch.cat(columns) for columns in zip(*parts, strict=True))
    factors, labels = (None if codes is None else codes.cpu() for codes in (opened.factors, opened.labels))
    return Representation(mean, variance, sample, factors, labels, *_joined(priors))


def _joined(priors: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, ...]:
    """Mean and variance of the prior of all items; a prior that all items share is returned once."""
    if not priors or priors[0][0].ndim == 1:
        return priors[0] if priors else ()
    return tuple(torch.cat(columns) for columns in zip(*priors, strict=True))
