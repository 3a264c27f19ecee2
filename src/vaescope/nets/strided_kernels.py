"""The convolution of stride 2 of many members as Triton kernels that read windows of an image without copying them.

All layers are derivatives of one trilinear form in a large image x, a small image y of half its size and a weight w,

    f(x, w, y) = sum of x[2 i + row - pad, 2 j + column - pad, c] w[row, column, c, d] y[i, j, d],

over positions (i, j), taps (row, column) and channels (c, d): `down` is its derivative by y, the convolution; `up` that
by x, the transposed convolution; `weight_sums` that by w. Each is a matrix product whose operands are gathered on the
way into the tensor cores ("implicit GEMM"), accumulated in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from vaescope.nets.strided import FULL_GPU, TERMS

ROWS, FEW_ROWS = 128, 64  # of a tile
CHANNELS = (64, 32)  # of one step of a sum, if they divide the channels
MOST_FILTERS = 64  # of a tile
NARROW = 8  # fewer channels of the large image are added up from whole windows
PIXELS = 1024  # of a tile of such an image
WIDE = 2**31
SUMMED = 64  # positions in one step of the sum over positions


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer.

    Attributes:
        height: Of the small image; the large one is twice as high and wide.
        large: Channels of the large image.
        small: Channels of the small image.
    """

    members: int
    batch: int
    height: int
    width: int
    large: int
    small: int
    kernel: int

    @classmethod
    def of(cls, weight: Tensor, large: Tensor | None = None, small: Tensor | None = None) -> Sizes:
        """The sizes of a layer with this weight and this large or small image."""
        kernel, channels, filters = weight.shape[-3:]
        if small is not None:
            members, batch, height, width = small.shape[:4]
        else:
            assert large is not None
            members, batch, height, width = large.shape[:4]
            height, width = height // 2, width // 2
        return cls(members, batch, height, width, channels, filters, kernel)

    @property
    def positions(self) -> int:
        """Positions of the small images of a member."""
        return self.batch * self.height * self.width

    @property
    def wide(self) -> bool:
        """Whether the numbers of a member's images are too many to be counted in 32 bits."""
        return self.positions * max(4 * self.large, self.small) >= WIDE


