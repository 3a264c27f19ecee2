"""Items that a model makes: reconstructions, samples from its prior, and what lies between two items."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import random_seed, whole_number
from vaescope.data import DataLike, Dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding.encode import (
    CHUNK_ITEMS,
    ModelInputs,
    encode,
    index_chunks,
    items_per_call,
    open_for,
    recognise,
    scale_of,
)
from vaescope.encoding.untouched import place_of, untouched
from vaescope.encoding.wrap import checked_model
from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import counter

CHUNK_CODES = 256
SAMPLE_ITEMS, INTERPOLATION_STEPS = 16, 9


@torch.no_grad()
def decode(
    model: object,
    codes: Float[Tensor, "items latents *positions"],
    conditions: Float[Tensor, "*items width"] | None = None,
    *,
    chunk: int = CHUNK_CODES,
) -> Float[Tensor, "items ..."]:
    """The mean of p(x|z) for every code, with pixels in the scale of the data, on the CPU.

    Args:
        model: A run, a model of this library, or a wrapped model that has encoded a batch.
        codes: One code for each item.
        conditions: The condition of each item, or one for all; conditional models need it.
        chunk: The number of codes per forward pass; of a wrapped model, at most its `batch_size`.
    """
    given_model = checked_model(model)
    shape: tuple[int, ...] = (len(given_model.latent_mask),)
    if isinstance(given_model, WrappedModel):
        given_model.check_decodes()
        chunk, shape = min(chunk, given_model.batch_size), given_model.latent_shape
    if tuple(codes.shape[1:]) != shape:
        raise DataError(f"codes must be items x {' x '.join(map(str, shape))}, got the shape {tuple(codes.shape)}.")
    device, dtype = place_of(given_model)
    mask = given_model.latent_mask.to(device, dtype)
    rows = codes.to(device, dtype) * mask.reshape(-1, *[1] * (codes.ndim - 2))
    given = None if conditions is None else conditions.to(rows).expand(len(rows), -1)
    found: list[Tensor] = []
    with untouched(given_model):
        for start in range(0, len(rows), whole_number("chunk", chunk, 1)):
            here = slice(start, start + chunk)
            condition = () if given is None else (given[here],)
            found.append(given_model.decode(rows[here], *condition).mean.cpu())
    return scale_of(given_model).to_data(torch.cat(found))


@torch.no_grad()
def reconstruct(
    model: object,
    data: DataLike,
    *,
    chunk: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Float[Tensor, "items ..."]:
    """The items as the model decodes them from their mean codes: the means of p(x|z), on the CPU.

    The arguments are those of `encode`.
    """
    given = checked_model(model)
    opened = open_for(given, data)
    recognise(given, opened)
    inputs = ModelInputs(given, opened, device=device)
    size = items_per_call(given, CHUNK_ITEMS) if chunk is None else chunk
    found: list[Tensor] = []
    with untouched(given, device):
        for index in index_chunks(opened, size, "reconstructing", device=inputs.device, progress=progress):
            condition = inputs.condition(index)
            code = given.encode(inputs.batch(index), *condition).mean
            mask = given.latent_mask.to(code).reshape(-1, *[1] * (code.ndim - 2))
            found.append(given.decode(code * mask, *condition).mean.cpu())
    return scale_of(given).to_data(torch.cat(found))


@torch.no_grad()
def sample(
    model: object,
    count: int = SAMPLE_ITEMS,
    *,
    seed: int = 0,
    conditions: Float[Tensor, "count width"] | None = None,
    chunk: int = CHUNK_CODES,
) -> Float[Tensor, "count ..."]:
    """Draw codes from the prior and decode them: the means of p(x|z), on the CPU.

    Args:
        model: A run, a model of this library with a prior, or a wrapped model that has encoded a batch; the prior of
            the latter is N(0, 1).
        count: The number of items.
        seed: Random seed; item i depends on `seed` and i alone.
        conditions: The condition of each item; conditional models need it.
        chunk: The number of codes per forward pass.
    """
    given_model = checked_model(model)
    if isinstance(given_model, WrappedModel):
        given_model.check_decodes()
        shape = given_model.latent_shape
        return decode(model, _standard_noise(count, seed, math.prod(shape)).reshape(-1, *shape), chunk=chunk)
    if given_model.prior is None:
        raise ConfigurationError(
            "sample needs a model with a prior to draw codes from; a deterministic autoencoder has none. Interpolate "
            "between items, or train a model 'vae'."
        )
    mask = given_model.latent_mask
    noise = _standard_noise(count, seed, len(mask)).to(mask)
    with untouched(given_model):
        given = None if conditions is None else conditions.to(mask)
        codes = given_model.prior(mask, given).sample(noise)
    return decode(model, codes, conditions, chunk=chunk)


def _standard_noise(count: int, seed: int, columns: int) -> Float[Tensor, "count columns"]:
    items = torch.arange(whole_number("count", count, 1))
    return counter.normal(torch.tensor(random_seed(seed)), "prior", torch.tensor(0), items, columns)


def interpolate(
    model: object, first: Dataset, second: Dataset, steps: int = INTERPOLATION_STEPS
) -> Float[Tensor, "steps ..."]:
    """Items decoded at equal steps along the line from the mean code of one item to that of another, both included.

    A conditional model's condition moves along the line between those of the items.

    Args:
        model: A run, or a model of this library or any other.
        first, second: Data sets of one item each.
        steps: The number of items.
    """
    for data in (first, second):
        if len(data) != 1:
            raise DataError(f"{data.name} must be one item to interpolate from or to, got {len(data)} items.")
    share = torch.linspace(0, 1, whole_number("steps", steps, 2), dtype=torch.float64)
    ends = [encode(model, data).code(0).double()[None] for data in (first, second)]
    given = [conditions_of(checked_model(model), data) for data in (first, second)]
    conditions = None if given[0] is None or given[1] is None else _line(given[0].double(), given[1].double(), share)
    return decode(model, _line(ends[0], ends[1], share), conditions)


def _line(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    share = share.reshape(-1, *[1] * (first.ndim - 1))
    return (1 - share) * first + share * second
