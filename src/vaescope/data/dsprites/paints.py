"""Paints of the coloured, noisy and scream variants of dSprites (Locatello et al., 2019)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from vaescope.data.arrays import fingerprint_of
from vaescope.data.dsprites.geometry import SIZE
from vaescope.errors import DataError
from vaescope.numerics import counter

MAX_BACKGROUND = (350, 274)
"""Backgrounds are shrunk to fit into this width and height, as in disentanglement_lib."""

_CHANNEL_BITS = 17
"""A uniform number has 53 random bits, enough for three channels."""


@dataclass(frozen=True)
class Paint(ABC):
    """Turns sprites into colour images; an image depends on the seed and its index, not on the batch.

    `stream` names the random numbers and enters the fingerprint: changing it would change images and ids of runs.
    """

    stream: ClassVar[str]
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
        """Text that determines the paint; it enters the fingerprint of the data set."""
        return f"{self.stream}/seed {int(self.seed)}"

    def uniform(self, index: Int[Tensor, "batch"], columns: int) -> Float[Tensor, "batch columns"]:
        """Random numbers for each item, float64 in [0, 1)."""
        return counter.uniform(self.seed, self.stream, torch.zeros_like(self.seed), index, columns)


@dataclass(frozen=True)
class Coloured(Paint):
    """Each sprite in a random colour, every channel uniform in [0.5, 1], on black."""

    stream: ClassVar[str] = "Coloured"

    def __call__(
        self, sprite: Bool[Tensor, "batch 1 64 64"], index: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch 3 64 64"]:
        colour = 0.5 + 0.5 * self.uniform(index, 3).to(torch.float32)
        return sprite * colour[:, :, None, None]


@dataclass(frozen=True)
class Noisy(Paint):
    """White sprites on noise, uniform in [0, 1] and independent for each pixel and channel."""

    stream: ClassVar[str] = "Noisy"

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
    """A random patch of a picture, averaged with a random colour and inverted inside the sprite."""

    stream: ClassVar[str] = "Scream"
    picture: Float[Tensor, "3 height width"]
    digest: str

    @classmethod
    def of(cls, seed: Tensor, path: Path) -> Scream:
        """A paint with patches from an image file."""
        return cls(seed, _read_picture(path), fingerprint_of(path))

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


def _read_picture(path: Path) -> Float[Tensor, "3 height width"]:
    if not path.is_file():
        raise DataError(f"dsprites-scream: background must name an image file, but {path} is not a file.")
    try:
        with Image.open(path) as file:
            picture = file.convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise DataError(
            f"dsprites-scream: background must be a readable image, but {path} is not ({error}). "
            "Use another file or save this one again as PNG."
        ) from error
    picture.thumbnail(MAX_BACKGROUND, Image.Resampling.BICUBIC)
    if min(picture.size) < SIZE:
        raise DataError(
            f"dsprites-scream: background must have at least {SIZE} x {SIZE} pixels after it is shrunk to fit into "
            f"{MAX_BACKGROUND[0]} x {MAX_BACKGROUND[1]}, but {path} has {picture.width} x {picture.height}. "
            "Use a larger or less elongated picture."
        )
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).to(torch.float32).contiguous() / 255
