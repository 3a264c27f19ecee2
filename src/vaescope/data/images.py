"""Reading and resizing pixels: uint8 arrays of channels x height x width."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from vaescope.checks import is_whole
from vaescope.codes.reading import parsing, reading
from vaescope.data.sources import option_name
from vaescope.errors import ConfigurationError
from vaescope.memory import check_memory

# Pillow opens any format that it supports, whatever the suffix; for EPS it starts Ghostscript.
# A file of several JPEGs (MPO) is opened as its first one by the plugin for JPEG.
FORMATS = ("PNG", "JPEG")
GREY_MODES = frozenset({"1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"})
# Only cameras store a rotation in the metadata, and only in these formats can it be read without the pixels.
CAMERA_FORMATS = frozenset({"JPEG", "MPO"})
EXIF_ORIENTATION = 0x0112

MAX_SIDE = 2**31 - 1  # of Pillow
HUGE_PIXELS = 2**27  # JPEGs with more pixels are shrunk while they are decoded, if they are resized

Size = int | tuple[int, int]


def resize(pixels: np.ndarray, size: Size) -> np.ndarray:
    """Resize images (items x channels x height x width, uint8), bilinear with antialiasing.

    `size` is (height, width), or one number for a square.
    """
    height, width = height_and_width(size)
    if pixels.shape[2:] == (height, width):
        return pixels
    resized = empty_pixels("images", (*pixels.shape[:2], height, width))
    for item_and_channel in np.ndindex(pixels.shape[:2]):
        plane = Image.fromarray(np.ascontiguousarray(pixels[item_and_channel]))
        resized[item_and_channel] = np.asarray(plane.resize((width, height), Image.Resampling.BILINEAR))
    return resized


def read_image(
    path: Path,
    content: bytes | None = None,
    *,
    colour: bool,
    size: Size | None = None,
    max_pixels: float = math.inf,
) -> np.ndarray | None:
    """An image in a file, or in `content`, as channels x height x width, upright, with transparent pixels black.

    None if it has more than `max_pixels`.
    """
    target = None if size is None else height_and_width(size)
    with open_image(path, content) as image:
        pixels = image.width * image.height
        if pixels > max_pixels:
            return None
        if target is not None and pixels > HUGE_PIXELS:
            image.draft(None, (2 * max(target), 2 * max(target)))
        image.load()
        upright = ImageOps.exif_transpose(image) if image.format in CAMERA_FORMATS else image
        return pixels_of(upright, colour=colour, size=target)


def pixels_of(image: Image.Image, *, colour: bool, size: tuple[int, int] | None = None) -> np.ndarray:
    """A loaded image as channels x height x width, with transparent pixels black."""
    mode, flat = "RGB" if colour else "L", _flattened(image)
    flat = flat if flat.mode == mode else flat.convert(mode)
    if size is not None and flat.size != size[::-1]:
        flat = flat.resize(size[::-1], Image.Resampling.BILINEAR)
    values = np.asarray(flat)
    return np.ascontiguousarray(np.moveaxis(values, -1, 0)) if colour else values[None]


def probe_image(path: Path, content: bytes | None = None) -> tuple[bool, tuple[int, int]]:
    """Whether an image in a file, or in `content`, is in colour, and its (height, width); reads the header only."""
    with open_image(path, content) as image:
        width, height = image.size
        sideways = image.format in CAMERA_FORMATS and image.getexif().get(EXIF_ORIENTATION) in (5, 6, 7, 8)
        return image.mode not in GREY_MODES, (width, height) if sideways else (height, width)


def empty_pixels(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Memory for images (items x channels x height x width), if there is enough."""
    what = f"{name}: {shape[0]} images of {' x '.join(map(str, shape[1:]))} pixels"
    check_memory(what, math.prod(shape), "Choose a smaller size, or save them as one .npy file, which stays on disk.")
    return np.empty(shape, np.uint8)


def height_and_width(size: Size) -> tuple[int, int]:
    """A size, given as one number or as (height, width), as (height, width)."""
    pair = tuple(size) if isinstance(size, list | tuple) else (size, size)
    if len(pair) != 2 or not all(is_whole(side, 1) and side <= MAX_SIDE for side in pair):
        raise ConfigurationError(
            f"{option_name('size')} must be a positive number of pixels or (height, width), got {size!r}."
        )
    return int(pair[0]), int(pair[1])


@contextmanager
def open_image(path: Path, content: bytes | None = None) -> Iterator[Image.Image]:
    """An image in a file, or in `content`; what Pillow raises inside the block becomes a `DataError`."""
    what = f"a readable image, PNG or JPEG, of at most {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
    errors, file = (reading, path) if content is None else (parsing, io.BytesIO(content))
    with errors(path, what, Image.DecompressionBombError):
        try:
            opened = Image.open(file, formats=FORMATS)
        except UnidentifiedImageError as error:
            # Pillow's own words would have the address of the bytes.
            raise ValueError(f"cannot identify image file {str(path)!r}") from error
        with opened as image:
            yield image


def _flattened(image: Image.Image) -> Image.Image:
    """The image in 8 bits and opaque; Pillow's conversion clips 16 bits and shows the colour of transparent pixels."""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        covered = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", covered.size, "black"), covered)
    return image
