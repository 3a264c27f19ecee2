"""Procedural dSprites: the published grid of 737,280 images, a small one, and three painted variants."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from vaescope.data.dsprites.geometry import NAMES, SIZE, Grid
from vaescope.data.dsprites.paints import Coloured, Noisy, Scream
from vaescope.data.dsprites.sprites import PaintedSprites, Sprites
from vaescope.data.source import BUILT_IN, Source
from vaescope.errors import DataError

# Every third of the 39 angles: evenly round the circle, and no two of them near a quarter turn apart, so that
# all images differ, squares too.
SMALL = Grid(scales=(1, 3, 5), orientations=tuple(range(0, 39, 3)), positions=tuple(range(0, 32, 6)))


def open_dsprites() -> Sprites:
    """All 737,280 images."""
    return Sprites.of("dsprites", Grid())


def open_small() -> Sprites:
    """A sub-grid that trains in a minute: 3 shapes, 3 scales, 13 orientations, 6 x 6 positions."""
    return Sprites.of("dsprites-small", SMALL)


def open_color(seed: int = 0) -> PaintedSprites:
    """Each sprite in a random colour."""
    return PaintedSprites.of("dsprites-color", Coloured(_seed(seed, "dsprites-color")))


def open_noisy(seed: int = 0) -> PaintedSprites:
    """White sprites on random noise."""
    return PaintedSprites.of("dsprites-noisy", Noisy(_seed(seed, "dsprites-noisy")))


def open_scream(background: str | os.PathLike[str] | None = None, seed: int = 0) -> PaintedSprites:
    """Sprites that invert a random patch of the image file `background`."""
    if background is None:
        raise DataError(
            "dsprites-scream: the option background must name an image file to cut patches from, got none. "
            "Pass background=PATH, for instance of Munch's The Scream."
        )
    return PaintedSprites.of("dsprites-scream", Scream.of(_seed(seed, "dsprites-scream"), Path(background)))


def _seed(seed: int, name: str) -> Tensor:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise DataError(f"{name}: the option seed must be a whole number from 0 to 2^63 - 1, got {seed!r}.")
    return torch.tensor(seed)


_FULL, _COLOUR = Grid().factor_table.cells, (3, SIZE, SIZE)

SOURCES: tuple[Source, ...] = (
    Source("dsprites", "white sprites on black, rendered on demand", _FULL, (1, SIZE, SIZE), NAMES, open_dsprites),
    Source(
        "dsprites-small",
        "a sub-grid of dsprites for a first try",
        SMALL.factor_table.cells,
        (1, SIZE, SIZE),
        NAMES,
        open_small,
    ),
    Source("dsprites-color", "dsprites in random colours", _FULL, _COLOUR, NAMES, open_color),
    Source("dsprites-noisy", "dsprites on random noise", _FULL, _COLOUR, NAMES, open_noisy),
    Source(
        "dsprites-scream",
        "dsprites over patches of a picture (needs background=PATH)",
        _FULL,
        _COLOUR,
        NAMES,
        open_scream,
        lambda: f"{BUILT_IN}, with background=PATH",
    ),
)
