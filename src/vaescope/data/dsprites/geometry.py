"""Geometry of dSprites (Matthey et al., 2017): the pixels that a sprite covers, as a function of its factors."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vaescope.data.dataset import Factors

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


@dataclass(frozen=True)
class SpriteGrid:
    """The published codes of each factor that a data set contains; x and y have the same position codes."""

    shapes: tuple[int, ...] = (SQUARE, ELLIPSE, HEART)
    scales: tuple[int, ...] = tuple(range(len(SCALES)))
    orientations: tuple[int, ...] = tuple(range(len(ANGLES)))
    positions: tuple[int, ...] = tuple(range(len(CENTRES)))

    @property
    def factor_table(self) -> Factors:
        """Names and sizes in the published order."""
        places = len(self.positions)
        sizes = (1, len(self.shapes), len(self.scales), len(self.orientations), places, places)
        return Factors(NAMES, sizes)

    @property
    def identity(self) -> str:
        """Text that enters the fingerprint of the data set; changing it would change the ids of existing runs."""
        scales, orientations = f"scales={self.scales}", f"orientations={self.orientations}"
        return f"Grid(shapes={self.shapes}, {scales}, {orientations}, positions={self.positions})"


@dataclass(frozen=True)
class RenderTables:
    """Lookup tables for rendering, so that it computes no sine and copies nothing to the device.

    A pose is a combination of shape, scale and orientation. The window is the square of pixels around a sprite.

    Attributes:
        shapes: The shape of each pose.
        turns: For each pose, the numbers (a, b, c, d) with u = a dx + b dy and v = c dx + d dy.
        starts: For each position, the first row or column of the window.
        offsets: For each position, the distances of the window's rows or columns from the centre.
        pixels: Positions of the window's pixels in a flat image, relative to its first pixel.
    """

    shapes: Int[Tensor, "poses"]
    turns: Float[Tensor, "poses 4"]
    starts: Int[Tensor, "positions"]
    offsets: Float[Tensor, "positions window"]
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


def render(tables: RenderTables, index: Int[Tensor, "batch"]) -> Bool[Tensor, "batch 1 64 64"]:
    """The sprites at `index` of the grid.

    All shapes are static and nothing leaves the device, so it can be compiled and captured in a CUDA graph.
    It computes in float64, so that all devices agree on the pixels at an outline.
    """
    places = len(tables.starts)
    pose, x, y = index // places**2, index // places % places, index % places
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
