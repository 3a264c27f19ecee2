"""Symmetric solids and CelebA: pictures in a zip or a folder, decoded once into a memory-mapped array in the cache."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from vaescope.codes.reading import parsing, reading
from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import Factors
from vaescope.data.file_rows import Rows, open_rows
from vaescope.data.images import open_image, resize
from vaescope.data.stored_rows import store_rows
from vaescope.errors import DataError
from vaescope.progress import track

CHUNK_PICTURES = 256

SHAPES = ("tet", "cube", "icosa", "cone", "cyl")
SHAPE_PATTERN = re.compile("|".join(SHAPES))

SYMSOL = PublicSet(
    "symsol_reduced",
    "https://data.kent.ac.uk/436/1/symsol_reduced.zip",
    (PublicFile(("symsol_reduced.zip", "symsol_reduced"), pictures=".png"),),
)

ATTRIBUTE_VALUES = {"-1": 0, "1": 1}

# There is no download link, because users must agree to terms first.
CELEBA = PublicSet(
    "celeba",
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (Align&Cropped Images)",
    (
        PublicFile(("img_align_celeba.zip", "img_align_celeba"), pictures=".jpg"),
        PublicFile(("list_attr_celeba.txt",), optional=True),
    ),
)


Transform: TypeAlias = Callable[[np.ndarray], np.ndarray]


def open_symsol(published: PublicSet = SYMSOL) -> ArrayDataset:
    """Symmetric solids (Murphy et al., 2021) as reduced by Bonheme: grey images of 64 x 64, labelled by shape.

    They are sorted by file name, from the zip or a folder of its PNG files. A file name (without its folders) must
    contain exactly one of tet, cube, icosa, cone and cyl, as in `cone_00012.png` or `00012_cone.png`; labels 0 to 4
    follow that order.
    """
    pictures = list_pictures(cache.obtain(published, published.files[0]), ".png")
    labels = torch.tensor([_label(name, pictures.path) for name in pictures.names])
    items, digest = decode_all(published.name, pictures, "L", lambda pixels: pixels, "grey")
    table = Factors(("shape",), (len(SHAPES),))
    codes = labels[:, None].to(torch.int16)
    return ArrayDataset(published.name, items, items.shape[1:], digest, labels, table, codes)


def open_celeba(published: PublicSet = CELEBA, size: int = 64, crop: int = 148) -> ArrayDataset:
    """CelebA (Liu et al., 2015): faces sorted by file name, from the zip or an unpacked folder.

    The central crop x crop pixels of each 178 x 218 picture are resized to size x size. The result is kept in the user
    cache. The 40 binary attributes are the factors; there are none if list_attr_celeba.txt is missing.
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
    with reading(path, "a list of attributes"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) < 3 or lines[0].strip() != str(len(lines) - 2):
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


@dataclass(frozen=True)
class PictureFiles:
    """The pictures in a zip or a folder, sorted by name.

    Attributes:
        members: The path of each picture inside `path`.
        identity: A hash that changes when a picture is added, removed or replaced.
    """

    path: Path
    members: tuple[str, ...]
    identity: str

    @property
    def names(self) -> tuple[str, ...]:
        """The file name of each picture, without folders."""
        return tuple(PurePosixPath(member).name for member in self.members)

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Path and undecoded bytes of each picture."""
        with nullcontext() if self.path.is_dir() else zipfile.ZipFile(self.path) as archive:
            for member in self.members:
                with parsing(self.path / member, "a whole picture"):
                    content = archive.read(member) if archive else (self.path / member).read_bytes()
                yield member, content


def list_pictures(path: Path, suffix: str) -> PictureFiles:
    """The pictures with this suffix, directly in a folder or anywhere in a zip."""

    def is_picture(member: str) -> bool:
        name = PurePosixPath(member).name
        # Archives made on macOS contain hidden copies, whose names start with a dot.
        return name.endswith(suffix) and not name.startswith(".")

    if path.is_dir():
        with os.scandir(path) as entries:
            files = [entry for entry in entries if is_picture(entry.name) and entry.is_file()]
        members = {entry.name: (entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files}
    else:
        with reading(path, "a whole zip file"), zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if is_picture(info.filename)]
        members = {info.filename: (info.file_size, info.CRC) for info in infos}
    if len(members) < 2:
        raise DataError(f"{path} must contain at least 2 pictures with the suffix {suffix}, got {len(members)}.")
    identity = hashlib.sha256(repr(sorted(members.items())).encode()).hexdigest()
    order = sorted(members, key=lambda member: PurePosixPath(member).name)
    return PictureFiles(path, tuple(order), identity)


def decode_all(name: str, pictures: PictureFiles, mode: str, transform: Transform, recipe: str) -> tuple[Rows, str]:
    """The pictures as a uint8 array in a file (items x channels x height x width), and its SHA-256.

    Args:
        mode: The mode of Pillow, "L" or "RGB".
        transform: Applied to chunks of decoded pictures.
        recipe: A short name of `mode` and `transform`: each recipe has its own file in the cache.
    """
    folder = cache.user_cache(name)
    if folder is None:
        raise DataError(f"{name}: caching decoded pictures needs the package pooch, which is not installed.")
    stem = f"pictures-{recipe}-{pictures.identity[:16]}"
    if not (ready := sorted(folder.glob(f"{stem}-*.npy"))):
        chunks = _chunks(pictures, mode, f"decoding {name}")
        ready = [store_rows(map(transform, chunks), folder, stem)]
    return open_rows(ready[0]), ready[0].stem.rpartition("-")[2]


def _chunks(pictures: PictureFiles, mode: str, title: str) -> Iterator[np.ndarray]:
    """The decoded pictures in chunks (items x channels x height x width); all must have the same size."""
    chunk: list[np.ndarray] = []
    first: tuple[int, ...] | None = None
    count = len(pictures.members)
    for member, content in track(pictures.contents(), title, count, long=count > CHUNK_PICTURES):
        with open_image(pictures.path / member, content) as image:
            pixels = np.asarray(image.convert(mode))
        pixels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
        first = first or pixels.shape
        if pixels.shape != first:
            raise DataError(
                f"{pictures.path}: all pictures must have the size of the first, {first[2]} x {first[1]}, but "
                f"{member} has {pixels.shape[2]} x {pixels.shape[1]}."
            )
        chunk.append(pixels)
        if len(chunk) == CHUNK_PICTURES:
            yield np.stack(chunk)
            chunk = []
    if chunk:
        yield np.stack(chunk)


def _label(name: str, path: Path) -> int:
    shapes = set(SHAPE_PATTERN.findall(name.removesuffix(".png")))
    if len(shapes) != 1:
        raise DataError(
            f"{path}: each file name must contain exactly one of {', '.join(SHAPES)}, as in cone_00012.png, "
            f"got {name!r}. Rename or remove that file."
        )
    return SHAPES.index(shapes.pop())


def _crop_and_resize(pixels: np.ndarray, crop: int, size: int) -> np.ndarray:
    height, width = pixels.shape[2:]
    if not 0 < crop <= min(height, width):
        raise DataError(
            f"celeba: crop must lie in 1..{min(height, width)} for pictures of {width} x {height}, got {crop}."
        )
    top, left = (height - crop) // 2, (width - crop) // 2
    return resize(pixels[:, :, top : top + crop, left : left + crop], size)
