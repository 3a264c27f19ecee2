"""smallNORB (LeCun et al., 2004): grey photographs of 50 toys, in the binary matrix format of its authors."""

from __future__ import annotations

import numpy as np

from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset, as_grid, from_array
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.images import resize
from vaescope.data.public.matrices import parse_norb
from vaescope.errors import DataError

FACTORS = ("category", "instance", "elevation", "azimuth", "lighting")
SIZES = (5, 10, 9, 18, 6)
ORIGIN = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"

PARTS = {"training": "5x46789x9x18x6x2x96x96", "testing": "5x01235x9x18x6x2x96x96"}

# For each file, the MD5 of the published gzip file and of its uncompressed content.
CHECKSUMS = {
    "training-dat": ("66054832f9accfe74a0f4c36a75bc0a2", "8138a0902307b32dfa0025a36dfa45ec"),
    "training-cat": ("23c8b86101fbf0904a000b43d3ed2fd9", "fd5120d3f770ad57ebe620eb61a0b633"),
    "training-info": ("51dee1210a742582ff607dfd94e332e3", "19faee774120001fc7e17980d6960451"),
    "testing-dat": ("e4ad715691ed5a3a5f138751a4ceb071", "e9920b7f7b2869a8f1a12e945b2c166c"),
    "testing-cat": ("5aa791cd7e6016cf957ce9bdb93b8603", "fd5120d3f770ad57ebe620eb61a0b633"),
    "testing-info": ("a9454f3864d7fd4bb3ea7fc3eb84924e", "7c5b871cc69dcadec1bf6a18141f5edc"),
}


def norb_set(checksums: dict[str, tuple[str, str]]) -> PublicSet:
    """The six files of smallNORB: pixels, category and other factors of the training and the test part."""
    files = []
    for stem, (packed, content) in checksums.items():
        name = f"smallnorb-{PARTS[stem.partition('-')[0]]}-{stem}.mat"
        checksum, unpacked = (f"md5:{digest}" if digest else "" for digest in (packed, content))
        files.append(PublicFile((f"{name}.gz", name), f"{ORIGIN}{name}.gz", checksum, unpacked))
    return PublicSet("smallnorb", ORIGIN, tuple(files))


SMALLNORB = norb_set(CHECKSUMS)


def open_smallnorb(published: PublicSet = SMALLNORB, size: int = 64) -> ArrayDataset:
    """The training and the test part, first camera only, resized from 96 x 96; the label is the category.

    Items are sorted by the five factors, so the complete data set is a grid of 5 x 10 x 9 x 18 x 6. Published tables
    vary category, elevation, azimuth and lighting, and draw the instance, here the second factor, at random.
    """
    pixels, codes = [], []
    for part in range(0, len(published.files), 3):
        images, category, others = (
            parse_norb(cache.read(published, file), f"{published.name}: {file.names[0]}")
            for file in published.files[part : part + 3]
        )
        _check_shapes(images, category, others, published.files[part].names[0])
        pixels.append(resize(images[:, :1], size))
        codes.append(np.column_stack([category, others]))
    factors = _factors(np.concatenate(codes))
    order = np.lexsort(factors.T[::-1])
    items = np.concatenate(pixels)[order]
    factors = factors[order]
    return as_grid(from_array(items, published.name, labels=factors[:, 0], factors=factors, factor_names=FACTORS))


def _check_shapes(images: np.ndarray, category: np.ndarray, others: np.ndarray, name: str) -> None:
    count = len(images)
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1] != 2:
        raise DataError(f"smallnorb: {name} must be bytes of items x 2 cameras x height x width, got {images.shape}.")
    if category.shape != (count,) or others.shape != (count, 4):
        raise DataError(
            f"smallnorb: {name} has {count} items, so its cat file must have shape ({count},) and its info file "
            f"({count}, 4), got {category.shape} and {others.shape}. Download the three files again."
        )


def _factors(codes: np.ndarray) -> np.ndarray:
    """The codes; azimuth is stored as 0, 2, ..., 34 (tens of degrees) and becomes 0 to 17."""
    factors = codes.astype(np.int64)
    azimuth = FACTORS.index("azimuth")
    if (factors[:, azimuth] % 2).any():
        raise DataError("smallnorb: azimuth must be even (0, 2, ..., 34), but the info files contain odd numbers.")
    factors[:, azimuth] //= 2
    for column, (name, size) in enumerate(zip(FACTORS, SIZES, strict=True)):
        low, high = factors[:, column].min(), factors[:, column].max()
        if low < 0 or high >= size:
            raise DataError(f"smallnorb: {name} must lie in 0..{size - 1}, but the files contain {low}..{high}.")
    return factors
