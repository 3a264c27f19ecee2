"""Items as pictures inside a page: images as PNG, vectors as lines, counts as small bars."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from vaescope.errors import DataError
from vaescope.markup import Markup, element

HEIGHT = 48  # pixels on the page; images are enlarged by a whole factor, or reduced, to about this height
MAX_PIXELS = 96  # per side of an image; larger images are reduced to keep the page small
GAP, WHITE = 1, 255
LINES_SIZE, HISTOGRAM_SIZE = (320, 56), (96, 28)  # width and height on the page
EDGE = 2  # pixels that keep lines inside their picture
LIGHT, DARK = (91, 155, 208), (6, 36, 63)  # colours of the first and the last line

ItemArray = npt.ArrayLike | Tensor


def picture(item: ItemArray, shape: Sequence[int], alt: str) -> Markup:
    """One item as a picture."""
    return picture_grid(np.asarray(item)[None], shape, alt, columns=1)


def strip(items: ItemArray, shape: Sequence[int], alt: str, *, limits: tuple[float, float] | None = None) -> Markup:
    """Items in one row; see `picture_grid`."""
    return picture_grid(items, shape, alt, columns=len(np.asarray(items)), limits=limits)


def picture_grid(
    items: ItemArray, shape: Sequence[int], alt: str, *, columns: int, limits: tuple[float, float] | None = None
) -> Markup:
    """Images in rows of `columns`; vectors as lines in one picture, from light (first) to dark (last).

    Args:
        items: The items, flat or in their shape.
        shape: The shape of one item: (channels, height, width) or (dimensions,).
        alt: The alternative text.
        columns: The number of images in a row.
        limits: The range of the y axis of vectors; default: the range of the values.
    """
    table = _checked(items, shape)
    if len(shape) == 1:
        return _lines_svg(table, alt, limits)
    pixels = _pixels(table)
    grid = _tile(pixels, columns)
    # A whole factor for small images, so that all their pixels have one size.
    scale = HEIGHT / pixels.shape[1]
    scale = round(scale) if scale >= 1.5 else scale
    height, width = grid.shape[:2]
    file = io.BytesIO()
    Image.fromarray(grid).save(file, format="PNG", optimize=True)
    return element(
        "img",
        src=f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}",
        alt=alt if shape[0] in (1, 3) else f"{alt} (mean over {shape[0]} channels)",
        width=round(width * scale),
        height=round(height * scale),
        class_="picture pixels" if scale > 1 else "picture",
    )


def histogram_svg(counts: Int[np.ndarray, "bins"] | Sequence[int], title: str) -> Markup:
    """Bars of equal width, scaled to the highest count; the title says what they are and over which range."""
    width, height = HISTOGRAM_SIZE
    values = [int(count) for count in counts]
    step, unit = width / max(1, len(values)), (height - 1) / max([1, *values])
    bars = [
        # At least one pixel, so that rare values stay visible.
        f"M{place * step:.2f} {height - 1}v{-max(1.0, count * unit):.2f}h{step - 0.5:.2f}V{height - 1}z"
        for place, count in enumerate(values)
        if count > 0
    ]
    base = element("path", d=f"M0 {height - 0.5}h{width}", class_="base")
    return _svg(title, HISTOGRAM_SIZE, [element("path", d="".join(bars), class_="bars"), base], "histogram")


def histogram_counts(values: ItemArray, limits: tuple[float, float], bins: int) -> tuple[int, ...]:
    """Count the values in equal bins between the limits; the last bin includes the upper limit."""
    return tuple(np.histogram(np.asarray(values, dtype=np.float64), bins=bins, range=limits)[0].tolist())


def _checked(items: ItemArray, shape: Sequence[int]) -> Float[np.ndarray, "items ..."]:
    table = np.asarray(items, dtype=np.float64)
    if len(shape) not in (1, 3) or table.size != len(table) * math.prod(shape):
        raise DataError(
            f"pictures need items of shape {tuple(shape)}, an image (channels, height, width) or a vector; got items "
            f"of shape {table.shape[1:]}."
        )
    if len(table) == 0:
        raise DataError("pictures need at least one item, got none.")
    if not np.isfinite(table).all():
        raise DataError("pictures need finite numbers, got an item with NaN or infinity.")
    return table.reshape(len(table), *shape)


def _pixels(items: Float[np.ndarray, "items channels height width"]) -> UInt8[np.ndarray, "items height width *rgb"]:
    """Values clipped to [0, 1] as bytes, grey or RGB; large images are reduced."""
    channels = items if items.shape[1] in (1, 3) else items.mean(1, keepdims=True)
    levels = (channels.clip(0, 1) * 255).round().astype(np.uint8)
    pixels = levels[:, 0] if levels.shape[1] == 1 else np.moveaxis(levels, 1, -1)
    factor = math.ceil(max(pixels.shape[1:3]) / MAX_PIXELS)
    return pixels if factor == 1 else np.stack([np.asarray(Image.fromarray(one).reduce(factor)) for one in pixels])


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


def _lines_svg(items: Float[np.ndarray, "items dimensions"], title: str, limits: tuple[float, float] | None) -> Markup:
    width, height = LINES_SIZE
    low, high = limits or (float(items.min()), float(items.max()))
    unit = (height - 2 * EDGE) / (high - low or 1.0)
    # A vector of one number becomes a horizontal line.
    table = items if items.shape[1] > 1 else items.repeat(2, axis=1)
    x = np.linspace(EDGE, width - EDGE, table.shape[1])
    colours = np.linspace(LIGHT if len(table) > 1 else DARK, DARK, len(table)).round().astype(np.uint8)
    paths = []
    for colour, row in zip(colours, height - EDGE - (table - low) * unit, strict=True):
        points = "L".join(f"{across:.1f} {down:.1f}" for across, down in zip(x, row, strict=True))
        paths.append(
            element("path", d=f"M{points}", stroke=f"#{bytes(colour).hex()}", vector_effect="non-scaling-stroke")
        )
    return _svg(title, LINES_SIZE, [element("g", *paths, fill="none", stroke_width="1.25")], "lines")


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
