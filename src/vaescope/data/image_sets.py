"""Many images, in files or in memory, as one array of pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from jaxtyping import UInt8

from vaescope.data.arrays import PROGRESS_BAR_ITEMS
from vaescope.data.images import Size, empty_pixels, height_and_width, probe_image, read_image
from vaescope.data.sources import check_flag, passing
from vaescope.errors import DataError
from vaescope.progress import track

LARGE_PIXELS = 2**25  # images with more pixels are decoded one at a time

ImageFile: TypeAlias = tuple[Path, bytes | None]
"""The path of an image, and its content if it is in memory."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_images(
    name: str, files: Sequence[ImageFile], size: Size | None, colour: bool | None
) -> UInt8[np.ndarray, "items channels height width"]:
    """The pixels of all images.

    Args:
        size: Resize the images to (height, width), or to a square. Default: their common size.
        colour: True for 3 channels, False for 1. Default: 3 if any image is in colour.
    """
    check_flag("colour", colour)
    if size is None or colour is None:
        probes = list(_map_in_threads(lambda file: probe_image(*file), files, f"checking {name}"))
        colour = any(in_colour for in_colour, _ in probes) if colour is None else colour
        size = _common_size(name, files, [shape for _, shape in probes]) if size is None else size
    pixels = empty_pixels(name, (len(files), 3 if colour else 1, *height_and_width(size)))

    def read(position: int, max_pixels: float = LARGE_PIXELS) -> bool:
        image = read_image(*files[position], colour=bool(colour), size=size, max_pixels=max_pixels)
        if image is not None:
            pixels[position] = image
        return image is not None

    # Large images come last and one at a time, because each thread keeps the memory of the largest that it decoded.
    was_read = list(_map_in_threads(read, range(len(files)), f"reading {name}"))
    for position in [position for position, done in enumerate(was_read) if not done]:
        read(position, math.inf)
    return pixels


def _map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], title: str) -> Iterator[Result]:
    """The results in order; threads help because decoding an image releases Python's lock."""
    with ThreadPoolExecutor() as pool:
        yield from track(pool.map(function, items), title, len(items), long=len(items) > PROGRESS_BAR_ITEMS)


def _common_size(name: str, files: Sequence[ImageFile], sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    for (path, _), size in zip(files, sizes, strict=True):
        if size != sizes[0]:
            raise DataError(
                f"{name}: all images must have the same size, but {files[0][0].name} is {sizes[0][0]} x {sizes[0][1]} "
                f"and {path.name} is {size[0]} x {size[1]} (height x width). Pass {passing('size', 64)} to resize them."
            )
    return sizes[0]
