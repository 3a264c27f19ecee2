"""The published dSprites file (Matthey et al., 2017): 737,280 binary images with six factors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from vaescope.codes.reading import numpy_archive
from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset, as_grid, fingerprint_of
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import Factors
from vaescope.data.dsprites import NAMES
from vaescope.errors import DataError

KEYS = ("imgs", "latents_values", "latents_classes")
FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
ORIGIN = "https://github.com/google-deepmind/dsprites-dataset"

DSPRITES = PublicSet(
    "dsprites-file",
    ORIGIN,
    (PublicFile((FILE,), f"{ORIGIN}/raw/master/{FILE}", checksum="md5:7da33b31b13a06f4b04a70402ce90c2e"),),
)


def open_dsprites(published: PublicSet = DSPRITES) -> ArrayDataset:
    """All images of the file, in its order."""
    path = cache.obtain(published, published.files[0])
    images, values, classes = _load(path)
    _check(path, images, values, classes)
    # In place, because a copy of the published images would take another 3 GB.
    np.multiply(images, np.uint8(255), out=images)
    codes = torch.from_numpy(classes.astype(np.int16))
    sizes = tuple(int(size) + 1 for size in classes.max(axis=0))
    pixels = images[:, None]
    table = Factors(NAMES, sizes)
    return as_grid(ArrayDataset(published.name, pixels, pixels.shape[1:], fingerprint_of(path), None, table, codes))


def _load(path: Path) -> tuple[np.ndarray, ...]:
    """The three arrays; the pickled metadata of the file is not read."""
    with numpy_archive(path) as archive:
        arrays = {key: archive[key] for key in KEYS if key in archive.files}
    absent = [key for key in KEYS if key not in arrays]
    if absent:
        raise DataError(
            f"{path} must contain the arrays {', '.join(KEYS)}, but {', '.join(absent)} is missing. "
            f"Download the file again from {ORIGIN}."
        )
    return tuple(arrays[key] for key in KEYS)


def _check(path: Path, images: np.ndarray, values: np.ndarray, classes: np.ndarray) -> None:
    if images.ndim != 3 or images.dtype != np.uint8 or len(images) < 2:
        raise DataError(
            f"{path}: imgs must be uint8 of items x height x width with at least 2 items, "
            f"got {images.shape} of {images.dtype}."
        )
    if int(images.max()) != 1:
        raise DataError(f"{path}: the pixels in imgs must be 0 or 1, but the largest is {int(images.max())}.")
    expected = (len(images), len(NAMES))
    for key, array in (("latents_values", values), ("latents_classes", classes)):
        if array.shape != expected:
            raise DataError(f"{path}: {key} must be items x factors = {expected}, got {array.shape}.")
    if not np.issubdtype(classes.dtype, np.integer) or int(classes.min()) < 0:
        raise DataError(f"{path}: latents_classes must be integers from 0, got {classes.dtype} from {classes.min()}.")
