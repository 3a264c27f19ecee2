"""Data sets from files and folders: arrays saved by numpy, tables of numbers, folders of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from vaescope.codes.arrays import ArrayLike
from vaescope.codes.reading import is_number, numpy_archive, read_lines, read_numbers, reading
from vaescope.data.arrays import PROGRESS_BAR_ITEMS, ArrayDataset, from_array
from vaescope.data.file_rows import open_rows
from vaescope.data.images import Size, empty_pixels, height_and_width, probe_image, read_image
from vaescope.errors import DataError
from vaescope.progress import track

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
LARGE_PIXELS = 2**25  # images with more pixels are decoded one at a time
DATA_KEYS = ("images", "imgs", "x", "data", "arr_0")
LABEL_KEYS = ("labels", "y")
FACTOR_KEYS = ("factors", "latents_classes")
CELL_ADVICE = "Correct it, pass label= if the column contains classes, or header=True if line 1 contains names."

Item = TypeVar("Item")
Result = TypeVar("Result")


def opener_of(path: Path) -> Callable[..., ArrayDataset]:
    """The function that opens a folder, or a file with this suffix."""
    if path.is_dir():
        return open_folder
    if path.suffix.lower() not in OPENERS:
        raise DataError(
            f"{path} must be a folder of images or a file of type {', '.join(OPENERS)}, got {path.suffix!r}. "
            "Save the data in one of these formats, or pass an array."
        )
    return OPENERS[path.suffix.lower()]


def open_npy(
    path: Path,
    *,
    labels: ArrayLike | None = None,
    factors: ArrayLike | None = None,
    factor_names: tuple[str, ...] | None = None,
    image: bool | None = None,
) -> ArrayDataset:
    """The rows of an array saved by numpy; they stay on disk and are read by the batch."""
    return from_array(
        open_rows(path), str(path), labels=labels, factors=factors, factor_names=factor_names, image=image
    )


def open_npz(
    path: Path,
    *,
    key: str | None = None,
    labels: str | Literal[False] | None = None,
    factors: str | Literal[False] | None = None,
    factor_names: tuple[str, ...] | None = None,
    image: bool | None = None,
) -> ArrayDataset:
    """One array of a numpy archive, with labels and factors from the same archive.

    Args:
        key: The array of the items. Default: the only array that is neither labels nor factors, or the only one
            called images, imgs, x, data or arr_0.
        labels: The array of the labels, or False for none. Default: the array called labels or y, if there is one.
        factors: The array of the factors, or False for none. Default: the array called factors or latents_classes,
            if there is one.
        factor_names, image: As in `from_array`.
    """
    with numpy_archive(path) as archive:
        keys = [name for name in archive.files if name != key]
        label_key = _optional_key(path, keys, LABEL_KEYS, labels, "labels")
        factor_key = _optional_key(path, keys, FACTOR_KEYS, factors, "factors")
        data_key = _data_key(path, archive.files, key, {label_key, factor_key})
        rows = archive[data_key]
        label_rows = None if label_key is None else archive[label_key]
        factor_rows = None if factor_key is None else archive[factor_key]
    return from_array(rows, str(path), labels=label_rows, factors=factor_rows, factor_names=factor_names, image=image)


def open_csv(path: Path, *, label: str | int | None = None, header: bool | None = None) -> ArrayDataset:
    """A table of numbers, one item per line, separated by commas, semicolons or tabs.

    Args:
        label: The column of the labels, by name or by number from 1. Words are numbered in alphabetical order.
        header: Whether the first line contains names. Default: True if none of its cells is a number; required if
            the cells are 0, 1, 2, ..., which may be names or an item.
    """
    with reading(path, "a table of numbers in UTF-8"):
        first = [cells for _, cells in islice(read_lines(path), 2)]
        if not first:
            raise DataError(f"{path} must contain one line for each item, got an empty file.")
        header = _has_header(path, first[0]) if header is None else header
        if header and (len(first) < 2 or len(first[0]) != len(first[1])):
            raise DataError(
                f"{path}: the header must have one name for each column, got {len(first[0])} names and "
                f"{len(first[1]) if len(first) > 1 else 'no'} columns. Correct or remove the header."
            )
        column = None if label is None else _column(path, label, first[0])
        table, words = read_numbers(path, header=header, text_column=column, advice=CELL_ADVICE)
    if column is None:
        return from_array(table, str(path))
    texts = np.array(words)[table[:, column].astype(np.int64)]
    numbered = all(map(is_number, words))
    labels = texts.astype(np.float64) if numbered else np.unique(texts, return_inverse=True)[1]
    return from_array(np.delete(table, column, axis=1), str(path), labels=labels)


def open_folder(path: Path, *, size: Size | None = None, colour: bool | None = None) -> ArrayDataset:
    """The PNG and JPEG images of a folder, sorted by name; if they are in subfolders, each subfolder is a class.

    Args:
        size: Resize the images to (height, width), or to a square. Default: their common size.
        colour: True for 3 channels, False for 1. Default: 3 if any image is in colour.
    """
    with reading(path, "a folder of images"):
        paths, labels = _image_paths(path)
    if size is None or colour is None:
        probes = list(_map_in_threads(probe_image, paths, f"checking {path}"))
        colour = any(in_colour for in_colour, _ in probes) if colour is None else colour
        size = _common_size(path, paths, [shape for _, shape in probes]) if size is None else size
    pixels = empty_pixels(str(path), (len(paths), 3 if colour else 1, *height_and_width(size)))

    def read(position: int, max_pixels: float = LARGE_PIXELS) -> bool:
        image = read_image(paths[position], colour=bool(colour), size=size, max_pixels=max_pixels)
        if image is not None:
            pixels[position] = image
        return image is not None

    # Large images come last and one at a time, because each thread keeps the memory of the largest that it decoded.
    was_read = list(_map_in_threads(read, range(len(paths)), f"reading {path}"))
    for position in [position for position, done in enumerate(was_read) if not done]:
        read(position, math.inf)
    return from_array(pixels, str(path), labels=labels)


OPENERS: dict[str, Callable[..., ArrayDataset]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".csv": open_csv,
    ".tsv": open_csv,
}


def _map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], title: str) -> Iterator[Result]:
    """The results in order; threads help because decoding an image releases Python's lock."""
    with ThreadPoolExecutor() as pool:
        yield from track(pool.map(function, items), title, len(items), long=len(items) > PROGRESS_BAR_ITEMS)


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
        f"{'' if asked is None else f' and key={asked!r}'}. Name it with key=."
    )


