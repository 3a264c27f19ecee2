"""Cars3D (Reed et al., 2015): colour renderings of 183 cars from 24 azimuths and 4 elevations."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import UInt8

from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset, as_grid, from_array
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.images import resize
from vaescope.errors import DataError
from vaescope.progress import track

FACTORS = ("elevation", "azimuth", "object")
CARS = 183
FILE = "nips2015-analogy-data.tar.gz"

CARS3D = PublicSet(
    "cars3d",
    "http://www.scottreed.info/",
    (
        PublicFile(
            (FILE,),
            f"http://www.scottreed.info/files/{FILE}",
            checksum="md5:4e866a7919c1beedf53964e6f7a23686",
        ),
    ),
)


def open_cars3d(published: PublicSet = CARS3D, size: int = 64) -> ArrayDataset:
    """All renderings, resized from 128 x 128, as the grid elevation x azimuth x object; the label is the object.

    Objects are numbered in the order of the file names cars/*.mat in the archive. Each file contains an array `im`
    of height x width x 3 x azimuths x elevations.
    """
    path = cache.obtain(published, published.files[0])
    members = track(_members(path), f"reading {published.name}", CARS, long=True)
    views = {name: _views(content, f"{path}: {name}", size) for name, content in members}
    if not views:
        raise DataError(f"{path} must contain files cars/*.mat, got none. Download it again from {published.origin}.")
    shapes = {array.shape for array in views.values()}
    if len(shapes) > 1:
        raise DataError(f"{path}: all cars must have the same views, got arrays of shapes {sorted(shapes)}.")
    grid = np.stack([views[name] for name in sorted(views)], axis=2)
    codes = np.indices(grid.shape[:3]).reshape(3, -1).T
    items = grid.reshape(-1, *grid.shape[3:])
    return as_grid(from_array(items, published.name, labels=codes[:, 2], factors=codes, factor_names=FACTORS))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file cars/*.mat in the archive."""
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                # Archives made on macOS contain hidden copies, whose names start with a dot.
                is_car = name.parent.name == "cars" and name.suffix == ".mat" and not name.name.startswith(".")
                if is_car and (stream := archive.extractfile(member)):
                    yield name.name, stream.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path} must be a tar.gz archive, but it is not or is truncated ({error}).") from error


def _views(content: bytes, name: str, size: int) -> UInt8[np.ndarray, "elevations azimuths 3 size size"]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        image = loadmat(io.BytesIO(content), variable_names=["im"]).get("im")
    except (MatReadError, ValueError, TypeError, NotImplementedError, OSError, zlib.error) as error:
        raise DataError(f"{name} must be a MATLAB file, but cannot be read as one ({error}).") from error
    if image is None or image.ndim != 5 or image.shape[2] != 3 or image.dtype != np.uint8:
        got = "nothing" if image is None else f"{image.shape} of {image.dtype}"
        raise DataError(
            f"{name} must contain `im`, uint8 of height x width x 3 x azimuths x elevations, got {got}. "
            "Download the archive again."
        )
    views = image.transpose(4, 3, 2, 0, 1)
    return resize(views.reshape(-1, *views.shape[2:]), size).reshape(*views.shape[:3], size, size)
