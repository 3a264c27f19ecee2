"""IDX files: round trips, and a clear error for every kind of damage."""

from __future__ import annotations

import contextlib
import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vaescope.data.cache import read_content
from vaescope.data.public.matrices import parse_idx
from vaescope.errors import DataError


def idx(array: np.ndarray, kind: int = 0x08) -> bytes:
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@settings(max_examples=50, deadline=None)
@given(arrays.arrays(np.uint8, arrays.array_shapes(max_dims=4, max_side=4)))
def test_a_written_file_is_read_back(array: np.ndarray) -> None:
    np.testing.assert_array_equal(parse_idx(idx(array), "file"), array)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_exactly_or_refused(content: bytes) -> None:
    with contextlib.suppress(DataError):
        assert idx(parse_idx(content, "file")) == content


@pytest.mark.parametrize("name", ["images.gz", "images"])
@pytest.mark.parametrize("packed", [True, False])
def test_gzip_is_recognised_by_content_and_not_by_name(tmp_path: Path, name: str, packed: bool) -> None:
    (tmp_path / name).write_bytes(gzip.compress(idx(IMAGES)) if packed else idx(IMAGES))
    np.testing.assert_array_equal(parse_idx(read_content(tmp_path / name), name, dimensions=3), IMAGES)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (idx(IMAGES)[:-1], "truncated.* 2 x 3 x 4 = 24 bytes, .* 23"),
        (idx(IMAGES) + b"\x00", "too long.* 2 x 3 x 4 = 24 bytes, .* 25"),
        (idx(IMAGES)[:9], "truncated.* 16 bytes, .* 9"),
        (b"\x89PNG\r\n", r"must be an IDX file.* b'\\x89PNG'"),
        (b"\x00\x00", "must be an IDX file"),
        (idx(IMAGES, kind=0x09), r"unsigned bytes .* signed bytes \(0x09\)"),
        (idx(IMAGES, kind=0x0D), r"32-bit floats \(0x0D\)"),
        (idx(IMAGES, kind=0x42), r"unknown type \(0x42\)"),
        (b"\x00\x00\x08\x00\x05", "1 to 4 dimensions.* 0"),
        (idx(IMAGES[:0]), "no data.* 0 x 3 x 4"),
        (b"", "empty"),
        (gzip.compress(idx(IMAGES), mtime=0)[:-9], "whole file, plain or gzip"),
        (gzip.compress(idx(IMAGES), mtime=0)[:12] + b"damage", "whole file, plain or gzip"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_fault(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "train-images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"train-images.*{words}"):
        parse_idx(read_content(path), str(path))


def test_a_file_of_labels_is_not_read_as_images() -> None:
    with pytest.raises(DataError, match=r"^labels must have 3 dimensions.* 1\.$"):
        parse_idx(idx(np.zeros(5, np.uint8)), "labels", dimensions=3)


def test_a_huge_size_in_the_header_is_refused_without_allocating() -> None:
    header = bytes([0, 0, 8, 4]) + struct.pack(">4I", *(2**32 - 1,) * 4)
    with pytest.raises(DataError, match="truncated"):
        parse_idx(header, "file")


def test_a_folder_and_a_missing_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        read_content(tmp_path)
    with pytest.raises(DataError, match="nowhere"):
        read_content(tmp_path / "nowhere")
