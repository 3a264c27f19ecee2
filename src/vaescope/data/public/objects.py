"""smallNORB, Cars3D and the file of dSprites: images of all combinations of their factors."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from jaxtyping import UInt8

from vaescope.codes.reading import numpy_archive
from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset, as_grid, fingerprint_of, from_array
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import Factors
from vaescope.data.dsprites import NAMES
from vaescope.data.images import resize
from vaescope.data.public.matrices import parse_norb
from vaescope.errors import DataError
from vaescope.progress import track

NORB_FACTORS = ("category", "instance", "elevation", "azimuth", "lighting")
NORB_SIZES = (5, 10, 9, 18, 6)
NORB_ORIGIN = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"

NORB_PARTS = {"training": "5x46789x9x18x6x2x96x96", "testing": "5x01235x9x18x6x2x96x96"}

# For each file, the MD5 of the published gzip file and of its uncompressed content.
NORB_CHECKSUMS = {
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
        name = f"smallnorb-{NORB_PARTS[stem.partition('-')[0]]}-{stem}.mat"
        checksum, unpacked = (f"md5:{digest}" if digest else "" for digest in (packed, content))
        files.append(PublicFile((f"{name}.gz", name), f"{NORB_ORIGIN}{name}.gz", checksum, unpacked))
    return PublicSet("smallnorb", NORB_ORIGIN, tuple(files))


SMALLNORB = norb_set(NORB_CHECKSUMS)


def open_smallnorb(published: PublicSet = SMALLNORB, size: int = 64) -> ArrayDataset:
    """smallNORB (LeCun et al., 2004): grey photographs of 50 toys by the first camera, resized from 96 x 96.

    The label is the category. Items of both parts are sorted by the five factors, so the complete data set is a grid of
    5 x 10 x 9 x 18 x 6. Published tables vary category, elevation, azimuth and lighting, and draw the instance, here
    the second factor, at random.
    """
    pixels, codes = [], []
    for part in range(0, len(published.files), 3):
        images, category, others = (
            parse_norb(cache.read(published, file), f"{published.name}: {file.names[0]}")
            for file in published.files[part : part + 3]
        )
        _check_norb(images, category, others, published.files[part].names[0])
        pixels.append(resize(images[:, :1], size))
        codes.append(np.column_stack([category, others]))
    factors = _norb_factors(np.concatenate(codes))
    order = np.lexsort(factors.T[::-1])
    items, factors = np.concatenate(pixels)[order], factors[order]
    return as_grid(from_array(items, published.name, labels=factors[:, 0], factors=factors, factor_names=NORB_FACTORS))


CAR_FACTORS = ("elevation", "azimuth", "object")
CARS = 183
CARS_FILE = "nips2015-analogy-data.tar.gz"

CARS3D = PublicSet(
    "cars3d",
    "http://www.scottreed.info/",
    (PublicFile((CARS_FILE,), f"http://www.scottreed.info/files/{CARS_FILE}", "md5:4e866a7919c1beedf53964e6f7a23686"),),
)


def open_cars3d(published: PublicSet = CARS3D, size: int = 64) -> ArrayDataset:
    """Cars3D (Reed et al., 2015): renderings of 183 cars from 24 azimuths and 4 elevations, resized from 128 x 128.

    They are the grid elevation x azimuth x object; the label is the object. Objects are numbered in the order of the
    file names cars/*.mat in the archive, each with an array `im` of height x width x 3 x azimuths x elevations.
    """
    path = cache.obtain(published, published.files[0])
    members = track(_car_files(path), f"reading {published.name}", CARS, long=True)
    views = {name: _car_views(content, f"{path}: {name}", size) for name, content in members}
    if not views:
        raise DataError(f"{path} must contain files cars/*.mat, got none. Download it again from {published.origin}.")
    shapes = {array.shape for array in views.values()}
    if len(shapes) > 1:
        raise DataError(f"{path}: all cars must have the same views, got arrays of shapes {sorted(shapes)}.")
    grid = np.stack([views[name] for name in sorted(views)], axis=2)
    codes = np.indices(grid.shape[:3]).reshape(3, -1).T
    items = grid.reshape(-1, *grid.shape[3:])
    return as_grid(from_array(items, published.name, labels=codes[:, 2], factors=codes, factor_names=CAR_FACTORS))


DSPRITES_KEYS = ("imgs", "latents_values", "latents_classes")
DSPRITES_FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
DSPRITES_ORIGIN = "https://github.com/google-deepmind/dsprites-dataset"

DSPRITES = PublicSet(
    "dsprites-file",
    DSPRITES_ORIGIN,
    (
        PublicFile(
            (DSPRITES_FILE,),
            f"{DSPRITES_ORIGIN}/raw/master/{DSPRITES_FILE}",
            checksum="md5:7da33b31b13a06f4b04a70402ce90c2e",
        ),
    ),
)


def open_dsprites(published: PublicSet = DSPRITES) -> ArrayDataset:
    """The published file of dSprites (Matthey et al., 2017): all images, in its order."""
    path = cache.obtain(published, published.files[0])
    images, values, classes = _dsprites_arrays(path)
    _check_dsprites(path, images, values, classes)
    # In place, because a copy of the published images would take another 3 GB.
    np.multiply(images, np.uint8(255), out=images)
    codes = torch.from_numpy(classes.astype(np.int16))
    sizes = tuple(int(size) + 1 for size in classes.max(axis=0))
    pixels = images[:, None]
    table = Factors(NAMES, sizes)
    return as_grid(ArrayDataset(published.name, pixels, pixels.shape[1:], fingerprint_of(path), None, table, codes))


def _check_norb(images: np.ndarray, category: np.ndarray, others: np.ndarray, name: str) -> None:
    count = len(images)
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1] != 2:
        raise DataError(f"smallnorb: {name} must be bytes of items x 2 cameras x height x width, got {images.shape}.")
    if category.shape != (count,) or others.shape != (count, 4):
        raise DataError(
            f"smallnorb: {name} has {count} items, so its cat file must have shape ({count},) and its info file "
            f"({count}, 4), got {category.shape} and {others.shape}. Download the three files again."
        )


def _norb_factors(codes: np.ndarray) -> np.ndarray:
    """The codes; azimuth is stored as 0, 2, ..., 34 (tens of degrees) and becomes 0 to 17."""
    factors = codes.astype(np.int64)
    azimuth = NORB_FACTORS.index("azimuth")
    if (factors[:, azimuth] % 2).any():
        raise DataError("smallnorb: azimuth must be even (0, 2, ..., 34), but the info files contain odd numbers.")
    factors[:, azimuth] //= 2
    for column, (name, size) in enumerate(zip(NORB_FACTORS, NORB_SIZES, strict=True)):
        low, high = factors[:, column].min(), factors[:, column].max()
        if low < 0 or high >= size:
            raise DataError(f"smallnorb: {name} must lie in 0..{size - 1}, but the files contain {low}..{high}.")
    return factors


def _car_files(path: Path) -> Iterator[tuple[str, bytes]]:
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


def _car_views(content: bytes, name: str, size: int) -> UInt8[np.ndarray, "elevations azimuths 3 size size"]:
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


def _dsprites_arrays(path: Path) -> tuple[np.ndarray, ...]:
    """The three arrays; the pickled metadata of the file is not read."""
    with numpy_archive(path) as archive:
        arrays = {key: archive[key] for key in DSPRITES_KEYS if key in archive.files}
    absent = [key for key in DSPRITES_KEYS if key not in arrays]
    if absent:
        raise DataError(
            f"{path} must contain the arrays {', '.join(DSPRITES_KEYS)}, but {', '.join(absent)} is missing. "
            f"Download the file again from {DSPRITES_ORIGIN}."
        )
    return tuple(arrays[key] for key in DSPRITES_KEYS)


def _check_dsprites(path: Path, images: np.ndarray, values: np.ndarray, classes: np.ndarray) -> None:
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
