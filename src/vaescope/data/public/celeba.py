"""CelebA (Liu et al., 2015): aligned faces, cropped to the central square, with 40 binary attributes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import Factors
from vaescope.data.images import resize
from vaescope.data.public.pictures import decode_all, list_pictures
from vaescope.errors import DataError

ATTRIBUTE_VALUES = {"-1": 0, "1": 1}

IMAGES = PublicFile(("img_align_celeba.zip", "img_align_celeba"), pictures=".jpg")
ATTRIBUTES = PublicFile(("list_attr_celeba.txt",), optional=True)
# There is no download link, because users must agree to terms first.
CELEBA = PublicSet(
    "celeba", "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (Align&Cropped Images)", (IMAGES, ATTRIBUTES)
)


def open_celeba(published: PublicSet = CELEBA, size: int = 64, crop: int = 148) -> ArrayDataset:
    """The faces sorted by file name, from the zip or an unpacked folder; attributes are binary factors.

    The central crop x crop pixels of each 178 x 218 picture are resized to size x size. The result is kept in the user
    cache. There are no factors if list_attr_celeba.txt is missing.
    """
    pictures = list_pictures(cache.obtain(published, published.files[0]), ".jpg")
    attributes = cache.find(published, published.files[1])
    # Read first, so that errors in it are reported before minutes of decoding.
    table, codes = (None, None) if attributes is None else read_attributes(attributes, pictures.names)
    transform = partial(_crop_and_resize, crop=crop, size=size)
    items, digest = decode_all(published.name, pictures, "RGB", transform, f"crop{crop}-size{size}")
    return ArrayDataset(published.name, items, items.shape[1:], digest, None, table, codes)


def read_attributes(path: Path, pictures: tuple[str, ...]) -> tuple[Factors, Tensor]:
    """The attributes of each picture.

    The file contains the number of rows, a line of names, then rows of a file name and -1 or 1 for each attribute.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) < 3 or not lines[0].strip().isdigit() or int(lines[0]) != len(lines) - 2:
        raise DataError(
            f"{path} must start with the number of its rows and a line of attribute names, but starts with "
            f"{lines[:1]} and has {max(0, len(lines) - 2)} rows. Download it again."
        )
    names = tuple(lines[1].split())
    rows: dict[str, list[int]] = {}
    for number, line in enumerate(lines[2:], start=3):
        picture, *values = line.split() or [""]
        if len(values) != len(names) or not ATTRIBUTE_VALUES.keys() >= set(values):
            raise DataError(f"{path}: line {number} must be a file name and {len(names)} values -1 or 1, got {line!r}.")
        rows[picture] = [ATTRIBUTE_VALUES[value] for value in values]
    absent = [picture for picture in pictures if picture not in rows]
    if absent:
        raise DataError(
            f"{path} must have a row for each picture, but {len(absent)} have none, the first is {absent[0]}. "
            "Download it again."
        )
    codes = torch.tensor([rows[picture] for picture in pictures], dtype=torch.int16)
    return Factors(names, (2,) * len(names)), codes


def _crop_and_resize(pixels: np.ndarray, crop: int, size: int) -> np.ndarray:
    height, width = pixels.shape[2:]
    if not 0 < crop <= min(height, width):
        raise DataError(
            f"celeba: crop must lie in 1..{min(height, width)} for pictures of {width} x {height}, got {crop}."
        )
    top, left = (height - crop) // 2, (width - crop) // 2
    return resize(pixels[:, :, top : top + crop, left : left + crop], size)
