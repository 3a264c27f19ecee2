"""Data sets by name, path, array, tensor or torch Dataset; `open_dataset` opens them all."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from vaescope.codes.arrays import ArrayLike
from vaescope.codes.reading import reading
from vaescope.data import dsprites, public, synthetic
from vaescope.data.arrays import from_array, from_torch_dataset
from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import Dataset, DatasetEntry, Factors, Subset, describe
from vaescope.data.files import opener_of
from vaescope.errors import ConfigurationError, DataError, UnknownNameError

__all__ = [
    "DATASETS",
    "DataLike",
    "Dataset",
    "DatasetEntry",
    "Factors",
    "Subset",
    "conditions_of",
    "describe",
    "open_dataset",
]

DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry for entry in (*synthetic.ENTRIES, *dsprites.ENTRIES, *public.ENTRIES)
}

TorchDataset: TypeAlias = torch.utils.data.Dataset[object]
DataLike: TypeAlias = Dataset | str | os.PathLike[str] | Mapping[str, object] | TorchDataset | ArrayLike
"""Everything that `open_dataset` opens."""


def open_dataset(source: DataLike, **options: object) -> Dataset:
    """Open a data set.

    Args:
        source: One of

            - a name in `DATASETS`; write ./name for a file of the same name,
            - the path of a .npy, .npz, .csv or .tsv file, or of a folder of images,
            - an array, a tensor or a list of numbers,
            - a torch Dataset with a length,
            - a Dataset, which is returned unchanged,
            - a table {"name": name or path, option: value, ...}.
        options: Options of the function that opens this kind of source.
    """
    match source:
        case Mapping() if isinstance(name := source.get("name"), str | os.PathLike):
            table = {option: value for option, value in source.items() if option != "name"}
            return open_dataset(name, **table, **options)
        case Dataset():
            return _open(source.name, lambda: source, options)
        case str() if source in DATASETS:
            return _open(source, DATASETS[source].open, options)
        case str() | os.PathLike():
            path = _existing_path(source)
            return _open(str(source), partial(opener_of(path), path), options)
        case torch.utils.data.Dataset():
            return _open(type(source).__name__, partial(from_torch_dataset, source), options)
        case _:
            return _open("array", partial(from_array, _as_array(source)), options)


def _existing_path(source: str | os.PathLike[str]) -> Path:
    path = Path(os.path.expanduser(source))
    if os.path.lexists(path):
        with reading(path, "a file or folder of data"):
            return path
    near = difflib.get_close_matches(str(source), DATASETS, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known data sets: {', '.join(sorted(DATASETS))}."
    raise UnknownNameError(f"{str(source)!r} is neither a known data set nor an existing file or folder. {hint}")


def _as_array(source: object) -> np.ndarray | Tensor:
    """An array from a list or from anything that has `__array__`."""
    if isinstance(source, np.ndarray | Tensor):
        return source
    if not isinstance(source, list | tuple) and not hasattr(source, "__array__"):
        raise DataError(
            "data must be a name, a path, an array, a tensor, a torch Dataset or a list of numbers, "
            f"got {type(source).__name__}."
        )
    try:
        return np.asarray(source)
    except ValueError as error:
        raise DataError(f"All items of a list must have the same shape, but they differ: {error}.") from error


def _open(name: str, opener: Callable[..., Dataset], options: Mapping[str, object]) -> Dataset:
    """Call an opener after checking that it takes the options."""
    known = list(inspect.signature(opener).parameters)
    for option, value in options.items():
        if option not in known:
            raise ConfigurationError(
                f"{option} is not an option of {name}, which takes {', '.join(known) or 'no options'}. "
                f"Remove {option}={value!r}."
            )
    return opener(**options)
