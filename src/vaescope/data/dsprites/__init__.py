"""Procedural dSprites: the published grid of 737,280 images, a small one, and three painted variants."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.data.dataset import MAX_SEED
from vaescope.data.dsprites.geometry import NAMES, SIZE, SpriteGrid
from vaescope.data.dsprites.paints import Coloured, Noisy, Scream
from vaescope.data.dsprites.sprites import Sprites
from vaescope.data.entry import BUILT_IN, DatasetEntry
from vaescope.errors import DataError

FULL = SpriteGrid()
# Every third of the 39 angles: evenly spaced, and no two of them near a quarter turn apart, so that all images differ,
# those of squares too.
SMALL = SpriteGrid(scales=(1, 3, 5), orientations=tuple(range(0, 39, 3)), positions=tuple(range(0, 32, 6)))


def open_dsprites() -> Sprites:
    """All 737,280 images."""
    return Sprites.of("dsprites", FULL)


def open_small() -> Sprites:
    """A sub-grid that trains in a minute: 3 shapes, 3 scales, 13 orientations, 6 x 6 positions."""
    return Sprites.of("dsprites-small", SMALL)


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
    return Sprites.of("dsprites-scream", FULL, Scream.of(_checked_seed(seed), Path(background)))


def _checked_seed(seed: int) -> Tensor:
    return torch.tensor(whole_number("seed", seed, 0, MAX_SEED))


_MATTHEY, _LOCATELLO = "Matthey et al., 2017", "Locatello et al., 2019"
_ITEMS, _WHITE, _COLOUR = FULL.factor_table.cells, (1, SIZE, SIZE), (3, SIZE, SIZE)
_SMALL_ITEMS = SMALL.factor_table.cells

ENTRIES = (
    DatasetEntry(
        "dsprites", "white sprites on black, rendered on demand", _MATTHEY, _ITEMS, _WHITE, NAMES, open_dsprites
    ),
    DatasetEntry("dsprites-small", "a small sub-grid of dsprites", _MATTHEY, _SMALL_ITEMS, _WHITE, NAMES, open_small),
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
