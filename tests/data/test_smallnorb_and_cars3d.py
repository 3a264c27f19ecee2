"""smallNORB and Cars3D, in small files in the published formats."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import io
import itertools
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.data.public import matrices, objects
from vaescope.errors import DataError


def matrix(array: np.ndarray) -> bytes:
    magic = 0x1E3D4C55 if array.dtype == np.uint8 else 0x1E3D4C54
    stored = (*array.shape, 1, 1)[: max(3, array.ndim)]
    content = array if array.dtype == np.uint8 else array.astype("<i4")
    return struct.pack(f"<{2 + len(stored)}I", magic, array.ndim, *stored) + content.tobytes()


NORB = objects.norb_set(dict.fromkeys(objects.NORB_CHECKSUMS, ("", "")))
# Two categories, two instances, three elevations, two azimuths and one lighting: a whole little grid.
CODES = np.array(list(itertools.product(range(2), range(2), range(3), range(2), range(1))))


def write_norb(folder: Path, codes: np.ndarray = CODES, packed: bool = True, **changes: np.ndarray) -> None:
    """The first camera shows a bright square whose grey names the item, the second camera nothing."""
    (folder / "smallnorb").mkdir(exist_ok=True)
    order = np.random.default_rng(0).permutation(len(codes))
    for half, part in enumerate(("training", "testing")):
        items = order[half::2]
        images = np.zeros((len(items), 2, 96, 96), np.uint8)
        images[:, 0] = (255 - items).astype(np.uint8)[:, None, None]
        info = codes[items, 1:] * np.array([1, 1, 2, 1])
        arrays = {"dat": images, "cat": codes[items, 0], "info": info, **changes}
        for kind, array in arrays.items():
            name = f"smallnorb-{objects.NORB_PARTS[part]}-{part}-{kind}.mat{'.gz' if packed else ''}"
            path = folder / "smallnorb" / name
            path.write_bytes(gzip.compress(matrix(array)) if packed else matrix(array))


def test_the_matrix_format_is_that_of_the_published_files() -> None:
    """The published category file is 0, 1, 2, 3, 4 over and over, so its checksum can be rebuilt."""
    content = matrix(np.tile(np.arange(5), 4860))
    checksums = {md5 for stem, (_, md5) in objects.NORB_CHECKSUMS.items() if stem.endswith("cat")}
    assert checksums == {hashlib.md5(content, usedforsecurity=False).hexdigest()}
    assert matrices.parse_norb(content, "cat")[:7].tolist() == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("packed", [True, False])
def test_smallnorb_is_sorted_into_a_grid_of_unsigned_pixels(folder: Path, packed: bool) -> None:
    write_norb(folder, packed=packed)
    data = objects.open_smallnorb(NORB)
    assert (len(data), data.shape, data.grid) == (24, (1, 64, 64), True)
    assert data.factor_table is not None
    assert (data.factor_table.names, data.factor_table.sizes) == (objects.NORB_FACTORS, (2, 2, 3, 2, 1))
    expected = (255 - torch.arange(24).float())[:, None, None, None] / 255
    torch.testing.assert_close(data.batch(torch.arange(24)), expected.expand(24, 1, 64, 64))
    assert data.factors is not None
    assert data.labels is not None
    assert data.factors.tolist() == CODES.tolist()
    assert data.labels.tolist() == CODES[:, 0].tolist()


def test_a_part_of_smallnorb_is_not_a_grid(folder: Path) -> None:
    write_norb(folder, CODES[:-1])
    data = objects.open_smallnorb(NORB, size=8)
    assert (len(data), data.shape, data.grid) == (23, (1, 8, 8), False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dat": np.zeros((12, 1, 96, 96), np.uint8)}, "2 cameras"),
        ({"dat": np.zeros((12, 2, 8, 8), np.int32)}, "2 cameras"),
        ({"cat": np.zeros(11, np.int32)}, r"cat file .*\(12,\).*\(11,\)"),
        ({"info": np.zeros((12, 3), np.int32)}, r"info file .*\(12, 4\).*\(12, 3\)"),
        ({"cat": np.full(12, 5)}, r"category .*0\.\.4.*5\.\.5"),
        ({"info": np.full((12, 4), 1)}, "azimuth must be even"),
        ({"info": np.full((12, 4), 8)}, r"lighting .*0\.\.5"),
        ({"info": np.full((12, 4), -2)}, r"instance .*0\.\.9"),
    ],
)
def test_inconsistent_smallnorb_files_are_an_error_that_names_the_fault(
    folder: Path, changes: dict[str, np.ndarray], words: str
) -> None:
    write_norb(folder, **changes)
    with pytest.raises(DataError, match=words):
        objects.open_smallnorb(NORB)


def test_other_files_with_the_names_of_smallnorb_fail_its_checksums(folder: Path) -> None:
    write_norb(folder)
    with pytest.raises(DataError, match=r"^smallnorb: .*training-dat\.mat\.gz .*checksum md5"):
        objects.open_smallnorb()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (matrix(np.zeros((2, 3, 4, 5), np.uint8))[:-1], r"truncated.*2 x 3 x 4 x 5.* 120 bytes, .* 119"),
        (matrix(np.arange(4)) + b"\x00", "too long"),
        (b"\x00" * 30, "NORB matrix .* 0x00000000"),
        (b"short", "truncated.* 20 bytes, got 5"),
        (struct.pack("<5I", 0x1E3D4C55, 9, 1, 1, 1), "1 to 4 dimensions .* says 9"),
        (struct.pack("<5I", 0x1E3D4C55, 0, 1, 1, 1), "1 to 4 dimensions .* says 0"),
    ],
)
def test_a_wrong_matrix_is_an_error_that_names_the_fault(content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=f"^file .*{words}"):
        matrices.parse_norb(content, "file")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([0x1E3D4C55, 0x1E3D4C54]), st.integers(0, 5))
def test_any_bytes_after_the_magic_are_read_or_refused(tail: bytes, magic: int, rank: int) -> None:
    content = struct.pack("<2I", magic, rank) + tail
    with contextlib.suppress(DataError):
        array = matrices.parse_norb(content, "file")
        assert array.ndim == rank
        assert content.endswith(array.tobytes())


CARS = dataclasses.replace(objects.CARS3D, files=(dataclasses.replace(objects.CARS3D.files[0], checksum=""),))


def mesh(car: int, azimuths: int = 3, elevations: int = 2) -> np.ndarray:
    """Views of 128x128 whose three channels name car, azimuth and elevation."""
    views = np.zeros((128, 128, 3, azimuths, elevations), np.uint8)
    views[:, :, 0] = car
    views[:, :, 1] = np.arange(azimuths)[:, None]
    views[:, :, 2] = np.arange(elevations)
    return views


def mat(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, do_compression=True)
    return stream.getvalue()


def write_cars(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "cars3d" / objects.CARS_FILE
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def cars(count: int = 4) -> dict[str, bytes]:
    """Cars in reverse order of their names, among files that do not belong to the set."""
    members = {f"data/cars/car_{car:03d}_mesh.mat": mat(im=mesh(car)) for car in reversed(range(count))}
    others = {
        "data/cars/list.txt": b"car_000",
        "data/cars/._car_000_mesh.mat": b"x",
        "data/sprites/a.mat": b"x",
    }
    return {**members, **others}


def test_cars3d_is_the_grid_of_elevation_azimuth_object(folder: Path) -> None:
    write_cars(folder, cars())
    data = objects.open_cars3d(CARS)
    assert (len(data), data.shape, data.grid) == (24, (3, 64, 64), True)
    assert data.factor_table is not None
    assert (data.factor_table.names, data.factor_table.sizes) == (objects.CAR_FACTORS, (2, 3, 4))
    assert data.factors is not None
    shown = (data.batch(torch.arange(24))[:, :, 10, 20] * 255).round().to(torch.int64)
    assert torch.equal(shown.flip(1), data.factors.to(torch.int64))
    assert data.labels is not None
    assert torch.equal(data.labels, shown[:, 0])
    assert not (folder / "data").exists()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"data/cars/list.txt": b""}, r"cars/\*\.mat"),
        ({"data/cars/a.mat": b"not a matlab file"}, "a.mat must be a MATLAB file"),
        ({"data/cars/a.mat": mat(im=mesh(0))[:500]}, "a.mat must be a MATLAB file"),
        ({"data/cars/a.mat": b""}, "a.mat must be a MATLAB file"),
        ({"data/cars/a.mat": mat(other=mesh(0))}, "`im`.* nothing"),
        ({"data/cars/a.mat": mat(im=mesh(0)[..., 0])}, "`im`"),
        ({"data/cars/a.mat": mat(im=mesh(0).astype(float))}, "`im`.*float64"),
        (
            {"data/cars/a.mat": mat(im=mesh(0)), "data/cars/b.mat": mat(im=mesh(0, azimuths=4))},
            r"same views.*\b4\b",
        ),
    ],
)
def test_a_wrong_archive_of_cars_is_an_error_that_names_the_fault(
    folder: Path, members: dict[str, bytes], words: str
) -> None:
    write_cars(folder, members)
    with pytest.raises(DataError, match=words):
        objects.open_cars3d(CARS)


def test_a_truncated_archive_of_cars_is_an_error(folder: Path) -> None:
    path = write_cars(folder, cars())
    content = path.read_bytes()
    for wrong in (content[: len(content) // 2], b"", b"no archive"):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=r"tar\.gz archive"):
            objects.open_cars3d(CARS)
    with pytest.raises(DataError, match=r"^cars3d: .*checksum md5:4e866a79"):
        objects.open_cars3d()
