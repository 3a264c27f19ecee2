"""Strict readers of two binary formats: IDX (MNIST) and the matrices of NORB; a header, then exactly its values."""

from __future__ import annotations

import math
import struct

import numpy as np
from jaxtyping import UInt8

from vaescope.errors import DataError

IDX_BYTES = 0x08
OTHER_IDX_TYPES = {
    0x09: "signed bytes",
    0x0B: "16-bit integers",
    0x0C: "32-bit integers",
    0x0D: "32-bit floats",
    0x0E: "64-bit floats",
}
MAX_RANK = 4
NORB_BYTES, NORB_INTEGERS = 0x1E3D4C55, 0x1E3D4C54
NORB_TYPES: dict[int, np.dtype[np.integer]] = {NORB_BYTES: np.dtype(np.uint8), NORB_INTEGERS: np.dtype("<i4")}


def parse_idx(content: bytes, name: str, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """The unsigned bytes in the content of an IDX file: type, number of dimensions, sizes, values.

    Args:
        name: The name of the file in error messages.
        dimensions: The number of dimensions it must have. Default: any.
    """
    if len(content) < 4 or content[:2] != b"\x00\x00":
        raise DataError(
            f"{name} must be an IDX file, which starts with two zero bytes, a type and a number of dimensions; "
            f"this file starts with {content[:4]!r}."
        )
    kind, rank = content[2], content[3]
    if kind != IDX_BYTES:
        other = OTHER_IDX_TYPES.get(kind, "an unknown type")
        raise DataError(f"{name} must contain unsigned bytes (IDX type 0x08), but it contains {other} (0x{kind:02X}).")
    if not 1 <= rank <= MAX_RANK or rank != (dimensions or rank):
        allowed = f"1 to {MAX_RANK}" if dimensions is None else dimensions
        raise DataError(f"{name} must have {allowed} dimensions, but its IDX header says {rank}.")
    start = 4 + 4 * rank
    if len(content) < start:
        raise DataError(f"{name} is truncated: its IDX header needs {start} bytes, but the file has {len(content)}.")
    return _values(content, start, struct.unpack(f">{rank}I", content[4:start]), np.dtype(np.uint8), name)


def parse_norb(content: bytes, name: str) -> np.ndarray:
    """A matrix of NORB: magic number, number of dimensions, their sizes (at least three are written), the values."""
    if len(content) < 20:
        raise DataError(
            f"{name} is truncated: the header of a NORB matrix has at least 20 bytes, got {len(content)} bytes."
        )
    magic, rank = struct.unpack("<2I", content[:8])
    if magic not in NORB_TYPES:
        raise DataError(
            f"{name} must be a NORB matrix of bytes (0x{NORB_BYTES:08X}) or integers (0x{NORB_INTEGERS:08X}), "
            f"but it starts with 0x{magic:08X}."
        )
    start = 8 + 4 * max(3, rank)
    if not 1 <= rank <= MAX_RANK or len(content) < start:
        raise DataError(
            f"{name} must have 1 to {MAX_RANK} dimensions and a complete header, but its header says {rank}."
        )
    return _values(content, start, struct.unpack(f"<{rank}I", content[8 : 8 + 4 * rank]), NORB_TYPES[magic], name)


def _values(content: bytes, start: int, shape: tuple[int, ...], kind: np.dtype[np.integer], name: str) -> np.ndarray:
    expected, found = math.prod(shape) * kind.itemsize, len(content) - start
    sizes = " x ".join(map(str, shape))
    if expected == 0:
        raise DataError(f"{name} contains no data: its header says {sizes} values. Download it again.")
    if found != expected:
        raise DataError(
            f"{name} is {'truncated' if found < expected else 'too long'}: its header says {sizes} = {expected} bytes, "
            f"the file has {found}. Download it again."
        )
    return np.frombuffer(content, kind, offset=start).reshape(shape)
