"""Data sets and where they come from: a name, a path, an array or a torch Dataset."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vaescope.data import dsprites, public, synthetic
from vaescope.data.arrays import from_array, from_torch_dataset
from vaescope.data.dataset import Dataset, Factors, Subset
from vaescope.data.files import opener
from vaescope.data.source import Source
from vaescope.errors import ConfigurationError, DataError, UnknownNameError

__all__ = ["DATASETS", "Dataset", "Factors", "Subset", "open_dataset"]

DATASETS: dict[str, Source] = {
    source.name: source for source in (*synthetic.SOURCES, *dsprites.SOURCES, *public.SOURCES)
}


def open_dataset(source: Any, **options: Any) -> Dataset:
    """The data set that `source` stands for.

    `source` is a name in `DATASETS`, the path of a .npy, .npz, .csv or .tsv file or of a folder of images,
    an array or tensor, a torch Dataset with a length, or a Dataset, which comes back as it is. A name goes
    before a file of the same name: write ./name for the file. The options are those of what opens it; a table of a
    `name` and options stands for both.
    """
    if isinstance(source, Mapping) and isinstance(source.get("name"), str | Path):
        own = {name: value for name, value in source.items() if name != "name"}
        return open_dataset(source["name"], **own, **options)
    if isinstance(source, Dataset):
        return _opened(lambda: source, options, source.name)
    if isinstance(source, str) and source in DATASETS:
        return _opened(DATASETS[source].open, options, source)
    if isinstance(source, (str, Path)):
        path = _existing(source)
        return _opened(opener(path), options, str(source), path)
    if isinstance(source, torch.utils.data.Dataset):
        return _opened(from_torch_dataset, options, type(source).__name__, source)
    return _opened(from_array, options, "array", _as_array(source))


def _existing(source: str | Path) -> Path:
    path = Path(source).expanduser()
    if path.exists():
        return path
    near = difflib.get_close_matches(str(source), DATASETS, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(sorted(DATASETS))}."
    raise UnknownNameError(f"{str(source)!r} is neither a known data set nor an existing file or folder. {hint}")


def _as_array(source: Any) -> np.ndarray | Tensor:
    """Lists and whatever else offers itself as an array."""
    if isinstance(source, (np.ndarray, Tensor)):
        return source
    if not isinstance(source, (list, tuple)) and not hasattr(source, "__array__"):
        raise DataError(
            "data must be a name, a path, an array, a tensor, a torch Dataset or a list of numbers; "
            f"got {type(source).__name__}."
        )
    try:
        return np.asarray(source)
    except ValueError as error:
        raise DataError(f"a list of items must make a full array, got rows that do not match: {error}.") from error


def _opened(function: Callable[..., Dataset], options: dict[str, Any], name: str, *given: Any) -> Dataset:
    """Calls an opener after it is certain to take the options."""
    taken = list(inspect.signature(function).parameters)[len(given) :]
    for option in options:
        if option not in taken:
            raise ConfigurationError(
                f"{option} is not an option of {name}, which takes {', '.join(taken) or 'none'}. "
                f"Remove {option}={options[option]!r}."
            )
    return function(*given, **options)
