"""Items as pictures inside a page: images as PNG, vectors and signals as lines, counts as small bars."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from vaescope.data.dataset import UNIT_RANGE
from vaescope.errors import DataError
from vaescope.markup import Markup, element

HEIGHT = 48  # pixels on the page; images are enlarged by a whole factor, or reduced, to about this height
MAX_PIXELS = 96  # per side of an image; larger images are reduced to keep the page small
GAP, WHITE = 1, 255
LINES_SIZE, HISTOGRAM_SIZE = (320, 56), (96, 28)  # width and height on the page
MAX_LINES = 8  # channels of a signal that are drawn, one below the other
EDGE = 2  # margin in pixels that keeps lines inside their picture
PICTURE_CHANNELS = (1, 3)  # of images that are drawn as they are; of others, the mean over channels is drawn
LIGHT, DARK = (91, 155, 208), (6, 36, 63)  # colours of the first and the last line

ItemArray = npt.ArrayLike | Tensor


def picture(item: ItemArray, shape: Sequence[int], alt: str, *, limits: tuple[float, float] | None = None) -> Markup:
    """One item as a picture."""
    return picture_grid(np.asarray(item)[None], shape, alt, columns=1, limits=limits)


def strip(items: ItemArray, shape: Sequence[int], alt: str, *, limits: tuple[float, float] | None = None) -> Markup:
    """Items in one row; see `picture_grid`."""
    return picture_grid(items, shape, alt, columns=len(np.asarray(items)), limits=limits)


def picture_grid(
    items: ItemArray, shape: Sequence[int], alt: str, *, columns: int, limits: tuple[float, float] | None = None
) -> Markup:
    """Images in rows of `columns`; vectors and signals as lines in one picture, from light (first) to dark (last).

    Args:
        items: The items, flat or in their shape.
        shape: The shape of one item: (channels, height, width), (channels, length) or (dimensions,).
        alt: The alternative text.
        columns: The number of images in a row.
        limits: Of lines, the range of the y axis; default: the range of the values. Of images, the values that are
            black and white; default: 0 and 1.
    """
    table = _checked(items, shape)
    if len(shape) < 3:
        lines = table.reshape(len(table), -1, shape[-1])
        return _lines_svg(lines[:, :MAX_LINES], _with_words(alt, shape), limits)
    pixels = reduced(levels(table, limits or UNIT_RANGE), MAX_PIXELS)
    grid = _tile(pixels, columns)
    # A whole factor for small images, so that all pixels have the same size.
    scale = HEIGHT / pixels.shape[1]
    scale = round(scale) if scale >= 1.5 else scale
    height, width = grid.shape[:2]
    return element(
        "img",
        src=png_address(grid),
        alt=_with_words(alt, shape),
        width=round(width * scale),
        height=round(height * scale),
        class_="picture pixels" if scale > 1 else "picture",
    )


def drawn_words(shape: Sequence[int]) -> str:
    """What a picture shows of an item of this shape; empty if it shows everything."""
    if len(shape) == 3 and shape[0] not in PICTURE_CHANNELS:
        return f"mean over {shape[0]} channels"
    if len(shape) == 2 and shape[0] > MAX_LINES:
        return f"first {MAX_LINES} of {shape[0]} channels"
    return ""


def drawn_note(shape: Sequence[int]) -> str:
    """The same as a sentence."""
    words = drawn_words(shape)
    return f"Pictures show the {words}." if words else ""


def histogram_svg(counts: Int[np.ndarray, "bins"] | Sequence[int], title: str) -> Markup:
    """Bars of equal width, scaled to the highest count; the title names them and their range."""
    width, height = HISTOGRAM_SIZE
    values = [int(count) for count in counts]
    step, unit = width / max(1, len(values)), (height - 1) / max([1, *values])
    bars = [
        # At least one pixel high, so that rare values stay visible.
        f"M{place * step:.2f} {height - 1}v{-max(1.0, count * unit):.2f}h{step - 0.5:.2f}V{height - 1}z"
        for place, count in enumerate(values)
        if count > 0
    ]
    base = element("path", d=f"M0 {height - 0.5}h{width}", class_="base")
    return _svg(title, HISTOGRAM_SIZE, [element("path", d="".join(bars), class_="bars"), base], "histogram")


def histogram_counts(values: ItemArray, limits: tuple[float, float], bins: int) -> tuple[int, ...]:
    """Count the values in equal bins between the limits; the last bin includes the upper limit."""
    return tuple(np.histogram(np.asarray(values, dtype=np.float64), bins=bins, range=limits)[0].tolist())


def value_range(tables: Iterable[ItemArray]) -> tuple[float, float]:
    """The smallest and the largest number of tables, missing values aside; 0 if there is none."""
    numbers = np.concatenate([np.ravel(np.asarray(table)) for table in tables])
    known = numbers[~np.isnan(numbers)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _with_words(alt: str, shape: Sequence[int]) -> str:
    words = drawn_words(shape)
    return f"{alt} ({words})" if words else alt


def _checked(items: ItemArray, shape: Sequence[int]) -> Float[np.ndarray, "items ..."]:
    table = np.asarray(items, dtype=np.float64)
    if len(shape) not in (1, 2, 3) or table.size != len(table) * math.prod(shape):
        raise DataError(
            f"pictures need items of shape {tuple(shape)}, an image (channels, height, width), a signal (channels, "
            f"length) or a vector; got items of shape {table.shape[1:]}."
        )
    if len(table) == 0:
        raise DataError("pictures need at least one item, got none.")
    # A missing value of a vector or signal is a gap in its line.
    if not (np.isfinite(table) | (np.isnan(table) & (len(shape) < 3))).all():
        raise DataError("pictures need finite numbers, got an item with NaN or infinity.")
    return table.reshape(len(table), *shape)


def levels(
    items: Float[np.ndarray, "items channels height width"], limits: tuple[float, float]
) -> UInt8[np.ndarray, "items height width *rgb"]:
    """Values as bytes, grey or RGB: the lower limit is 0, the upper 255; values outside are clipped."""
    low, high = limits
    channels = items if items.shape[1] in PICTURE_CHANNELS else items.mean(1, keepdims=True)
    found = (((channels - low) / (high - low)).clip(0, 1) * 255).round().astype(np.uint8)
    return found[:, 0] if found.shape[1] == 1 else np.moveaxis(found, 1, -1)


def reduced(
    pixels: UInt8[np.ndarray, "items height width *rgb"], largest: int
) -> UInt8[np.ndarray, "items small_height small_width *rgb"]:
    """Images of at most `largest` pixels per side: averages of blocks of larger ones."""
    factor = math.ceil(max(pixels.shape[1:3]) / largest)
    return pixels if factor == 1 else np.stack([np.asarray(Image.fromarray(one).reduce(factor)) for one in pixels])


def png_address(pixels: UInt8[np.ndarray, "height width *rgb"]) -> str:
    """An image as a data address, without loss."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _tile(
    pixels: UInt8[np.ndarray, "items height width *rgb"], columns: int
) -> UInt8[np.ndarray, "grid_height grid_width *rgb"]:
    """Rows of images with a gap of one pixel between them, white where the last row ends early."""
    height, width = pixels.shape[1:3]
    size = (math.ceil(len(pixels) / columns) * (height + GAP), columns * (width + GAP))
    canvas = np.full((*size, *pixels.shape[3:]), WHITE, dtype=np.uint8)
    for place, image in enumerate(pixels):
        top, left = (place // columns) * (height + GAP), (place % columns) * (width + GAP)
        canvas[top : top + height, left : left + width] = image
    return canvas[:-GAP, :-GAP]


def _lines_svg(
    items: Float[np.ndarray, "items channels length"], title: str, limits: tuple[float, float] | None
) -> Markup:
    """One line for each item; the channels one below the other, all with the same y axis."""
    width, height = LINES_SIZE
    low, high = limits or value_range([items])
    unit = (height - 2 * EDGE) / (high - low or 1.0)
    # A line of one number becomes horizontal.
    table = items if items.shape[2] > 1 else items.repeat(2, axis=2)
    x = np.linspace(EDGE, width - EDGE, table.shape[2])
    colours = np.linspace(LIGHT if len(table) > 1 else DARK, DARK, len(table)).round().astype(np.uint8)
    bases = height * np.arange(1, table.shape[1] + 1) - EDGE
    paths = []
    for colour, item in zip(colours, bases[:, None] - (table - low) * unit, strict=True):
        line = "".join(_path(x, row) for row in item)
        paths.append(element("path", d=line, stroke=f"#{bytes(colour).hex()}", vector_effect="non-scaling-stroke"))
    size = width, height * table.shape[1]
    return _svg(title, size, [element("g", *paths, fill="none", stroke_width="1.25")], "lines")


def _path(across: Float[np.ndarray, "length"], down: Float[np.ndarray, "length"]) -> str:
    """A line through points; it has gaps where values are missing."""
    begins = np.isnan([np.nan, *down[:-1]])
    return "".join(
        f"{'M' if begin else 'L'}{x:.1f} {y:.1f}"
        for x, y, begin in zip(across, down, begins, strict=True)
        if not math.isnan(y)
    )


def _svg(title: str, size: tuple[int, int], content: Sequence[Markup], kind: str) -> Markup:
    width, height = size
    return element(
        "svg",
        element("title", title),
        *content,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        preserveAspectRatio="none",
        class_=f"picture {kind}",
    )
