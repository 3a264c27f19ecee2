"""A strict reader of IDX files, the format of MNIST: magic, sizes, then exactly that many unsigned bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from vaescope.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08
OTHER_TYPES = {
    0x09: "signed bytes",
    0x0B: "16-bit integers",
    0x0C: "32-bit integers",
    0x0D: "32-bit floats",
    0x0E: "64-bit floats",
}


def read_idx(path: Path, dimensions: int | None = None) -> np.ndarray:
    """The unsigned bytes in an IDX file, plain or gzip; `dimensions` states how many it must have."""
    return parse_idx(read_content(Path(path)), str(path), dimensions)


def read_content(path: Path) -> bytes:
    """The content of a file, unpacked if it is gzip, whatever its name says."""
    if path.is_dir():
        raise DataError(f"{path} must be a file, it is a folder. Give the file inside it.")
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} must be a whole gzip file, it is cut short or damaged. Fetch it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from error
    if not content:
        raise DataError(f"{path} must hold data, it is empty. Fetch it again.")
    return content


def read_opening(path: Path, size: int) -> bytes:
    """The first bytes of a file's content, unpacked if it is gzip; nothing of a file that cannot be read."""
    try:
        with path.open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            with gzip.open(file) if packed else file as content:
                return content.read(size)
    except (EOFError, zlib.error, OSError):
        return b""


def parse_idx(content: bytes, name: str, dimensions: int | None = None) -> np.ndarray:
    """The unsigned bytes in the content of an IDX file; `name` stands for it in messages."""
    if len(content) < 4 or content[:2] != b"\x00\x00":
        raise DataError(
            f"{name} must be an IDX file, which begins with two zero bytes, a type and a rank; "
            f"it begins with {content[:4]!r}."
        )
    kind, rank = content[2], content[3]
    if kind != UNSIGNED_BYTE:
        held = OTHER_TYPES.get(kind, "a type IDX does not know")
        raise DataError(f"{name} must hold unsigned bytes (IDX type 0x08), it holds {held} (0x{kind:02X}).")
    if rank == 0 or (dimensions is not None and rank != dimensions):
        raise DataError(f"{name} must have {dimensions or 'at least 1'} dimensions, its IDX header says {rank}.")
    start = 4 + 4 * rank
    if len(content) < start:
        raise DataError(f"{name} is cut short inside its IDX header of {start} bytes, it has {len(content)}.")
    shape = struct.unpack(f">{rank}I", content[4:start])
    expected = math.prod(shape)
    if expected == 0:
        raise DataError(f"{name} must hold data, its IDX header says {_times(shape)} items. Fetch it again.")
    found = len(content) - start
    if found != expected:
        fault = "is cut short" if found < expected else "is too long"
        raise DataError(
            f"{name} {fault}: its IDX header says {_times(shape)} = {expected} bytes, {found} follow. Fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
