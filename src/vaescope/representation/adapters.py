"""Codes from anything that can encode: a function with data, a file of codes, a pair of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data import open_dataset
from vaescope.data.reading import numpy_archive, reading
from vaescope.errors import DataError
from vaescope.numerics import counter
from vaescope.progress import follow
from vaescope.representation.encode import LONG_ITEMS, Representation

CHUNK = 1024
LOG_VARIANCE = "log_variance"


def adapt(subject: Any, data: Any = None, *, seed: int = 0) -> Representation:
    """The codes that `subject` stands for.

    A `Representation` as it is; a pair (mean, variance) of arrays; the path of an .npz archive or a .csv table with
    `mean` and `variance` (or `log_variance`); or, with `data`, a function from a batch to a posterior or to a pair
    (mean, variance). Samples that are missing are drawn from `seed`.
    """
    if isinstance(subject, Representation):
        return subject
    if isinstance(subject, str | Path):
        return _from_file(Path(subject), seed)
    if isinstance(subject, tuple | list) and len(subject) == 2:
        mean, variance = (array if isinstance(array, Tensor) else torch.tensor(np.asarray(array)) for array in subject)
        return _complete(mean, variance, seed)
    if callable(subject) and data is not None:
        return _from_function(subject, open_dataset(data), seed)
    wanted = "data to encode with it" if callable(subject) else "codes, a pair (mean, variance), a file or a function"
    raise DataError(f"{wanted} must be given, got {type(subject).__name__} and {type(data).__name__}.")


@torch.no_grad()
def _from_function(encode: Any, data: Any, seed: int) -> Representation:
    parts = []
    starts = range(0, len(data), CHUNK)
    for start in follow(starts, f"encoding {data.name}", len(starts), long=len(data) > LONG_ITEMS):
        answer = encode(data.batch(torch.arange(start, min(start + CHUNK, len(data)))))
        pair = answer if isinstance(answer, tuple | list) else (answer.mean, answer.variance)
        if len(pair) != 2:
            raise DataError(f"encode must return a posterior or a pair (mean, variance), got {len(pair)} things.")
        parts.append([torch.as_tensor(values).detach().cpu() for values in pair])
    mean, variance = (torch.cat(columns) for columns in zip(*parts, strict=True))
    codes = _complete(mean, variance, seed)
    return Representation(codes.mean, codes.variance, codes.sample, data.factors, data.labels)


def _from_file(path: Path, seed: int) -> Representation:
    if not path.is_file():
        raise DataError(f"{path} must be a file of codes (.npz or .csv), there is no such file.")
    arrays = _columns(path) if path.suffix == ".csv" else _archive(path)
    if "mean" not in arrays or not {"variance", LOG_VARIANCE} & set(arrays):
        raise DataError(
            f"{path} must hold mean and variance (or log_variance), items x latents, it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}. In a .csv name the columns mean_0, variance_0, mean_1, ..."
        )
    variance = arrays["variance"] if "variance" in arrays else np.exp(arrays[LOG_VARIANCE])
    codes = _complete(torch.from_numpy(arrays["mean"]), torch.from_numpy(variance), seed)
    given = {name: torch.from_numpy(arrays[name]) for name in ("sample", "factors", "labels") if name in arrays}
    return Representation(codes.mean, codes.variance, **{"sample": codes.sample, **given})


def _archive(path: Path) -> dict[str, np.ndarray]:
    known = ("mean", "variance", LOG_VARIANCE, "sample", "factors", "labels")
    with numpy_archive(path) as archive:
        return {name: archive[name] for name in known if name in archive}


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns mean_0, mean_1, ... of a table, put together by the name before the last underscore."""
    with reading(path, "a table of numbers with a header"):
        header = path.open(encoding="utf-8").readline().strip().split(",")
        values = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    groups: dict[str, dict[int, np.ndarray]] = {}
    for name, column in zip(header, values.T, strict=True):
        group, _, number = name.strip().rpartition("_")
        if number.isdecimal():
            groups.setdefault(group, {})[int(number)] = column
    return {group: np.stack([columns[n] for n in sorted(columns)], axis=1) for group, columns in groups.items()}


def _complete(mean: Tensor, variance: Tensor, seed: int) -> Representation:
    """Codes with a sample drawn for each item; a wrong shape or sign is for the diagnostics to name."""
    if mean.shape != variance.shape or mean.ndim != 2:
        raise DataError(
            f"mean and variance must be of one shape, items x latents, got {tuple(mean.shape)} and "
            f"{tuple(variance.shape)}."
        )
    return Representation(mean, variance, _sample(mean, variance, seed))


def _sample(mean: Tensor, variance: Tensor, seed: int) -> Float[Tensor, "items latents"]:
    rows = torch.arange(len(mean))
    noise = counter.normal(torch.tensor(seed), "encode", torch.tensor(0), rows, mean.shape[1])
    return mean + variance.clamp_min(0).sqrt() * noise.to(mean.dtype)