@triton.jit
@no_type_check
def _gathered_product(
    image,
    weight,
    output,
    positions,
    height: tl.constexpr,
    width: tl.constexpr,
    large: tl.constexpr,
    small: tl.constexpr,
    kernel: tl.constexpr,
    up: tl.constexpr,
    tf32: tl.constexpr,
    wide: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """A tile of `down` or `up`: positions x channels of the output, of one member and, for `up`, of one parity."""
    pad: tl.constexpr = kernel // 2 - 1
    channels: tl.constexpr = small if up else large  # of the image
    filters: tl.constexpr = large if up else small  # of the output
    taps: tl.constexpr = kernel // 2 if up else kernel  # in a row of the window
    rows: tl.constexpr = height if up else 2 * height  # of the image
    columns: tl.constexpr = width if up else 2 * width
    terms: tl.constexpr = taps * taps * channels
    parts: tl.constexpr = (filters + COLUMNS - 1) // COLUMNS
    apart: tl.constexpr = small if up else 1  # weights of neighbouring filters

    member = tl.program_id(1).to(tl.int64)
    parity = tl.program_id(2) // parts
    down_parity = parity // 2
    right_parity = parity % 2
    # The first tap that has an input for outputs of this parity, and the place of that input.
    first_row = (down_parity + pad) % 2
    first_column = (right_parity + pad) % 2

    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    if wide:
        place = place.to(tl.int64)
    item = place // (height * width)
    i = place // width % height
    j = place % width
    if up:
        top = i + (down_parity + pad - first_row) // 2
        left = j + (right_parity + pad - first_column) // 2
    else:
        top = 2 * i - pad
        left = 2 * j - pad
    image += member * positions * (channels if up else 4 * channels)
    weight += member * kernel * kernel * large * small
    known = place < positions
    own = item * (rows * columns)

    filter = tl.program_id(2) % parts * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, terms, STEP):
        if channels % STEP == 0:  # all of one tap
            tap = start // channels
            channel = tl.multiple_of(start - tap * channels, STEP) + tl.arange(0, STEP)
            row = tap // taps
            column = tap % taps
        else:
            term = start + tl.arange(0, STEP)
            tap = term // channels
            channel = term % channels
            row = (tap // taps)[None, :]
            column = (tap % taps)[None, :]
        if up:
            y = top[:, None] - row
            x = left[:, None] - column
            tap = (first_row + 2 * (tap // taps)) * kernel + first_column + 2 * (tap % taps)
            offset = (tap * large) * small + channel
        else:
            y = top[:, None] + row
            x = left[:, None] + column
            offset = (tap * large + channel) * small
        inside = known[:, None] & (y >= 0) & (y < rows) & (x >= 0) & (x < columns)
        wanted = (filter < filters)[None, :]
        if terms % STEP != 0:
            within = start + tl.arange(0, STEP) < terms
            inside = inside & within[None, :]
            wanted = wanted & within[:, None]
        window = tl.load(image + (own[:, None] + y * columns + x) * channels + channel[None, :], mask=inside, other=0.0)
        taken = tl.load(weight + offset[:, None] + filter[None, :] * apart, mask=wanted, other=0.0)
        total = tl.dot(window, taken, total, input_precision="tf32" if tf32 else "ieee")

    output += member * positions * (4 * filters if up else filters)
    target = place
    if up:
        target = item * (4 * height * width) + (2 * i + down_parity) * (2 * width) + 2 * j + right_parity
    tl.store(
        output + target[:, None] * filters + filter[None, :],
        total.to(output.dtype.element_ty),
        mask=known[:, None] & (filter < filters)[None, :],
    )


@triton.jit
@no_type_check
def _summed_product(
    large_image,
    small_image,
    output,
    positions,
    per_part: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    large: tl.constexpr,
    small: tl.constexpr,
    kernel: tl.constexpr,
    tf32: tl.constexpr,
    wide: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """A tile of a part of `weight_sums`: (row, column, c) x d of one member, over `per_part` positions."""
    pad: tl.constexpr = kernel // 2 - 1
    terms: tl.constexpr = kernel * kernel * large
    tiles: tl.constexpr = (small + COLUMNS - 1) // COLUMNS

    member = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    term = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    filter = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    channel = term % large
    row = term // large // kernel - pad
    column = term // large % kernel - pad
    large_image += member * positions * 4 * large
    small_image += member * positions * small

    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, per_part, STEP):
        place = part * per_part + start + tl.arange(0, STEP)
        if wide:
            place = place.to(tl.int64)
        known = place < positions
        item = place // (height * width)
        y = 2 * (place // width % height)[None, :] + row[:, None]
        x = 2 * (place % width)[None, :] + column[:, None]
        inside = (term < terms)[:, None] & known[None, :]
        inside = inside & (y >= 0) & (y < 2 * height) & (x >= 0) & (x < 2 * width)
        at = (item[None, :] * (2 * height) + y) * (2 * width) + x
        window = tl.load(large_image + at * large + channel[:, None], mask=inside, other=0.0)
        taken = tl.load(
            small_image + place[:, None] * small + filter[None, :],
            mask=known[:, None] & (filter < small)[None, :],
            other=0.0,
        )
        total = tl.dot(window, taken, total, input_precision="tf32" if tf32 else "ieee")
    output += (part * tl.num_programs(1) + member) * terms * small
    tl.store(
        output + term[:, None] * small + filter[None, :],
        total,
        mask=(term < terms)[:, None] & (filter < small)[None, :],
    )


@triton.jit
@no_type_check
def _added_windows(
    windows,
    output,
    pixels,
    height: tl.constexpr,
    width: tl.constexpr,
    channels: tl.constexpr,
    kernel: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Every window of the small image's positions added to the large image: the sum of what covers each pixel."""
    pad: tl.constexpr = kernel // 2 - 1
    place = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    known = place < pixels
    channel = place % channels
    x = place // channels % (2 * width)
    y = place // (channels * 2 * width) % (2 * height)
    item = place // (channels * 4 * width * height)
    total = tl.zeros((PIXELS,), dtype=tl.float32)
    for down in tl.static_range(kernel // 2):
        for right in tl.static_range(kernel // 2):
            row = (y + pad) % 2 + 2 * down
            column = (x + pad) % 2 + 2 * right
            i = (y + pad - row) // 2
            j = (x + pad - column) // 2
            # Comparisons come before the divisions, which round towards zero.
            inside = known & (y + pad >= row) & (x + pad >= column) & (i < height) & (j < width)
            at = ((item * height + i) * width + j) * (kernel * kernel) + row * kernel + column
            total += tl.load(windows + at * channels + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + place, total.to(output.dtype.element_ty), mask=known)


def down(
    x: Float[Tensor, "members batch height width channels"],
    weight: Float[Tensor, "members kernel kernel channels filters"],
    tf32: bool,
) -> Float[Tensor, "members batch half_height half_width filters"]:
    """The convolution of every member's images with its own weight; all tensors are contiguous."""
    sizes = Sizes.of(weight, large=x)
    output = x.new_empty(sizes.members, sizes.batch, sizes.height, sizes.width, sizes.small)
    _product(x, weight, output, sizes, False, tf32)
    return output


def up(
    y: Float[Tensor, "members batch half_height half_width filters"],
    weight: Float[Tensor, "members kernel kernel channels filters"],
    tf32: bool,
) -> Float[Tensor, "members batch height width channels"]:
    """The transposed convolution, the adjoint of `down`."""
    sizes = Sizes.of(weight, small=y)
    output = y.new_empty(sizes.members, sizes.batch, 2 * sizes.height, 2 * sizes.width, sizes.large)
    if sizes.large < NARROW:
        _narrow_product(y, weight, output, sizes)
    else:
        _product(y, weight, output, sizes, True, tf32)
    return output


def weight_sums(
    x: Float[Tensor, "members batch height width channels"],
    y: Float[Tensor, "members batch half_height half_width filters"],
    kernel: int,
    parts: int,
    tf32: bool,
) -> Float[Tensor, "parts members kernel kernel channels filters"]:
    """The derivative of the form by the weight, as `parts` in float32, each over some of the positions."""
    members, batch, height, width, small = y.shape
    sizes = Sizes(members, batch, height, width, x.shape[-1], small, kernel)
    terms = kernel**2 * sizes.large
    rows, columns = min(TERMS, max(16, triton.next_power_of_2(terms))), _tile_columns(sizes.small)
    tiles = triton.cdiv(terms, rows) * triton.cdiv(sizes.small, columns)
    per_part = triton.cdiv(triton.cdiv(sizes.positions, SUMMED), parts) * SUMMED
    output = x.new_empty(parts, sizes.members, kernel, kernel, sizes.large, sizes.small, dtype=torch.float32)
    _summed_product[(tiles, sizes.members, parts)](
        x,
        y,
        output,
        sizes.positions,
        per_part,
        sizes.height,
        sizes.width,
        sizes.large,
        sizes.small,
        kernel,
        tf32,
        sizes.wide,
        rows,
        columns,
        SUMMED,
        num_warps=4,
        num_stages=3,
    )
    return output


def _narrow_product(y: Tensor, weight: Tensor, output: Tensor, sizes: Sizes) -> None:
    """`up` to a few channels: each position's window is smaller than its input, so that it is computed once, whole."""
    taps = sizes.kernel**2 * sizes.large
    windows = y.flatten(1, 3) @ weight.reshape(sizes.members, taps, sizes.small).mT
    pixels = output.numel()
    _added_windows[(triton.cdiv(pixels, PIXELS),)](
        windows, output, pixels, sizes.height, sizes.width, sizes.large, sizes.kernel, PIXELS, num_warps=4
    )


def _product(image: Tensor, weight: Tensor, output: Tensor, sizes: Sizes, up: bool, tf32: bool) -> None:
    channels, filters = (sizes.small, sizes.large) if up else (sizes.large, sizes.small)
    terms = (sizes.kernel // 2 if up else sizes.kernel) ** 2 * channels
    columns = _tile_columns(filters)
    step = next((one for one in CHANNELS if channels % one == 0), min(32, max(16, triton.next_power_of_2(terms))))
    others = sizes.members * triton.cdiv(filters, columns) * (4 if up else 1)
    rows = ROWS if triton.cdiv(sizes.positions, ROWS) * others >= FULL_GPU else FEW_ROWS
    grid = triton.cdiv(sizes.positions, rows), sizes.members, others // sizes.members
    _gathered_product[grid](
        image,
        weight,
        output,
        sizes.positions,
        sizes.height,
        sizes.width,
        sizes.large,
        sizes.small,
        sizes.kernel,
        up,
        tf32,
        sizes.wide,
        rows,
        columns,
        step,
        num_warps=4,
        num_stages=3,
    )


def _tile_columns(filters: int) -> int:
    columns: int = min(MOST_FILTERS, max(16, triton.next_power_of_2(filters)))
    return columns
