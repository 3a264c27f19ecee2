"""Codes from anything that encodes: a function or model with data, a file of codes, a pair of arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from vaescope.codes import Representation, read_codes
from vaescope.codes.arrays import as_tensor
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.encoding.encode import encode
from vaescope.encoding.inputs import Encodes, index_chunks
from vaescope.errors import DataError
from vaescope.models import LatentModel

CHUNK_ITEMS = 1024
ACCEPTED = "codes, a pair (mean, variance) of arrays, a file of codes (.npz, .csv), or a model or function with data"


def adapt(subject: object, data: DataLike | None = None, *, seed: int = 0) -> Representation:
    """The codes of a model or function, of a file, or of arrays.

    Args:
        subject: One of

            - a `Representation`, which is returned unchanged,
            - a pair (mean, variance) of arrays, items x latents,
            - the path of an .npz archive or a .csv table with `mean` and `variance` (or `log_variance`), and
              optionally the other attributes of a `Representation`,
            - with `data`: a model of this library, a function that maps a batch to a posterior or to a pair (mean,
              variance), or a module with such a method `encode`.
        data: Anything that `open_dataset` takes, for a model or function.
        seed: Random seed for sampling, if there are no samples.

    Returns:
        The codes, in float64 if they come from arrays, a file or a function.
    """
    if isinstance(subject, nn.Module) and isinstance(subject, LatentModel) and data is not None:
        return encode(subject, data, seed=seed)
    if isinstance(subject, nn.Module) and isinstance(subject, Encodes):
        subject = subject.encode
    if callable(subject):
        if data is None:
            raise DataError("A model or function needs data to encode. Pass data.")
        return _from_function(subject, open_dataset(data), seed)
    if data is not None:
        raise DataError(f"data can be passed only with a model or function that encodes, got {type(subject).__name__}.")
    if isinstance(subject, Representation):
        return subject
    if isinstance(subject, str | Path):
        return read_codes(subject, seed=seed)
    if isinstance(subject, tuple | list) and len(subject) == 2:
        return Representation.from_arrays({"mean": subject[0], "variance": subject[1]}, seed=seed)
    raise DataError(f"The subject must be {ACCEPTED}, got {_type_of(subject)}.")


@torch.no_grad()
def _from_function(function: Callable[[Tensor], object], data: Dataset, seed: int) -> Representation:
    parts: list[list[Tensor]] = []
    for index in index_chunks(data, CHUNK_ITEMS, "encoding"):
        posterior = _mean_and_variance(function(data.batch(index)))
        parts.append([as_tensor(values, name).double().cpu() for name, values in posterior.items()])
        for values in parts[-1]:
            if values.ndim != 2 or len(values) != len(index):
                raise DataError(
                    f"The function must return one row of latents for each of the {len(index)} items of a batch, "
                    f"got the shape {tuple(values.shape)}."
                )
    mean, variance = (torch.cat(columns) for columns in zip(*parts, strict=True))
    arrays = {"mean": mean, "variance": variance, "factors": data.factors, "labels": data.labels}
    given = {name: values for name, values in arrays.items() if values is not None}
    return Representation.from_arrays(given, name=data.name, seed=seed)


@runtime_checkable
class HasMeanAndVariance(Protocol):
    """A posterior of any library; arrays and tensors are none, because they have no `variance`."""

    mean: object
    variance: object


def _mean_and_variance(posterior: object) -> dict[str, object]:
    if isinstance(posterior, tuple | list) and len(posterior) == 2:
        return {"mean": posterior[0], "variance": posterior[1]}
    if isinstance(posterior, HasMeanAndVariance):
        return {"mean": posterior.mean, "variance": posterior.variance}
    raise DataError(
        "The function must return a posterior with mean and variance, or a pair (mean, variance), "
        f"got {_type_of(posterior)}."
    )


def _type_of(value: object) -> str:
    return type(value).__name__ + (f" of {len(value)}" if isinstance(value, tuple | list) else "")
