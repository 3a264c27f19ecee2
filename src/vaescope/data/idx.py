"""A strict reader of IDX files, the format of MNIST: magic number, sizes, then exactly that many unsigned bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

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


def read_idx(path: Path, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """The unsigned bytes in an IDX file, plain or gzip; `dimensions` is the number of dimensions it must have."""
    return parse_idx(read_content(Path(path)), str(path), dimensions)


def read_content(path: Path) -> bytes:
    """The content of a file, uncompressed if it is gzip, whatever its name."""
    if path.is_dir():
        raise DataError(f"{path} must be a file, but it is a folder. Pass the file inside it.")
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is a truncated or damaged gzip file. Download it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from error
    if not content:
        raise DataError(f"{path} is empty. Download it again.")
    return content


def read_prefix(path: Path, size: int) -> bytes:
    """The first bytes of a file's content, uncompressed if it is gzip; b"" if the file cannot be read."""
    try:
        with path.open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            with gzip.open(file) if packed else file as content:
                return content.read(size)
    except (EOFError, zlib.error, OSError):
        return b""


def parse_idx(content: bytes, name: str, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """The unsigned bytes in the content of an IDX file; error messages call it `name`."""
    if len(content) < 4 or content[:2] != b"\x00\x00":
        raise DataError(
            f"{name} must be an IDX file, which starts with two zero bytes, a type and a number of dimensions; "
            f"it starts with {content[:4]!r}."
        )
    kind, rank = content[2], content[3]
    if kind != UNSIGNED_BYTE:
        other = OTHER_TYPES.get(kind, "an unknown type")
        raise DataError(f"{name} must contain unsigned bytes (IDX type 0x08), it contains {other} (0x{kind:02X}).")
    if rank == 0 or (dimensions is not None and rank != dimensions):
        raise DataError(f"{name} must have {dimensions or 'at least 1'} dimensions, its IDX header says {rank}.")
    start = 4 + 4 * rank
    if len(content) < start:
        raise DataError(f"{name} is truncated: its IDX header needs {start} bytes, the file has {len(content)}.")
    shape = struct.unpack(f">{rank}I", content[4:start])
    sizes = " x ".join(map(str, shape))
    expected = math.prod(shape)
    if expected == 0:
        raise DataError(f"{name} contains no data: its IDX header says {sizes} bytes. Download it again.")
    found = len(content) - start
    if found != expected:
        raise DataError(
            f"{name} is {'truncated' if found < expected else 'too long'}: its IDX header says {sizes} = {expected} "
            f"bytes, the file has {found}. Download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
