"""Torch data sets, streams and loaders: a data set is read into memory, a stream or a loader is written to a file."""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeAlias, Unpack

import numpy as np
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data import Dataset as TorchDataset

from vaescope.checks import whole_number
from vaescope.codes.reading import MISSING, is_number
from vaescope.data.arrays import PROGRESS_BAR_ITEMS, ArrayDataset, RowOptions, from_array
from vaescope.data.cache import user_cache
from vaescope.data.entries import EntryReader
from vaescope.data.file_rows import open_rows
from vaescope.data.sources import Source, source_of
from vaescope.data.stored_rows import store_rows, store_rows_as
from vaescope.errors import DataError, DataWarning
from vaescope.files import write_atomically
from vaescope.memory import check_memory
from vaescope.progress import progress_bar
from vaescope.tables import FORMULA_STARTS, csv_text

TorchSource: TypeAlias = TorchDataset[object] | DataLoader[object]

CACHE_FOLDER = "streams"
UNBOUNDED_ITEMS = 10_000  # after which a warning says that a stream may have no end
CHECKED_BYTES = 2**28  # after which the free space of the disk is checked again
MIN_FREE_BYTES = 2**30  # which a stream leaves on the disk


def from_torch_dataset(
    dataset: TorchSource,
    name: str | None = None,
    *,
    key: str | None = None,
    label_key: str | Literal[False] | None = None,
    items: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    batched: bool | None = None,
    as_given: bool = False,
    **rows: Unpack[RowOptions],
) -> ArrayDataset:
    """The items of a torch Dataset, an IterableDataset or a DataLoader, read once, in their order.

    A Dataset with a length is read into memory. A stream or a loader is written to a .npy file in the user cache, whose
    name contains a hash of its content: the same content uses the same file again.

    Args:
        dataset: Gives items (arrays, tensors, pictures of Pillow), pairs (item, label), named tuples, or tables such
            as {"image": ..., "label": ...}. Labels are whole numbers from 0 or words.
        key, label_key: The names of the item and of the label in a table. Default: the usual name, such as image, x,
            label or y; label_key=False for no labels.
        items: Maximum number of items; a stream without end needs it.
        cache: The .npy file to write; labels are written next to it. Default: a file in the user cache for streams and
            loaders, else memory.
        batched: Whether each entry is a batch. Default: True for a DataLoader that makes batches.
        as_given, rows: As in `from_array`.
    """
    name = type(dataset).__name__ if name is None else name
    limit = None if items is None else whole_number("items", items, 1)
    if isinstance(dataset, DataLoader):
        batched = dataset.batch_sampler is not None if batched is None else batched
        _warn_if_shuffled(dataset, name)
    reader, length = EntryReader(name, key, label_key, bool(batched)), _length(dataset, limit)
    read = _tracked(islice(reader.items(_entries(dataset, name)), limit), name, length)
    first = next(read, None)
    if first is None:
        raise DataError(f"{name} must give at least one item, but it gave none. A stream can often be read only once.")
    arrays = chain([first], read)
    path: Path | None = None
    if length is None or cache is not None or batched or isinstance(dataset, IterableDataset | DataLoader):
        path = _stored(arrays, name, first, cache).absolute()
        array = open_rows(path)
    else:
        array = _in_memory(arrays, name, first, length)
    found = from_array(array, name, labels=reader.labels or None, as_given=as_given, **rows)
    if path is None or as_given:
        return found
    given = {option: value for option, value in rows.items() if value is not None}
    return found.from_source(_source(path, reader.labels, given))


def _entries(dataset: TorchSource, name: str) -> Iterator[object]:
    if isinstance(dataset, IterableDataset | DataLoader):
        return iter(dataset)
    if not isinstance(dataset, Sized):
        raise DataError(f"{name}: a torch Dataset must have a length, or be an IterableDataset. Define __len__.")
    return (dataset[position] for position in range(len(dataset)))


