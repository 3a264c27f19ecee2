"""Pictures in a zip or a folder, decoded once into a memory-mapped array in the user cache."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from vaescope.data import cache
from vaescope.data.images import not_an_image
from vaescope.errors import DataError
from vaescope.progress import track

CHUNK_PICTURES = 256

Transform = Callable[[np.ndarray], np.ndarray]


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
                try:
                    content = archive.read(member) if archive else (self.path / member).read_bytes()
                except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
                    raise DataError(
                        f"{self.path}: {member} is damaged or cannot be read ({error}). Download it again."
                    ) from error
                yield member, content


def list_pictures(path: Path, suffix: str) -> PictureFiles:
    """The pictures with this suffix, directly in a folder or anywhere in a zip."""
    members = _in_folder(path, suffix) if path.is_dir() else _in_zip(path, suffix)
    if len(members) < 2:
        raise DataError(f"{path} must contain at least 2 pictures with the suffix {suffix}, got {len(members)}.")
    identity = hashlib.sha256(repr(sorted(members.items())).encode()).hexdigest()
    order = sorted(members, key=lambda member: PurePosixPath(member).name)
    return PictureFiles(path, tuple(order), identity)


def decode_all(
    name: str, pictures: PictureFiles, mode: str, transform: Transform, recipe: str
) -> tuple[np.ndarray, str]:
    """The pictures as a memory-mapped uint8 array (items x channels x height x width), and its SHA-256.

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
        try:
            ready = [_build(name, folder, stem, pictures, mode, transform)]
        except OSError as error:
            raise DataError(
                f"{name}: writing the decoded pictures to {folder} failed ({error}). "
                "Free some disk space or make the folder writable."
            ) from error
    return np.load(ready[0], mmap_mode="r"), ready[0].stem.rpartition("-")[2]


def _build(name: str, folder: Path, stem: str, pictures: PictureFiles, mode: str, transform: Transform) -> Path:
    """Decode all pictures into one file, whose name ends with the hash of its pixels."""
    digest = hashlib.sha256()
    count = len(pictures.members)
    with cache.temporary_path(folder / stem) as part, part.open("wb") as file:
        for chunk in _chunks(pictures, mode, f"decoding {name}"):
            pixels = np.ascontiguousarray(transform(chunk))
            if file.tell() == 0:
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *pixels.shape[1:])}
                np.lib.format.write_array_header_1_0(file, header)
            digest.update(pixels.data)
            file.write(pixels.data)
        # Closed before it is moved, so that a failure to write the last bytes leaves no file under the final name.
        file.close()
        target = folder / f"{stem}-{digest.hexdigest()}.npy"
        os.replace(part, target)
    return target


def _chunks(pictures: PictureFiles, mode: str, title: str) -> Iterator[np.ndarray]:
    """The decoded pictures in chunks (items x channels x height x width); all must have the same size."""
    chunk: list[np.ndarray] = []
    first: tuple[int, ...] | None = None
    count = len(pictures.members)
    for member, content in track(pictures.contents(), title, count, long=count > CHUNK_PICTURES):
        pixels = _decode(content, pictures.path / member, mode)
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


def _decode(content: bytes, path: Path, mode: str) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(content)) as image:
            pixels = np.asarray(image.convert(mode))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise not_an_image(path, error) from error
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


def _in_folder(path: Path, suffix: str) -> dict[str, tuple[int, int]]:
    with os.scandir(path) as entries:
        files = [entry for entry in entries if _is_picture(entry.name, suffix) and entry.is_file()]
    return {entry.name: (entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files}


def _in_zip(path: Path, suffix: str) -> dict[str, tuple[int, int]]:
    """The members with their sizes and checksums, from the directory of the zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise DataError(f"{path} must be a zip file, but it is not or is truncated. Download it again.") from error
    return {entry.filename: (entry.file_size, entry.CRC) for entry in entries if _is_picture(entry.filename, suffix)}


def _is_picture(member: str, suffix: str) -> bool:
    """Whether a member is a picture; archives made on macOS contain hidden copies, whose names start with a dot."""
    name = PurePosixPath(member).name
    return name.endswith(suffix) and not name.startswith(".")
