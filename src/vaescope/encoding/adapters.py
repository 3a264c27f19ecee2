"""Codes from anything that can encode: a function with data, a file of codes, a pair of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from vaescope.codes import Representation, read_codes
from vaescope.codes.arrays import as_tensor
from vaescope.data import Dataset, open_dataset
from vaescope.encoding.encode import LONG_ITEMS, encode
from vaescope.errors import DataError
from vaescope.models import MODELS
from vaescope.progress import track

CHUNK = 1024
ACCEPTED = "codes, a pair (mean, variance) of arrays, a file of codes (.npz, .csv) or a function with data"


def adapt(subject: Any, data: Any = None, *, seed: int = 0) -> Representation:
    """The codes that `subject` stands for.

    A `Representation` as it is; a pair (mean, variance) of arrays; the path of an .npz archive or a .csv table with
    `mean` and `variance` (or `log_variance`), and what else a `Representation` holds; or, with `data`, one of our
    models, a function from a batch to a posterior or to a pair (mean, variance), or a module with such a function
    named `encode`. Codes from a file or a function come in float64, so that the type they were kept in changes
    nothing; samples that are missing are drawn from `seed`.
    """
    if isinstance(subject, tuple(MODELS.values())) and data is not None:
        return encode(subject, data, seed=seed)
    if isinstance(subject, nn.Module):
        subject = getattr(subject, "encode", subject)
    if callable(subject):
        if data is None:
            raise DataError("a function that encodes needs data to encode; pass them as data.")
        return _from_function(subject, open_dataset(data), seed)
    if data is not None:
        raise DataError(f"data are for a function that encodes, got {type(subject).__name__}; leave data out.")
    if isinstance(subject, Representation):
        return subject
    if isinstance(subject, str | Path):
        return read_codes(subject, seed=seed)
    if isinstance(subject, tuple | list) and len(subject) == 2:
        return Representation.from_arrays({"mean": subject[0], "variance": subject[1]}, seed=seed)
    count = f" of {len(subject)}" if isinstance(subject, tuple | list) else ""
    raise DataError(f"what is diagnosed must be {ACCEPTED}, got {type(subject).__name__}{count}.")


@torch.no_grad()
def _from_function(function: Any, data: Dataset, seed: int) -> Representation:
    parts = []
    starts = range(0, len(data), CHUNK)
    for start in track(starts, f"encoding {data.name}", len(starts), long=len(data) > LONG_ITEMS):
        batch = data.batch(torch.arange(start, min(start + CHUNK, len(data))))
        pair = [
            as_tensor(values, name).double().cpu()
            for name, values in zip(("mean", "variance"), _pair(function(batch)), strict=True)
        ]
        for values in pair:
            if values.ndim != 2 or len(values) != len(batch):
                raise DataError(
                    f"the function must return one row of latents for each of the {len(batch)} items of a batch, "
                    f"got the shape {tuple(values.shape)}."
                )
        parts.append(pair)
    mean, variance = (torch.cat(columns) for columns in zip(*parts, strict=True))
    beside = {"factors": data.factors, "labels": data.labels}
    given = {name: values for name, values in beside.items() if values is not None}
    return Representation.from_arrays({"mean": mean, "variance": variance, **given}, name=data.name, seed=seed)


def _pair(answer: Any) -> tuple[Any, Any]:
    """Mean and variance, from a pair or from a distribution that has both."""
    if isinstance(answer, tuple | list) and len(answer) == 2:
        return answer[0], answer[1]
    found = [getattr(answer, name, None) for name in ("mean", "variance")]
    # The mean of an array or a tensor is a method, not codes.
    if any(values is None or callable(values) for values in found):
        count = f" of {len(answer)}" if isinstance(answer, tuple | list) else ""
        raise DataError(
            "the function must return a posterior with mean and variance, or a pair (mean, variance), "
            f"got {type(answer).__name__}{count}."
        )
    return found[0], found[1]
