"""What the numbers of an array are: vectors, signals or images, with channels first or last, and black and white."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.data.pixel_scale import UNIT_SCALE, WHITE_8_BITS, PixelScale
from vaescope.data.sources import check_flag, passing, setting
from vaescope.errors import ConfigurationError, DataError, PixelRangeWarning, quoted

Levels: TypeAlias = tuple[float, float]
"""The stored numbers that are black and white."""

PICTURE_CHANNELS = (1, 3)
WHITE_16_BITS = 65535
ALL_WHITES = (WHITE_8_BITS, WHITE_16_BITS)
SIGNAL_RATIO = 4  # of the sides of an item, from which on it looks like a signal rather than a grey image
CHANNEL_RATIO = 2  # of a side of an image to the number of channels, from which on it is clear which is which
FIRST, LAST = "first", "last"


@dataclass(frozen=True)
class ItemLayout:
    """How items lie in an array; None stands for what the shape of the array suggests.

    Attributes:
        image: False for vectors.
        signal: Whether items of two dimensions are signals, channels x length, or grey images.
        channels: Whether the axis of the channels comes 'first' or 'last' in an item.
        as_given: Whether axes stay in their order unless `channels` says otherwise.
        small: Whether the numbers are bytes or booleans, which are pixels rather than signals.
    """

    image: bool | None = None
    signal: bool | None = None
    channels: str | None = None
    as_given: bool = False
    small: bool = False

    def __post_init__(self) -> None:
        if self.channels not in (None, FIRST, LAST):
            raise ConfigurationError(f"channels must be 'first' or 'last', got {quoted(self.channels)}.")
        check_flag("image", self.image)
        check_flag("signal", self.signal)
        if self.image and self.signal:
            raise ConfigurationError(
                f"items must be images or signals, got {setting('image', True)} and {setting('signal', True)}. Leave "
                "one out."
            )

    def arranged(self, rows: np.ndarray, name: str) -> np.ndarray:
        """The rows as vectors, as channels x length or as channels x height x width, views where possible."""
        if rows.ndim == 2:
            if self.image or self.signal:
                what = "images need height and width" if self.image else "signals need channels and length"
                raise DataError(f"{name}: {what}, got rows of {rows.shape[1]} numbers. Reshape them.")
            return rows
        if self.image is False and not self.signal:
            return rows.reshape(len(rows), -1)
        if rows.ndim == 3 and self._are_signals(rows.shape):
            return np.swapaxes(rows, 1, 2) if self._channels_of_signals(rows.shape) == LAST else rows
        if self.signal:
            raise DataError(
                f"{name}: signals must be items x channels x length, got an array of shape {rows.shape}. Reshape it."
            )
        if rows.ndim == 3:
            return rows[:, None]
        if rows.ndim != 4:
            raise DataError(
                f"{name}: items must be vectors, signals of channels x length, or images of height x width, with or "
                f"without channels, got items of shape {rows.shape[1:]}. Pass {passing('image', False)} to treat each "
                "item as a vector."
            )
        return np.moveaxis(rows, -1, 1) if self._channels_of_images(rows.shape, name) == LAST else rows

    def _are_signals(self, shape: Sequence[int]) -> bool:
        long = max(shape[1:]) >= SIGNAL_RATIO * min(shape[1:])
        return long and not self.small if self.signal is None else self.signal

    def _channels_of_signals(self, shape: Sequence[int]) -> str:
        """Where the channels are: the shorter axis, as a signal is longer than it has channels."""
        if self.channels is not None:
            return self.channels
        return LAST if shape[2] < shape[1] and not self.as_given else FIRST

    def _channels_of_images(self, shape: Sequence[int], name: str) -> str:
        """Where the channels are: 1 or 3 of them, or else the axis that is clearly shorter than the sides."""
        _, first, middle, last = shape
        if self.channels is not None:
            return self.channels
        if first in PICTURE_CHANNELS or last in PICTURE_CHANNELS:
            return FIRST if first in PICTURE_CHANNELS else LAST
        if self.as_given or CHANNEL_RATIO * first <= min(middle, last):
            return FIRST
        if CHANNEL_RATIO * last <= min(first, middle):
            return LAST
        raise DataError(
            f"{name}: the channels of images must be 1 or 3 channels, or clearly fewer than there are pixels in a row, "
            f"but items of shape {tuple(shape[1:])} may have {first} channels first or {last} channels last. Pass "
            f"{setting('channels', FIRST)} or {passing('channels', LAST)}, or {setting('image', False)} to treat each "
            "item as a vector."
        )


def scale_of_range(given: object) -> PixelScale:
    """The scale of pixels whose black and white are given as a pair of numbers."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise ConfigurationError(f"range must be two numbers, those of black and of white, got {quoted(given)}.")
    low, high = (finite_number("each end of range", end) for end in given)
    if low >= high:
        raise ConfigurationError(f"range must be two numbers in ascending order, got {quoted(given)}.")
    return PixelScale(low, high, integer_white=1) if (low, high) == (0, 1) else PixelScale(low, high)