def _has_header(path: Path, cells: list[str]) -> bool:
    """Whether none of the cells in the first line is a number."""
    if cells == [str(number) for number in range(len(cells))]:
        raise DataError(
            f"{path}: line 1 counts from 0 to {len(cells) - 1}, which may be the names of the columns or an item. Pass "
            "header=True if they are names, or header=False."
        )
    return not any(map(is_number, cells))


def _column(path: Path, label: str | int, names: list[str]) -> int:
    """The position of the label column, given by its name in the first line or by its number from 1."""
    if label in names:
        return names.index(str(label))
    if str(label).isdecimal() and 1 <= int(label) <= len(names):
        return int(label) - 1
    raise DataError(
        f"{path}: label must be the number of a column, 1 to {len(names)}, or its name in the first line "
        f"({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}), got {label!r}."
    )


def _image_paths(folder: Path) -> tuple[list[Path], np.ndarray | None]:
    """The images of a folder in order and, if they are in subfolders, the number of the subfolder of each."""
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
    return list(chain.from_iterable(classes)), np.repeat(np.arange(len(classes)), [len(images) for images in classes])


def _images_in(folder: Path) -> list[Path]:
    """The image files sorted by name, broken links and pipes too; hidden files are metadata of other programs."""
    return sorted(
        child
        for child in folder.iterdir()
        if child.suffix.lower() in IMAGE_SUFFIXES and child.name[0] != "." and not child.is_dir()
    )


def _common_size(folder: Path, paths: list[Path], sizes: list[tuple[int, int]]) -> tuple[int, int]:
    for path, size in zip(paths, sizes, strict=True):
        if size != sizes[0]:
            raise DataError(
                f"{folder}: all images must have the same size, but {paths[0].name} is {sizes[0][0]} x {sizes[0][1]} "
                f"and {path.name} is {size[0]} x {size[1]} (height x width). Pass size= to resize them."
            )
    return sizes[0]
