"""Data sets from files and folders: arrays saved by numpy, tables of numbers, folders of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Literal, Unpack
from zipfile import BadZipFile

import numpy as np

from vaescope.codes.arrays import ArrayLike
from vaescope.codes.reading import is_number, numpy_archive, read_lines, read_numbers, reading
from vaescope.data.annotations import Annotation, Files, annotate_folder
from vaescope.data.arrays import ArrayDataset, RowOptions, from_array
from vaescope.data.cells import open_h5ad
from vaescope.data.columns import PARQUET_SUFFIX, Table, check_lines, column_names, read_parquet, words_at
from vaescope.data.dataset import Dataset, Missing
from vaescope.data.file_rows import open_rows
from vaescope.data.image_sets import read_images
from vaescope.data.images import Size
from vaescope.data.labels import Labels
from vaescope.data.sources import keyword, passing, setting
from vaescope.data.sparse import SparseDataset, from_sparse
from vaescope.data.tables import ColumnName, Filling, Selection, from_table
from vaescope.data.tar_shards import open_shards, shards_in
from vaescope.errors import DataError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
DATA_KEYS = ("images", "imgs", "x", "data", "arr_0")
LABEL_KEYS = ("labels", "y")
FACTOR_KEYS = ("factors", "latents_classes")


def opener_of(path: Path) -> Callable[..., Dataset]:
    """The function that opens a folder, or a file with this suffix."""
    if path.is_dir():
        with reading(path, "a folder of data"):
            return open_shards if shards_in(path) else open_parquet if _parquet_files(path) else open_folder
    if path.suffix.lower() not in OPENERS:
        raise DataError(
            f"{path} must be a folder of images or tar files, or a file of type {', '.join(OPENERS)}, got "
            f"{path.suffix!r}. Save the data in one of these formats, or pass an array."
        )
    if path.suffix.lower() == ".npz" and _is_sparse(path):
        return open_sparse
    return OPENERS[path.suffix.lower()]


def open_npy(
    path: Path,
    *,
    labels: Annotation | None = None,
    factors: Annotation | None = None,
    factor_names: tuple[str, ...] | None = None,
    **rows: Unpack[RowOptions],
) -> ArrayDataset:
    """The rows of an array saved by numpy; they stay on disk and are read by the batch.

    The options are those of `from_array`.
    """
    return from_array(open_rows(path), str(path), labels=labels, factors=factors, factor_names=factor_names, **rows)


def open_npz(
    path: Path,
    *,
    key: str | None = None,
    labels: str | Literal[False] | None = None,
    factors: str | Literal[False] | None = None,
    factor_names: tuple[str, ...] | None = None,
    **rows: Unpack[RowOptions],
) -> ArrayDataset:
    """One array of a numpy archive, with labels and factors from the same archive.

    Args:
        key: The array of the items. Default: the only array that is neither labels nor factors, or the only one
            called images, imgs, x, data or arr_0.
        labels: The array of the labels, or False for none. Default: the array called labels or y, if there is one.
        factors: The array of the factors, or False for none. Default: the array called factors or latents_classes,
            if there is one.
        factor_names, rows: As in `from_array`.
    """
    with numpy_archive(path) as archive:
        keys = [name for name in archive.files if name != key]
        label_key = _optional_key(path, keys, LABEL_KEYS, labels, "labels")
        factor_key = _optional_key(path, keys, FACTOR_KEYS, factors, "factors")
        data_key = _data_key(path, archive.files, key, {label_key, factor_key})
        items = archive[data_key]
        classes, codes = (None if one is None else archive[one] for one in (label_key, factor_key))
    return from_array(items, str(path), labels=classes, factors=codes, factor_names=factor_names, **rows)


def open_sparse(
    path: Path,
    *,
    labels: Annotation | None = None,
    factors: Annotation | None = None,
    factor_names: tuple[str, ...] | None = None,
) -> SparseDataset:
    """A sparse matrix that `scipy.sparse.save_npz` saved; the options are those of `from_sparse`."""
    from scipy.sparse import load_npz

    with reading(path, "a whole sparse matrix saved by scipy.sparse.save_npz", BadZipFile):
        matrix = load_npz(path)
    return from_sparse(matrix, str(path), labels=labels, factors=factors, factor_names=factor_names)


def open_csv(
    path: Path,
    *,
    label: ColumnName | None = None,
    factors: ColumnName | Sequence[ColumnName] | ArrayLike | None = None,
    columns: ColumnName | Sequence[ColumnName] | None = None,
    drop: ColumnName | Sequence[ColumnName] | None = None,
    missing: Filling | Missing | None = None,
    header: bool | None = None,
) -> ArrayDataset:
    """A table with one item per line, separated by commas, semicolons or tabs.

    Args:
        label, factors, columns, drop, missing: See `Selection`; columns are given by name or by number from 1.
        header: Whether the first line contains names. Default: True if none of its cells is a number; required if
            the cells are 0, 1, 2, ..., which may be names or an item.
    """
    selection = Selection(label, factors, columns, drop, missing)
    with reading(path, "a table in UTF-8"):
        first = [cells for _, cells in islice(read_lines(path), 2)]
        header = bool(first) and _has_header(path, first[0]) if header is None else header
        check_lines(path, first, header)
        names = column_names(first[0] if header else [f"column {place + 1}" for place in range(len(first[0]))])
        texts, ignored = selection.of_any_kind(names, str(path))
        numbers, words = read_numbers(
            path, header=header, text_columns=texts, ignored=ignored, missing=True, advice=_cell_advice(header)
        )
    table = {
        name: words_at(words[place], numbers[:, place]) if place in words else numbers[:, place]
        for place, name in enumerate(names)
    }
    return from_table(Table(table), str(path), selection)


def open_parquet(
    path: Path,
    *,
    label: ColumnName | None = None,
    factors: ColumnName | Sequence[ColumnName] | ArrayLike | None = None,
    columns: ColumnName | Sequence[ColumnName] | None = None,
    drop: ColumnName | Sequence[ColumnName] | None = None,
    missing: Filling | Missing | None = None,
    size: Size | None = None,
    colour: bool | None = None,
    image: bool | None = None,
) -> ArrayDataset:
    """A parquet file, or a folder of such files in the order of their names; see `open_table`."""
    with reading(path, "a parquet file or a folder of them"):
        paths = _parquet_files(path) if path.is_dir() else [path]
    selection = Selection(label, factors, columns, drop, missing)
    return from_table(read_parquet(paths), str(path), selection, size=size, colour=colour, image=image)


def open_folder(
    path: Path,
    *,
    size: Size | None = None,
    colour: bool | None = None,
    labels: Annotation | Literal[False] | None = None,
    factors: Annotation | Literal[False] | None = None,
) -> ArrayDataset:
    """The PNG and JPEG images of a folder, sorted by name; if they are in subfolders, each subfolder is a class.

    Args:
        size: Resize the images to (height, width), or to a square. Default: their common size.
        colour: True for 3 channels, False for 1. Default: 3 if any image is in colour.
        labels: The path of a table, a data frame or a list, in the order of the images or with a column of file names.
            Default: labels.csv in the folder, if there is one, or else the subfolders; False for none.
        factors: The same, or a pattern of file names such as 'shape{shape}_scale{scale}.png'. Default: factors.csv in
            the folder, if there is one; False for none.
    """
    with reading(path, "a folder of images"):
        paths, classes = _image_paths(path)
    files = Files(path, tuple(PurePosixPath(image.relative_to(path).as_posix()) for image in paths))
    found = annotate_folder(str(path), files, classes, labels, factors)
    pixels = read_images(str(path), [(image, None) for image in paths], size, colour)
    return from_array(pixels, str(path), labels=found.labels, factors=found.factors, factor_names=found.factor_names)


OPENERS: dict[str, Callable[..., Dataset]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".csv": open_csv,
    ".tsv": open_csv,
    PARQUET_SUFFIX: open_parquet,
    ".tar": open_shards,
    ".h5ad": open_h5ad,
}


def _is_sparse(path: Path) -> bool:
    """Whether an archive holds the parts of a sparse matrix of scipy."""
    with numpy_archive(path) as archive:
        return {"format", "shape", "data"} <= set(archive.files)


def _cell_advice(header: bool) -> str:
    """What to do about a cell that is no number."""
    names = "" if header else f", or {setting('header', True)} if line 1 contains names"
    return (
        f"Correct it, or pass {passing('drop', 'COLUMN')} to leave the column out, or name it in "
        f"{keyword('label')} or {keyword('factors')} if it contains classes{names}."
    )


def _optional_key(
    path: Path, keys: list[str], usual: tuple[str, ...], asked: str | Literal[False] | None, what: str
) -> str | None:
    """The key of the labels or factors in an archive, or None."""
    if asked is False:
        return None
    found = [name for name in keys if (name in usual if asked is None else name == asked)]
    if len(found) > 1 or (asked is not None and not found):
        raise DataError(
            f"{path}: {what} must be one of the arrays {', '.join(keys)}, or False for none, got {asked!r}."
        )
    return found[0] if found else None


def _data_key(path: Path, keys: list[str], asked: str | None, taken: set[str | None]) -> str:
    free = [name for name in keys if name not in taken and asked in (None, name)]
    named = [name for name in free if name in DATA_KEYS]
    for candidates in (free, named):
        if len(candidates) == 1:
            return candidates[0]
    raise DataError(
        f"{path}: one array of the archive must contain the items, got {', '.join(keys) or 'an empty archive'}"
        f"{'' if asked is None else f' and key={asked!r}'}. Pass {passing('key', 'NAME')} to name it."
    )


def _has_header(path: Path, cells: list[str]) -> bool:
    """Whether none of the cells in the first line is a number."""
    if cells == [str(number) for number in range(len(cells))]:
        raise DataError(
            f"{path}: line 1 counts from 0 to {len(cells) - 1}, which may be the names of the columns or an item. Pass "
            f"{passing('header', True)} if they are names, or false."
        )
    return not any(map(is_number, cells))


def _parquet_files(folder: Path) -> list[Path]:
    """The parquet files of a folder, sorted by name."""
    return sorted(child for child in folder.iterdir() if child.suffix.lower() == PARQUET_SUFFIX)


def _image_paths(folder: Path) -> tuple[list[Path], Labels | None]:
    """The images of a folder in order and, if they are in subfolders, the subfolder of each as its label."""
    direct = _images_in(folder)
    subfolders = sorted(child for child in folder.iterdir() if child.is_dir() and child.name[0] != ".")
    classes = [images for images in map(_images_in, subfolders) if images]
    if direct and classes:
        raise DataError(
            f"{folder}: images must be in the folder or in one subfolder for each class, got both: "
            f"{direct[0].name} and {classes[0][0].relative_to(folder).as_posix()}. Move one of the two."
        )
    if not direct and not classes:
        raise DataError(
            f"{folder} must contain images ({', '.join(IMAGE_SUFFIXES)}), directly or in its subfolders, got none. "
            "Pass the folder that contains them."
        )
    if direct:
        return direct, None
    numbers = np.repeat(np.arange(len(classes)), [len(images) for images in classes])
    return list(chain.from_iterable(classes)), Labels(numbers, tuple(images[0].parent.name for images in classes))


def _images_in(folder: Path) -> list[Path]:
    """The image files sorted by name, broken links and pipes too; hidden files are metadata of other programs."""
    return sorted(
        child
        for child in folder.iterdir()
        if child.suffix.lower() in IMAGE_SUFFIXES and child.name[0] != "." and not child.is_dir()
    )
