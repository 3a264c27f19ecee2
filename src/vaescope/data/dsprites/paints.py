"""The paints of the coloured, noisy and scream variants of dSprites (Locatello et al., 2019)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from vaescope.data.arrays import fingerprint_of
from vaescope.data.dsprites.geometry import SIZE
from vaescope.errors import DataError
from vaescope.numerics import counter

THUMBNAIL = (350, 274)
"""Backgrounds are shrunk into this width and height, as in disentanglement_lib."""

_CHANNEL_BITS = 17
"""A uniform number has 53 random bits: enough for three channels."""


@dataclass(frozen=True)
class Paint(ABC):
    """Turns sprites into colour images; the same image for the same seed and index, in any batch."""

    seed: Int[Tensor, ""]

    @abstractmethod
    def __call__(
        self, sprite: Bool[Tensor, "batch 1 64 64"], index: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch 3 64 64"]:
        """The painted images, float32 in [0, 1]."""

    def to(self, device: torch.device | str) -> Paint:
        """The same paint on `device`."""
        return replace(self, seed=self.seed.to(device))

    @property
    def identity(self) -> str:
        """What decides how the paint looks."""
        return f"{type(self).__name__}/seed {int(self.seed)}"

    def uniform(self, index: Int[Tensor, "batch"], columns: int) -> Float[Tensor, "batch columns"]:
        """Random numbers of each item, float64 in [0, 1)."""
        return counter.uniform(self.seed, type(self).__name__, torch.zeros_like(self.seed), index, columns)


@dataclass(frozen=True)
class Coloured(Paint):
    """Each sprite in a colour of its own, every channel uniform in [.5, 1], on black."""

    def __call__(
        self, sprite: Bool[Tensor, "batch 1 64 64"], index: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch 3 64 64"]:
        colour = 0.5 + 0.5 * self.uniform(index, 3).to(torch.float32)
        return sprite * colour[:, :, None, None]


@dataclass(frozen=True)
class Noisy(Paint):
    """White sprites on noise that is uniform in [0, 1] and independent for each pixel and channel."""

    def __call__(
        self, sprite: Bool[Tensor, "batch 1 64 64"], index: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch 3 64 64"]:
        bits = (self.uniform(index, SIZE * SIZE) * 2.0 ** (3 * _CHANNEL_BITS)).to(torch.int64)
        mask = 2**_CHANNEL_BITS - 1
        channels = [(bits >> (channel * _CHANNEL_BITS)) & mask for channel in range(3)]
        noise = torch.stack(channels, dim=1).to(torch.float32) / mask
        return torch.where(sprite, 1.0, noise.reshape(-1, 3, SIZE, SIZE))


@dataclass(frozen=True)
class Scream(Paint):
    """A random patch of a picture mixed half and half with a random colour, inverted where the sprite is."""

    picture: Float[Tensor, "3 height width"]
    digest: str

    @classmethod
    def of(cls, seed: Tensor, path: Path) -> Scream:
        """The paint whose patches come from an image file."""
        return cls(seed, _picture(path), fingerprint_of(path))

    def __call__(
        self, sprite: Bool[Tensor, "batch 1 64 64"], index: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch 3 64 64"]:
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


def _picture(path: Path) -> Float[Tensor, "3 height width"]:
    if not path.is_file():
        raise DataError(f"dsprites-scream: background must name an image file, got {path}, which is not a file.")
    try:
        with Image.open(path) as file:
            picture = file.convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise DataError(
            f"dsprites-scream: background must be an image that can be read, {path} cannot ({error}). "
            "Name another file or save this one anew as PNG."
        ) from error
    picture.thumbnail(THUMBNAIL, Image.Resampling.BICUBIC)
    if min(picture.size) < SIZE:
        raise DataError(
            f"dsprites-scream: background must measure at least {SIZE} x {SIZE} pixels within "
            f"{THUMBNAIL[0]} x {THUMBNAIL[1]}, {path} has {picture.width} x {picture.height} there. "
            "Name a larger or less elongated picture."
        )
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).to(torch.float32).contiguous() / 255
