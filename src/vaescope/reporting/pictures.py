"""Items as pictures inside a page: images as one PNG, vectors as lines, counts as small bars."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

from vaescope.errors import DataError
from vaescope.markup import Markup, element

HEIGHT = 48  # pixels on the page; an image is enlarged by whole numbers, or reduced, to about this
LARGEST = 96  # pixels of an image that are kept: nobody sees more of them, and the page stays small
GAP, WHITE = 1, 255
LINES, BARS = (320, 56), (96, 28)  # width and height on the page
EDGE = 2  # pixels that keep lines inside their picture
LIGHT, DARK = (91, 155, 208), (6, 36, 63)  # the first and the last of several lines


def picture(item: Any, shape: Sequence[int], alt: str) -> Markup:
    """One item."""
    return grid(np.asarray(item)[None], shape, alt, columns=1)


def strip(items: Any, shape: Sequence[int], alt: str, *, limits: tuple[float, float] | None = None) -> Markup:
    """Items side by side; vectors are lines in one picture, the first light and the last dark, within the limits."""
    return grid(items, shape, alt, columns=len(items), limits=limits)


def grid(
    items: Any, shape: Sequence[int], alt: str, *, columns: int, limits: tuple[float, float] | None = None
) -> Markup:
    """Items in rows of so many; vectors all in one picture, as `strip` has them."""
    table = _checked(items, shape)
    if len(shape) == 1:
        return lines_svg(table, alt, limits=limits)
    said = alt if shape[0] in (1, 3) else f"{alt} (each the mean over its {shape[0]} channels)"
    pixels = pixels_of(table)
    drawn = _side_by_side(pixels, columns)
    scale = _scale(pixels.shape[1])
    height, width = drawn.shape[:2]
    return element(
        "img",
        src=_data_uri(drawn),
        alt=said,
        width=round(width * scale),
        height=round(height * scale),
        class_="picture pixels" if scale > 1 else "picture",
    )


def pixels_of(items: Float[np.ndarray, "items channels height width"]) -> UInt8[np.ndarray, "items height width *rgb"]:
    """Numbers in [0, 1], beyond them cut off, as bytes: grey, or red, green and blue; large images are reduced."""
    channels = items if items.shape[1] in (1, 3) else items.mean(1, keepdims=True)
    levels = (channels.clip(0, 1) * 255).round().astype(np.uint8)
    pixels = levels[:, 0] if levels.shape[1] == 1 else np.moveaxis(levels, 1, -1)
    factor = math.ceil(max(pixels.shape[1:3]) / LARGEST)
    return pixels if factor == 1 else _reduced(pixels, factor)


def lines_svg(
    items: Float[np.ndarray, "items dimensions"], title: str, *, limits: tuple[float, float] | None = None
) -> Markup:
    """One line an item over its dimensions, the first light and the last dark."""
    width, height = LINES
    low, high = limits or (float(items.min()), float(items.max()))
    unit = (height - 2 * EDGE) / (high - low or 1.0)
    # A vector of one number is a level line.
    table = items if items.shape[1] > 1 else items.repeat(2, axis=1)
    across = np.linspace(EDGE, width - EDGE, table.shape[1])
    paths = []
    for row, colour in zip(height - EDGE - (table - low) * unit, _colours(len(table)), strict=True):
        points = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(across, row, strict=True))
        paths.append(element("path", d=f"M{points}", stroke=colour, vector_effect="non-scaling-stroke"))
    return _svg(title, LINES, element("g", *paths, fill="none", stroke_width="1.25"), "lines")


def histogram_svg(counts: Int[np.ndarray, "bins"] | Sequence[int], title: str) -> Markup:
    """Bars of equal width, the highest as high as the picture; the title says of what and over which range."""
    width, height = BARS
    values = [int(count) for count in counts]
    step, unit = width / max(1, len(values)), (height - 1) / max([1, *values])
    bars = [
        # A count that is there is seen, however small.
        f"M{place * step:.2f} {height - 1}v{-max(1.0, count * unit):.2f}h{step - 0.5:.2f}V{height - 1}z"
        for place, count in enumerate(values)
        if count > 0
    ]
    base = element("path", d=f"M0 {height - 0.5}h{width}", class_="base")
    return _svg(title, BARS, [element("path", d="".join(bars), class_="bars"), base], "histogram")


def counts_of(values: Any, limits: tuple[float, float], bins: int) -> tuple[int, ...]:
    """How many values lie in each of so many equal parts between the limits; the upper one belongs to the last."""
    return tuple(np.histogram(np.asarray(values, dtype=np.float64), bins=bins, range=limits)[0].tolist())


def _checked(items: Any, shape: Sequence[int]) -> np.ndarray:
    """The items as a table of the given shape, or an error that says what is wrong with them."""
    table = np.asarray(items, dtype=np.float64)
    if len(shape) not in (1, 3) or table.size != len(table) * math.prod(shape):
        raise DataError(
            f"pictures must be of items of the shape {tuple(shape)}, an image (channels, height, width) or a vector, "
            f"got items of the shape {table.shape[1:]}."
        )
    if len(table) == 0:
        raise DataError("pictures must be of at least one item, got none.")
    if not np.isfinite(table).all():
        raise DataError("pictures must be of finite numbers, got an item with NaN or an infinity in it.")
    return table.reshape(len(table), *shape)


def _side_by_side(pixels: np.ndarray, columns: int) -> np.ndarray:
    """Rows of images with a gap of one pixel between them; white where the last row ends early."""
    count, height, width = pixels.shape[:3]
    rows = math.ceil(count / columns)
    size = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP)
    canvas = np.full((*size, *pixels.shape[3:]), WHITE, dtype=np.uint8)
    for place, image in enumerate(pixels):
        top, left = (place // columns) * (height + GAP), (place % columns) * (width + GAP)
        canvas[top : top + height, left : left + width] = image
    return canvas


def _scale(height: int) -> float:
    """Whole, so that all pixels of a small image are of one size; large images are made smaller."""
    return float(round(HEIGHT / height)) if height <= HEIGHT * 2 / 3 else HEIGHT / height


def _reduced(pixels: np.ndarray, factor: int) -> np.ndarray:
    from PIL import Image

    return np.stack([np.asarray(Image.fromarray(one).reduce(factor)) for one in pixels])


def _data_uri(pixels: np.ndarray) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _colours(count: int) -> list[str]:
    light, dark = np.array(LIGHT), np.array(DARK)
    shares = np.linspace(0, 1, count) if count > 1 else np.ones(1)
    return [f"#{bytes((light + share * (dark - light)).round().astype(np.uint8)).hex()}" for share in shares]


def _svg(title: str, size: tuple[int, int], content: Any, kind: str) -> Markup:
    width, height = size
    return element(
        "svg",
        element("title", title),
        content,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        preserveAspectRatio="none",
        class_=f"picture {kind}",
    )
