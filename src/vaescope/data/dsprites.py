"""Procedural dSprites (Matthey et al., 2017): sprites computed from their factors, in white or painted in colour.

The whole grid of 737,280 images, a small grid, and the colour, noise and scream variants of Locatello et al. (2019).
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image
from torch import Tensor

from vaescope.checks import random_seed
from vaescope.data.arrays import fingerprint_of
from vaescope.data.dataset import BUILT_IN, Dataset, DatasetEntry, Factors
from vaescope.data.images import open_image
from vaescope.data.sources import Source
from vaescope.errors import DataError
from vaescope.numerics import counter

VERSION = 1
"""Must change whenever a pixel of any image changes."""

SIZE = 64
NAMES = ("color", "shape", "scale", "orientation", "position x", "position y")
SQUARE, ELLIPSE, HEART = range(3)
SCALES = np.linspace(0.5, 1, 6)
# The last angle equals the first and must give exactly the same image.
ANGLES = 2 * np.pi * (np.arange(40) % 39) / 39
CENTRES = 15.5 + 32 * np.linspace(0, 1, 32)

# The units of u and v: at scale 1, the half width and half height of the square and the ellipse. A half side of 9.598
# reproduces every published frame of a square exactly; 9.6 gets 8 pixels in 2 frames wrong.
UNITS = {SQUARE: (9.598, 9.598), ELLIPSE: (12.75, 7.225), HEART: (0.5995 * 16, 0.6615)}
HEART_DROP = 1.438 / 0.6615
# No sprite extends further from its centre than the largest square, 9.598 * sqrt(2) = 13.57.
MAX_RADIUS = 13.6
WINDOW = 28

MAX_BACKGROUND = (350, 274)  # larger pictures are shrunk to this width and height, as in disentanglement_lib
CHANNEL_BITS = 17  # a uniform number has 53 random bits, enough for three channels

Index: TypeAlias = Int[Tensor, "batch"]
Mask: TypeAlias = Bool[Tensor, "batch 1 64 64"]
ColourImages: TypeAlias = Float[Tensor, "batch 3 64 64"]


@dataclass(frozen=True)
class SpriteGrid:
    """The published codes of each factor that a data set contains; y has the position codes of x, or the given ones."""

    shapes: tuple[int, ...] = (SQUARE, ELLIPSE, HEART)
    scales: tuple[int, ...] = tuple(range(len(SCALES)))
    orientations: tuple[int, ...] = tuple(range(len(ANGLES)))
    positions: tuple[int, ...] = tuple(range(len(CENTRES)))
    rows: tuple[int, ...] | None = None  # codes of y, each among `positions`

    @property
    def factor_table(self) -> Factors:
        """Names and sizes in the published order."""
        rows = self.positions if self.rows is None else self.rows
        codes = (self.shapes, self.scales, self.orientations, self.positions, rows)
        return Factors(NAMES, (1, *map(len, codes)))

    @property
    def identity(self) -> str:
        """Text that enters the fingerprint of the data set; changing it would change the ids of existing runs."""
        return (
            f"Grid(shapes={self.shapes}, scales={self.scales}, orientations={self.orientations}, "
            f"positions={self.positions}{'' if self.rows is None else f', rows={self.rows}'})"
        )


@dataclass(frozen=True)
class RenderTables:
    """Lookup tables for rendering, so that it computes no sine and copies nothing to the device.

    A pose is a combination of shape, scale and orientation. The window is the square of pixels around a sprite.

    Attributes:
        shapes: The shape of each pose.
        turns: For each pose, the numbers (a, b, c, d) with u = a dx + b dy and v = c dx + d dy.
        starts: For each position, the first row or column of the window.
        offsets: For each position, the distances of the window's rows or columns from the centre.
        rows: For each code of y, its place among the positions.
        pixels: Positions of the window's pixels in a flat image, relative to its first pixel.
    """

    shapes: Int[Tensor, "poses"]
    turns: Float[Tensor, "poses 4"]
    starts: Int[Tensor, "positions"]
    offsets: Float[Tensor, "positions window"]
    rows: Int[Tensor, "rows"]
    pixels: Int[Tensor, "window_pixels"]

    @classmethod
    def of(cls, grid: SpriteGrid) -> RenderTables:
        """The tables for a grid, computed in float64."""
        poses = list(product(grid.shapes, grid.scales, grid.orientations))
        centres = CENTRES[list(grid.positions)]
        starts = np.ceil(centres - MAX_RADIUS)
        window = np.arange(WINDOW)
        return cls(
            shapes=torch.tensor([shape for shape, _, _ in poses]),
            turns=torch.tensor(np.array([_turn(*pose) for pose in poses])),
            starts=torch.tensor(starts, dtype=torch.int64),
            offsets=torch.tensor(starts[:, None] + window - centres[:, None]),
            rows=torch.tensor([grid.positions.index(row) for row in grid.rows or grid.positions]),
            pixels=torch.tensor((window[:, None] * SIZE + window).ravel()),
        )

    def to(self, device: torch.device | str) -> RenderTables:
        """The same tables on `device`."""
        return RenderTables(*(getattr(self, field.name).to(device) for field in fields(self)))


def _turn(shape: int, scale: int, orientation: int) -> tuple[float, float, float, float]:
    """Rotation by minus the angle and division by the scale; u and v are in the units of the shape."""
    width, height = (unit * SCALES[scale] for unit in UNITS[shape])
    cosine, sine = np.cos(ANGLES[orientation]), np.sin(ANGLES[orientation])
    return cosine / width, sine / width, -sine / height, cosine / height


def render(tables: RenderTables, index: Index) -> Mask:
    """The sprites at `index` of the grid.

    All shapes are static and nothing leaves the device, so it can be compiled and captured in a CUDA graph.
    It computes in float64, so that all devices agree on the pixels at an outline.
    """
    columns, rows = len(tables.starts), len(tables.rows)
    pose, x, y = index // (columns * rows), index // rows % columns, tables.rows[index % rows]
    inside = _inside(tables.shapes[pose], tables.turns[pose], tables.offsets[x], tables.offsets[y])
    where = (tables.starts[y] * SIZE + tables.starts[x])[:, None] + tables.pixels
    blank = torch.zeros(len(index), SIZE * SIZE, dtype=torch.bool, device=index.device)
    return blank.scatter(1, where, inside.flatten(1)).reshape(-1, 1, SIZE, SIZE)


def _inside(
    shape: Int[Tensor, "batch"],
    turn: Float[Tensor, "batch 4"],
    dx: Float[Tensor, "batch window"],
    dy: Float[Tensor, "batch window"],
) -> Bool[Tensor, "batch window window"]:
    a, b, c, d = turn[:, :, None].unbind(1)
    u = (a * dx)[:, None, :] + (b * dy)[:, :, None]
    v = (c * dx)[:, None, :] + (d * dy)[:, :, None]
    u_squared, v_squared = u * u, v * v
    shape = shape[:, None, None]
    round_or_square = torch.where(shape == SQUARE, torch.maximum(u_squared, v_squared), u_squared + v_squared) <= 1
    return torch.where(shape == HEART, _inside_heart(u_squared, v), round_or_square)


def _inside_heart(u_squared: Tensor, v: Tensor) -> Tensor:
    """Whether (u, v) lies inside the curve u = sin^3 t, v = -(13 cos t - 5 cos 2t - 2 cos 3t - cos 4t) - drop.

    With q = sin^2 t = |u|^(2/3), the curve passes a given u at v = middle +- sqrt(1 - q) (11 + 8 q), and nowhere
    if |u| > 1, where the square of the half height below is negative.
    """
    q = u_squared.pow(1 / 3)
    middle = (8 * q - 18) * q + (6 - HEART_DROP)
    half_height_squared = (1 - q) * (11 + 8 * q).square()
    return (v - middle).square() <= half_height_squared


@dataclass(frozen=True)
class Paint(ABC):
    """Turns sprites into colour images; an image depends on the seed and its index, not on the batch.

    `stream` names the random numbers and enters the fingerprint: changing it would change images and ids of runs.
    """

    stream: ClassVar[str]
    seed: Int[Tensor, ""]

    @abstractmethod
    def __call__(self, sprite: Mask, index: Index) -> ColourImages:
        """The painted images, float32 in [0, 1]."""

    def to(self, device: torch.device | str) -> Paint:
        """The same paint on `device`."""
        return replace(self, seed=self.seed.to(device))

    @property
    def identity(self) -> str:
        """Text that determines the paint; it enters the fingerprint of the data set."""
        return f"{self.stream}/seed {int(self.seed)}"

    def uniform(self, index: Index, columns: int) -> Float[Tensor, "batch columns"]:
        """Random numbers for each item, float64 in [0, 1)."""
        return counter.uniform(self.seed, self.stream, torch.zeros_like(self.seed), index, columns)


@dataclass(frozen=True)
class Coloured(Paint):
    """Each sprite in a random colour, every channel uniform in [0.5, 1], on black."""

    stream: ClassVar[str] = "Coloured"

    def __call__(self, sprite: Mask, index: Index) -> ColourImages:
        colour = 0.5 + 0.5 * self.uniform(index, 3).to(torch.float32)
        return sprite * colour[:, :, None, None]


@dataclass(frozen=True)
class Noisy(Paint):
    """White sprites on noise, uniform in [0, 1] and independent for each pixel and channel."""

    stream: ClassVar[str] = "Noisy"

    def __call__(self, sprite: Mask, index: Index) -> ColourImages:
        bits = (self.uniform(index, SIZE * SIZE) * 2.0 ** (3 * CHANNEL_BITS)).to(torch.int64)
        mask = 2**CHANNEL_BITS - 1
        channels = [(bits >> (channel * CHANNEL_BITS)) & mask for channel in range(3)]
        # In float64, because an accelerator turns this division into a product with the inverse, which rounds
        # differently.
        noise = (torch.stack(channels, dim=1).to(torch.float64) / mask).to(torch.float32)
        return torch.where(sprite, 1.0, noise.reshape(-1, 3, SIZE, SIZE))


@dataclass(frozen=True)
class Scream(Paint):
    """A random patch of a picture, averaged with a random colour and inverted inside the sprite."""

    stream: ClassVar[str] = "Scream"
    picture: Float[Tensor, "3 height width"]
    digest: str

    def __call__(self, sprite: Mask, index: Index) -> ColourImages:
        draw = self.uniform(index, 5)
        height, width = self.picture.shape[1:]
        pixel = torch.arange(SIZE, device=index.device)
        rows = (draw[:, 0, None] * (height - SIZE + 1)).to(torch.int64) + pixel
        columns = (draw[:, 1, None] * (width - SIZE + 1)).to(torch.int64) + pixel
        patch = self.picture[:, rows[:, :, None], columns[:, None, :]].transpose(0, 1)
        background = (patch + draw[:, 2:, None, None].to(torch.float32)) / 2
        return torch.where(sprite, 1 - background, background)

    def to(self, device: torch.device | str) -> Scream:
        return replace(self, seed=self.seed.to(device), picture=self.picture.to(device))

    @property
    def identity(self) -> str:
        return f"{super().identity}/background {self.digest}"


def _read_picture(path: Path) -> Float[Tensor, "3 height width"]:
    with open_image(path) as image:
        picture = image.convert("RGB")
    picture.thumbnail(MAX_BACKGROUND, Image.Resampling.BICUBIC)
    if min(picture.size) < SIZE:
        raise DataError(
            f"dsprites-scream: background must have at least {SIZE} x {SIZE} pixels after it is shrunk to fit into "
            f"{MAX_BACKGROUND[0]} x {MAX_BACKGROUND[1]}, but {path} has {picture.width} x {picture.height}. "
            "Use a larger or less elongated picture."
        )
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).to(torch.float32).contiguous() / 255


@dataclass(frozen=True, repr=False)
class Sprites(Dataset):
    """Sprites computed from their factors: white on black, or painted in three channels.

    Only small tables are stored. `batch` takes a one-dimensional index; on a CPU, an index outside the data set raises
    an IndexError.
    """

    name: str
    codes: SpriteGrid
    tables: RenderTables
    shape: tuple[int, ...]
    factor_table: Factors
    paint: Paint | None = None
    grid: bool = True
    source: Source | None = field(default=None, compare=False)

    @classmethod
    def of(cls, name: str, codes: SpriteGrid, paint: Paint | None = None) -> Sprites:
        """All combinations of the codes of a grid."""
        shape = (1 if paint is None else 3, SIZE, SIZE)
        return cls(name, codes, RenderTables.of(codes), shape, codes.factor_table, paint)

    def __len__(self) -> int:
        return self.factor_table.cells

    def batch(self, index: Index) -> Float[Tensor, "batch channels 64 64"]:
        sprite = render(self.tables.to(index.device), index)
        return sprite.to(torch.float32) if self.paint is None else self.paint.to(index.device)(sprite, index)

    def to(self, device: torch.device | str) -> Sprites:
        paint = None if self.paint is None else self.paint.to(device)
        return replace(self, tables=self.tables.to(device), paint=paint)

    @property
    def fingerprint(self) -> str:
        base = self.name if self.paint is None else "dsprites"
        white = _sha256(f"{base}/geometry {VERSION}/{self.codes.identity}")
        return white if self.paint is None else _sha256(f"{self.name}/{white}/{self.paint.identity}")


FULL = SpriteGrid()
# Every third of the 39 angles: evenly spaced, and no two of them near a quarter turn apart, so that all images differ,
# those of squares too.
SMALL = SpriteGrid(scales=(1, 3, 5), orientations=tuple(range(0, 39, 3)), positions=tuple(range(0, 32, 6)))
# Without rotations, a small net learns shapes, scales and positions in a minute or two on a CPU. Sprites move further
# across than up: latents align with directions of different variance (Rolinek et al.), so one encodes x and another y.
UPRIGHT = SpriteGrid(orientations=(0,), rows=tuple(range(9, 24, 2)))


def open_dsprites() -> Sprites:
    """All 737,280 images."""
    return Sprites.of("dsprites", FULL)


def open_small() -> Sprites:
    """A sub-grid that trains in a minute: 3 shapes, 3 scales, 13 orientations, 6 x 6 positions."""
    return Sprites.of("dsprites-small", SMALL)


def open_upright() -> Sprites:
    """Sprites that are not rotated: 3 shapes, 6 scales, 32 x 8 positions."""
    return Sprites.of("dsprites-upright", UPRIGHT)


def open_color(seed: int = 0) -> Sprites:
    """Each sprite in a random colour."""
    return Sprites.of("dsprites-color", FULL, Coloured(_checked_seed(seed)))


def open_noisy(seed: int = 0) -> Sprites:
    """White sprites on random noise."""
    return Sprites.of("dsprites-noisy", FULL, Noisy(_checked_seed(seed)))


def open_scream(background: str | os.PathLike[str] | None = None, seed: int = 0) -> Sprites:
    """Sprites that invert a random patch of the image file `background`."""
    if background is None:
        raise DataError(
            "dsprites-scream: the option background must name an image file, from which patches are cut. "
            "Pass background=PATH, for instance of Munch's The Scream."
        )
    path = Path(background)
    return Sprites.of("dsprites-scream", FULL, Scream(_checked_seed(seed), _read_picture(path), fingerprint_of(path)))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _checked_seed(seed: int) -> Tensor:
    return torch.tensor(random_seed(seed))


_MATTHEY, _LOCATELLO = "Matthey et al., 2017", "Locatello et al., 2019"
_ITEMS, _WHITE, _COLOUR = FULL.factor_table.cells, (1, SIZE, SIZE), (3, SIZE, SIZE)

ENTRIES = (
    DatasetEntry(
        "dsprites", "white sprites on black, rendered on demand", _MATTHEY, _ITEMS, _WHITE, NAMES, open_dsprites
    ),
    DatasetEntry(
        "dsprites-small", "a small sub-grid of dsprites", _MATTHEY, SMALL.factor_table.cells, _WHITE, NAMES, open_small
    ),
    DatasetEntry(
        "dsprites-upright",
        "dsprites that are not rotated, which train fast",
        _MATTHEY,
        UPRIGHT.factor_table.cells,
        _WHITE,
        NAMES,
        open_upright,
    ),
    DatasetEntry("dsprites-color", "dsprites in random colours", _LOCATELLO, _ITEMS, _COLOUR, NAMES, open_color),
    DatasetEntry("dsprites-noisy", "dsprites on random noise", _LOCATELLO, _ITEMS, _COLOUR, NAMES, open_noisy),
    DatasetEntry(
        "dsprites-scream",
        "dsprites on patches of a picture (needs background=PATH)",
        _LOCATELLO,
        _ITEMS,
        _COLOUR,
        NAMES,
        open_scream,
        lambda: f"{BUILT_IN}, with background=PATH",
    ),
)
