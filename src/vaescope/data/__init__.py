"""Data sets by name, path, array, tensor or torch Dataset; `open_dataset` opens them all."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from vaescope.codes.arrays import ArrayLike
from vaescope.codes.reading import reading
from vaescope.data import dsprites, public, synthetic
from vaescope.data.arrays import from_array
from vaescope.data.cells import AnnData, from_anndata, is_anndata
from vaescope.data.columns import table_of
from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import Dataset, DatasetEntry, Factors, Subset, describe
from vaescope.data.files import opener_of
from vaescope.data.pixel_scale import PixelScale
from vaescope.data.sources import SUBSET, option_name, setting, source_of, take
from vaescope.data.sparse import SPARSE_LAYOUTS, SparseMatrix, from_sparse, rows_of
from vaescope.data.tables import open_table
from vaescope.data.torch_datasets import TorchSource, from_torch_dataset
from vaescope.errors import ConfigurationError, DataError, UnknownNameError, quoted

__all__ = [
    "DATASETS",
    "DataLike",
    "Dataset",
    "DatasetEntry",
    "Factors",
    "Subset",
    "conditions_of",
    "describe",
    "open_as_given",
    "open_dataset",
    "open_scaled",
]

DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry for entry in (*synthetic.ENTRIES, *dsprites.ENTRIES, *public.ENTRIES)
}

ARRAYS = (np.ndarray, Tensor, list, tuple)  # what needs no search for the library of a data frame
MAPPING_ADVICE = " A table of options needs the key 'name'; pass rows as a data frame or as a list of numbers."
STANDARDISE = "standardise"  # the option of every source of vectors and signals

DataLike: TypeAlias = (
    Dataset | str | os.PathLike[str] | Mapping[str, object] | TorchSource | ArrayLike | SparseMatrix | AnnData
)
"""Everything that `open_dataset` opens."""


def open_dataset(source: DataLike, **options: object) -> Dataset:
    """Open a data set.

    Args:
        source: One of

            - a name in `DATASETS`; write ./name for a file of the same name,
            - the path of a .npy, .npz, .csv, .tsv, .parquet, .h5ad or .tar file, or of a folder of images, .parquet
              files or .tar files,
            - an array, a tensor or a list of numbers: vectors, signals or images,
            - a sparse matrix of scipy or torch, or an AnnData; all stay sparse,
            - a data frame of pandas, polars, pyarrow or a similar library, or a Dataset of the library datasets,
            - a torch Dataset, IterableDataset or DataLoader; the last two are written to a file once,
            - a Dataset, which is returned unchanged,
            - a table {"name": name or path, option: value, ...}.
        options: Options of the function that opens this kind of source, such as `size` for a folder of images or
            `range` for an array; and for every source of vectors or signals `standardise`: whether models see each
            dimension with mean 0 and variance 1. Items, codes, samples and files stay in the units of the data.

    Returns:
        The data set. If opened from a name or a path, its `source` records that and the options: a run on it, or on
        the results of its `split` and `draw`, opens the same items again.
    """
    found = _opener(source)
    return found.opened(**found.given, **options)


def open_scaled(source: DataLike, scale: PixelScale) -> Dataset:
    """Open data as `open_dataset` does; images in the scale of others, unless they have a range of their own."""
    is_usual = scale.is_unit and scale.integer_white != 1
    return _opener(source).opened_with({} if is_usual else {"range": (scale.black, scale.white)})


def open_as_given(source: DataLike) -> Dataset:
    """Open items for a model of another library, which may be preprocessed for it: see `as_given` of `from_array`."""
    return _opener(source).opened_with({"as_given": True})


@dataclass(frozen=True)
class _Opener:
    """What opens a source.

    Attributes:
        name: What messages call the source.
        open: Opens it; the keyword arguments are options.
        given: The options in the source itself.
        recorded: Whether the name opens the same items again.
    """

    name: str
    open: Callable[..., Dataset]
    given: Mapping[str, object] = field(default_factory=dict)
    recorded: bool = False

    @property
    def known(self) -> list[str]:
        """The names of the options of this source alone."""
        parameters = inspect.signature(self.open, eval_str=True).parameters.values()
        return [name for one in parameters for name in _names(one)]

    def opened_with(self, defaults: Mapping[str, object]) -> Dataset:
        """Open the source with those of the options that it takes and has no value for."""
        taken = {option: value for option, value in defaults.items() if option in self.known}
        return self.opened(**{**taken, **self.given})

    def opened(self, **options: object) -> Dataset:
        """Open the source after checking that it has these options."""
        shared = (STANDARDISE, SUBSET) if self.recorded else (STANDARDISE,)
        own = {option: value for option, value in options.items() if option not in shared}
        standardise = options.get(STANDARDISE, False)
        if not isinstance(standardise, bool):
            raise ConfigurationError(f"{option_name(STANDARDISE)} must be True or False, got {quoted(standardise)}.")
        for option, value in own.items():
            if option not in self.known:
                near = difflib.get_close_matches(option, self.known, n=1)
                hint = f" Did you mean {option_name(near[0])}?" if near else ""
                raise ConfigurationError(
                    f"{option_name(option)} is not an option of {self.name}, which takes "
                    f"{', '.join(map(option_name, self.known)) or 'no options'}. Remove {setting(option, value)}.{hint}"
                )
        found = self.open(**own)
        found = found.standardised() if standardise else found
        if not self.recorded:
            return found
        found = found.from_source(source_of(self.name, {name: options[name] for name in options if name != SUBSET}))
        return take(found, options[SUBSET]) if SUBSET in options else found


def _names(parameter: inspect.Parameter) -> Iterable[str]:
    """The name of a parameter, or those in the `TypedDict` of several."""
    several = parameter.kind is inspect.Parameter.VAR_KEYWORD
    return get_args(parameter.annotation)[0].__annotations__ if several else (parameter.name,)


def _opener(source: DataLike) -> _Opener:
    """What opens a source of any kind."""
    match source:
        case Tensor() if source.layout in SPARSE_LAYOUTS:
            return _Opener("matrix", partial(from_sparse, rows_of(source)))
        case SparseMatrix():  # one of the formats of scipy is a mapping
            return _Opener("matrix", partial(from_sparse, source))
        case Mapping() if isinstance(name := source.get("name"), str | os.PathLike):
            return replace(_opener(name), given={option: value for option, value in source.items() if option != "name"})
        case Dataset():
            return _Opener(source.name, lambda: source)
        case str() if source in DATASETS:
            return _Opener(source, DATASETS[source].open, recorded=True)
        case str() | os.PathLike():
            path = _existing_path(source)
            return _Opener(str(source), partial(opener_of(path), path), recorded=True)
        case torch.utils.data.Dataset() | torch.utils.data.DataLoader():
            return _Opener(type(source).__name__, partial(from_torch_dataset, source))
        case _ if is_anndata(source):
            return _Opener("cells", partial(from_anndata, source))
        case _ if not isinstance(source, ARRAYS) and (table := table_of(source)) is not None:
            return _Opener("a table", partial(open_table, table))
        case _:
            return _Opener("array", partial(from_array, _as_array(source)))


def _existing_path(source: str | os.PathLike[str]) -> Path:
    path = Path(os.path.expanduser(source))
    if source and os.path.lexists(path):
        with reading(path, "a file or folder of data"):
            return path
    near = difflib.get_close_matches(str(source), DATASETS, n=3)
    known = "Correct the path." if path.suffix else f"Known data sets: {', '.join(sorted(DATASETS))}."
    hint = f"Did you mean {' or '.join(near)}?" if near else known
    raise UnknownNameError(f"{str(source)!r} is neither a known data set nor an existing file or folder. {hint}")


def _as_array(source: object) -> np.ndarray | Tensor:
    """An array from a list or from anything that has `__array__`."""
    if isinstance(source, np.ndarray | Tensor):
        return source
    if not isinstance(source, list | tuple) and not hasattr(source, "__array__"):
        raise DataError(
            "data must be a name, a path, an array, a tensor, a sparse matrix, a data frame, an AnnData, a torch "
            f"Dataset or DataLoader or a list of numbers, got {type(source).__name__}."
            f"{MAPPING_ADVICE if isinstance(source, Mapping) else ''}"
        )
    if isinstance(source, list | tuple):
        _check_rows(source)
    try:
        return np.asarray(source)
    except ValueError as error:
        raise DataError("all items of a list must have the same shape, but they differ. Pad or cut them.") from error


def _check_rows(rows: Sequence[object]) -> None:
    """Raise an error if a list holds something other than items, which numpy would describe in its own words."""
    first = rows[0] if rows else None
    if isinstance(first, str | os.PathLike):
        raise DataError(
            f"a list must hold the items themselves, got {quoted(first)}. Pass the folder that contains the files."
        )
    if isinstance(first, Mapping):
        raise DataError(
            f"a list must hold items, got a table with {', '.join(map(repr, first)) or 'no entries'}. Pass it as a "
            "data frame, or as a torch Dataset."
        )
    if isinstance(first, tuple) and len(first) == 2 and np.ndim(first[0]) and not np.ndim(first[1]):
        raise DataError("a list must hold items, got pairs. Pass the labels apart: open_dataset(items, labels=labels).")