def _length(dataset: TorchSource, limit: int | None) -> int | None:
    """The number of items, where it is known before they are read."""
    whole = dataset.dataset if isinstance(dataset, DataLoader) else dataset
    known = [count for count in (len(whole) if isinstance(whole, Sized) else None, limit) if count is not None]
    return min(known, default=None)


def _warn_if_shuffled(loader: DataLoader[object], name: str) -> None:
    batches = loader.batch_sampler
    sampler = batches.sampler if isinstance(batches, BatchSampler) else loader.sampler
    if isinstance(sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler):
        warnings.warn(
            f"{name} shuffles: its items keep the order of this pass, and the next pass will be another data set, with "
            "other runs. Pass shuffle=False to reuse the file and its runs; training shuffles the items itself.",
            DataWarning,
            stacklevel=5,
        )


def _tracked(rows: Iterable[np.ndarray], name: str, total: int | None) -> Iterator[np.ndarray]:
    long = total is None or total > PROGRESS_BAR_ITEMS
    with progress_bar(f"reading {name}", total, None if long else False) as report:
        for done, row in enumerate(rows, 1):
            if total is None and done == UNBOUNDED_ITEMS:
                warnings.warn(
                    f"{name} has no length and has given {done:,} items so far, which are written to the disk. Stop it "
                    "and pass items=NUMBER to open_dataset if it does not end.",
                    DataWarning,
                    stacklevel=2,
                )
            yield row
            report(done)


def _in_memory(rows: Iterable[np.ndarray], name: str, first: np.ndarray, items: int) -> np.ndarray:
    advice = "Pass cache=FILE.npy to write them to a file, or items=NUMBER to read fewer."
    check_memory(f"{name}: {items} items", items * first.nbytes, advice)
    array = np.empty((items, *first.shape), first.dtype)
    for position, row in enumerate(rows):
        array[position] = row
    return array


def _stored(rows: Iterable[np.ndarray], name: str, first: np.ndarray, cache: str | os.PathLike[str] | None) -> Path:
    """The file with the rows, named by the user or by their hash."""
    if cache is not None:
        target = Path(os.path.expanduser(cache))
        return store_rows_as(_while_space(rows, name, target.parent), target)
    folder = user_cache(CACHE_FOLDER)
    if folder is None:
        raise DataError(f"{name}: writing its items needs the package pooch or a file. Pass cache=FILE.npy.")
    kind = "x".join(map(str, (first.dtype.str.lstrip("<>|="), *first.shape)))
    return store_rows(_while_space(rows, name, folder), folder, f"items-{kind}")


def _source(path: Path, labels: list[int | str], options: Mapping[str, object]) -> Source | None:
    """What opens the same items and labels again: the file with options, and a table of the labels next to it."""
    if not labels:
        return source_of(str(path), options)
    if not all(map(_is_plain, labels)):
        return None
    text = csv_text([{"label": label} for label in labels]).encode()
    table = path.with_name(f"{path.stem}.labels-{hashlib.sha256(text).hexdigest()[:16]}.csv")
    if not table.exists():
        write_atomically(table, text)
    return source_of(str(path), {**options, "labels": str(table)})


def _is_plain(label: int | str) -> bool:
    """Whether a .csv file gives the label back: words that look like anything else are changed."""
    if isinstance(label, int):
        return True
    changed = is_number(label) or label.casefold() in MISSING or label.startswith(FORMULA_STARTS)
    return label == label.strip() and not changed


def _while_space(rows: Iterable[np.ndarray], name: str, folder: Path) -> Iterator[np.ndarray]:
    """The rows, each as a block of one, until the disk is nearly full."""
    written = checked = 0
    for row in rows:
        yield row[None]
        written += row.nbytes
        if written - checked >= CHECKED_BYTES:
            checked = written
            if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
                raise DataError(
                    f"{name} must fit on the disk of {folder}, which is nearly full after {written / 1e9:,.1f} GB. "
                    "Free some space, pass cache=FILE.npy on another disk, or items=NUMBER if it does not end."
                )
