"""dSprites rendered on demand, in white or painted in colour."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.dataset import Dataset, Factors
from vaescope.data.dsprites.geometry import SIZE, VERSION, RenderTables, SpriteGrid, render
from vaescope.data.dsprites.paints import Paint


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

    @classmethod
    def of(cls, name: str, codes: SpriteGrid, paint: Paint | None = None) -> Sprites:
        """All combinations of the codes of a grid."""
        shape = (1 if paint is None else 3, SIZE, SIZE)
        return cls(name, codes, RenderTables.of(codes), shape, codes.factor_table, paint)

    def __len__(self) -> int:
        return self.factor_table.cells

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch channels 64 64"]:
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


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
