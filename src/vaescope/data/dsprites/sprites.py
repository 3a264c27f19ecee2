"""dSprites rendered on demand: the binary set, and sets painted over it in colour."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.dataset import Dataset, Factors
from vaescope.data.dsprites.geometry import SIZE, VERSION, Grid, Tables, render
from vaescope.data.dsprites.paints import Paint


@dataclass(frozen=True, repr=False)
class Sprites(Dataset):
    """White sprites on black; an image is a function of its factors and nothing but small tables is stored.

    `batch` takes a one-dimensional index. An index outside the set is an IndexError on a CPU.
    """

    name: str
    codes: Grid
    tables: Tables
    factor_table: Factors
    shape: tuple[int, ...] = (1, SIZE, SIZE)
    grid: bool = True

    @classmethod
    def of(cls, name: str, codes: Grid) -> Sprites:
        """The set of all combinations of the codes of a grid."""
        return cls(name, codes, Tables.of(codes), codes.factor_table)

    def __len__(self) -> int:
        return self.factor_table.cells

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch 1 64 64"]:
        return render(self.tables.to(index.device), index).to(torch.float32)

    def to(self, device: torch.device | str) -> Sprites:
        return replace(self, tables=self.tables.to(device))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.name}/geometry {VERSION}/{self.codes}".encode()).hexdigest()


@dataclass(frozen=True, repr=False)
class PaintedSprites(Dataset):
    """Sprites in three channels, painted with randomness that is a function of seed and index."""

    name: str
    sprites: Sprites
    paint: Paint
    factor_table: Factors
    shape: tuple[int, ...] = (3, SIZE, SIZE)
    grid: bool = True

    @classmethod
    def of(cls, name: str, paint: Paint) -> PaintedSprites:
        """The whole published grid, painted."""
        sprites = Sprites.of("dsprites", Grid())
        return cls(name, sprites, paint, sprites.factor_table)

    def __len__(self) -> int:
        return len(self.sprites)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch 3 64 64"]:
        sprite = render(self.sprites.tables.to(index.device), index)
        return self.paint.to(index.device)(sprite, index)

    def to(self, device: torch.device | str) -> PaintedSprites:
        return replace(self, sprites=self.sprites.to(device), paint=self.paint.to(device))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.name}/{self.sprites.fingerprint}/{self.paint.identity}".encode()).hexdigest()