def pixel_levels(
    dtype: np.dtype[np.generic], lowest: float, highest: float, known: PixelScale | None, name: str, instead: str = ""
) -> tuple[Levels | None, PixelScale]:
    """The stored numbers that are black and white, and the scale of the images.

    There are no levels for bytes, which are divided by 255, and for what lies in [0, 1].

    Args:
        dtype, lowest, highest: The type of the pixels, their minimum and their maximum.
        known: The scale, if it was given; default: chosen from the numbers.
        instead: Another remedy, which ends the sentence of an error.
    """
    of_others = UNIT_SCALE if known is None or known.integer_white == 1 else known  # of floats and booleans
    if dtype.kind == "b":
        return None, of_others
    if known is not None and not known.is_unit:
        if lowest < known.black or highest > known.white:
            wider = _pair(min(known.black, lowest), max(known.white, highest))
            raise DataError(
                f"{name}: pixels must lie in the given range {known.black:g}..{known.white:g}, got "
                f"{lowest:g}..{highest:g}. Clip them, or pass {passing('range', wider)}."
            )
        return (known.black, known.white), known
    whole, likely = bool(np.issubdtype(dtype, np.integer)), _likely_range(lowest, highest)
    allowed = ALL_WHITES if known is None else (known.integer_white,)
    if lowest < 0 or highest > (max(allowed) if whole else 1):
        must = f"integer pixels must lie in {' or '.join(f'0..{white}' for white in allowed)}"
        raise DataError(
            f"{name}: {must if whole else 'float pixels must lie in [0, 1]'}, got {lowest:g}..{highest:g}. Pass "
            f"{passing('range', likely)} if these are black and white{instead}."
        )
    if not whole:
        return None, of_others
    white = next(white for white in allowed if highest <= white)
    if known is None and highest == 1:
        warnings.warn(
            f"{name}: integer pixels are divided by {white}, but the largest is 1, so the images are nearly black. If "
            f"1 is white, pass {passing('range', (0, 1))} for an array, or save pictures with 255 as white.",
            PixelRangeWarning,
            stacklevel=2,
        )
    if known is None and white > WHITE_8_BITS and highest <= white // 2:
        warnings.warn(
            f"{name}: integer pixels above 255 are divided by {white}, but the largest is {highest:g}, so the images "
            f"are dark. Pass {passing('range', likely)} if {likely[1]} is white.",
            PixelRangeWarning,
            stacklevel=2,
        )
    scale = PixelScale(integer_white=white)
    white = scale.white_of(dtype == np.uint8)
    return None if white == WHITE_8_BITS else (0.0, float(white)), scale


def scale_pixels(pixels: UInt8[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Integer pixels divided by 255 in float32, with the same bits on every device.

    An accelerator turns a division by a constant into a product with its inverse, which rounds half of the 256 values
    differently. In float64 neither rounding shows.
    """
    if pixels.is_cuda:
        return (pixels.to(torch.float64) * (1 / 255)).to(torch.float32).contiguous()
    return pixels.to(torch.float32).contiguous().div_(255)


def unit_pixels(pixels: Tensor, levels: Levels) -> Float[Tensor, "..."]:
    """Pixels of any type in float32, from 0 for black to 1 for white."""
    low, high = levels
    return pixels.to(torch.float64).sub(low).div(high - low).clamp(0, 1).to(torch.float32).contiguous()


def _likely_range(lowest: float, highest: float) -> tuple[float, float]:
    """The range that the pixels probably have: a usual one that contains them."""
    for low, high in ((-1, 1), (0, 255), (0, 1023), (0, 4095), (0, 16383), (0, 65535)):
        if low <= lowest and highest <= high:
            return low, high
    return _pair(lowest, highest)


def _pair(*numbers: float) -> tuple[float, float]:
    """Numbers as a person writes them."""
    low, high = (int(number) if number.is_integer() else number for number in map(float, numbers))
    return low, high
