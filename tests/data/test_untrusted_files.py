"""Malicious files: each is a `DataError` that names it, without a crash, a hang or the start of another program."""

from __future__ import annotations

import io
import os
import socket
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.codes import Representation, read_codes
from vaescope.data import image_sets, images, open_dataset
from vaescope.data.conditions import condition_table, condition_width
from vaescope.data.public.matrices import parse_idx
from vaescope.errors import ConfigurationError, DataError, UnknownNameError

ROWS = np.random.default_rng(0).random((6, 4))
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"

HEADERS = {
    "no closed bracket": "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 4), ",
    "an unclosed string": "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 4), '''",
    "a list as a key": "{[]:1}",
    "ten thousand signs": "-" * 9_000 + "1",
    "nested brackets": "(" * 4_000,
    "booleans as sizes": "{'descr': '<f8', 'fortran_order': False, 'shape': (True, True), }",
    "negative sizes": "{'descr': '<f8', 'fortran_order': False, 'shape': (-6, -4), }",
    "sizes beyond 64 bits": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30}, 4), }}",
    "sizes that overflow": "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
    "a type that is no type": "{'descr': '<f9999999999999', 'fortran_order': False, 'shape': (6, 4), }",
    "a type of many parts": "{'descr': [('a', '<f8', (2, [1]))], 'fortran_order': False, 'shape': (6, 4), }",
    "eight pebibytes": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**50}, 1), }}",
}


def npy(header: str, version: int = 1) -> bytes:
    text = header.encode("latin1") + b"\n"
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + bytes(192)
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_wrong_header_of_an_array_is_an_error_in_a_file_and_in_an_archive(
    tmp_path: Path, header: str, version: int
) -> None:
    (tmp_path / "a.npy").write_bytes(npy(header, version))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("mean.npy", npy(header, version))
        archive.writestr("x.npy", npy(header, version))
    for read in (
        lambda: open_dataset(tmp_path / "a.npy"),
        lambda: open_dataset(tmp_path / "a.npz", key="x"),
        lambda: read_codes(tmp_path / "a.npz"),
        lambda: Representation.load(tmp_path / "a.npz"),
    ):
        with pytest.raises(DataError, match=r"a\.np[yz]") as caught:
            read()
        assert len(str(caught.value)) < 1000
        assert str(caught.value).isprintable()


def change_central_directory(content: bytes, offset: int, value: int) -> bytes:
    """A zip archive with a 16-bit field of the local and of the central header of its first member replaced."""
    changed = bytearray(content)
    struct.pack_into("<H", changed, content.index(b"PK\x03\x04") + offset - 2, value)
    struct.pack_into("<H", changed, content.index(b"PK\x01\x02") + offset, value)
    return bytes(changed)


ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "encrypted": lambda content: change_central_directory(content, 8, 1),
    "of an unknown compression": lambda content: change_central_directory(content, 10, 97),
    "falsely compressed by LZMA": lambda content: change_central_directory(content, 10, 14),
    "falsely compressed by bzip2": lambda content: change_central_directory(content, 10, 12),
    "falsely compressed by deflate": lambda content: change_central_directory(content, 10, 8),
}


@pytest.mark.parametrize("change", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_that_zipfile_cannot_unpack_is_an_error(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    saved = io.BytesIO()
    np.savez(saved, mean=ROWS, variance=ROWS)
    (tmp_path / "a.npz").write_bytes(change(saved.getvalue()))
    for read in (lambda: open_dataset(tmp_path / "a.npz", key="mean"), lambda: read_codes(tmp_path / "a.npz")):
        with pytest.raises(DataError, match=r"a\.npz"):
            read()


def in_time(action: Callable[[], object]) -> None:
    """Run an action in a thread; the test fails if it takes over 10 s."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]


@POSIX
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npy", ".npz", ".png", ""])
def test_a_pipe_is_refused_and_does_not_hang(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    path = folder / f"a{suffix}"
    os.mkfifo(path)
    with pytest.raises(DataError, match="pipe"):
        in_time(lambda: open_dataset(folder if suffix == ".png" else path))
    if suffix in (".csv", ".npz"):
        with pytest.raises(DataError, match="pipe"):
            in_time(lambda: read_codes(path))


@POSIX
def test_a_socket_and_a_device_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    (tmp_path / "b.csv").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.csv")
        for name in ("a.csv", "b.csv"):
            with pytest.raises(DataError, match="device"):
                in_time(lambda name=name: open_dataset(name))


def test_impossible_file_names_are_unknown_data_sets() -> None:
    for name in ("a" * 300, "a" * 5000 + ".csv", "b/" * 3000, "a\0b", "~nobody-has-this-name/x.npy"):
        with pytest.raises(UnknownNameError, match="neither a known data set nor"):
            open_dataset(name)
        with pytest.raises(DataError):
            read_codes(f"{name}.npz")


def test_broken_links_are_named(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "broken.csv").symlink_to("nowhere.csv")
    (tmp_path / "set").mkdir()
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "set" / "a.png")
    (tmp_path / "set" / "b.png").symlink_to("nowhere.png")
    for name in ("loop.csv", "broken.csv", "set"):
        with pytest.raises(DataError, match=r"loop\.csv|broken\.csv|b\.png"):
            open_dataset(tmp_path / name)


READ_AS_NOBODY = """
import os, sys
from vaescope.data import open_dataset
from vaescope.codes import read_codes
from vaescope.errors import VaescopeError
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    for read in (open_dataset, read_codes):
        try:
            read(path)
        except VaescopeError as error:
            print(type(error).__name__, error)
"""


@POSIX
def test_missing_read_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "closed").mkdir()
    (tmp_path / "names only").mkdir()
    for path in ("closed/a.png", "names only/a.png"):
        Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / path)
    np.save(tmp_path / "a.npy", ROWS)
    np.savez(tmp_path / "a.npz", mean=ROWS, variance=ROWS)
    modes = {"closed": 0, "names only": 0o444, "a.npy": 0, "a.npz": 0}
    for name, mode in modes.items():
        (tmp_path / name).chmod(mode)
    command = [sys.executable, "-c", READ_AS_NOBODY, *modes]
    try:
        # From inside the folder, because other users may not enter its parents.
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    finally:
        for path in ("closed", "names only"):
            (tmp_path / path).chmod(0o755)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["DataError"] * 8
    assert sum("Permission denied" in line for line in lines) == 5
    assert all(any(name in line for line in lines) for name in modes)


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_no_other_program_is_started_for_an_image(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*command: object, **options: object) -> None:
        raise AssertionError(f"started {command}")

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(subprocess, "check_call", start)
    (tmp_path / name).write_bytes(EPS)
    (tmp_path / f"b{name}").write_bytes(EPS)
    for read in (
        lambda: open_dataset(tmp_path),
        lambda: open_dataset(tmp_path, size=4, colour=True),
        lambda: open_dataset("dsprites-scream", background=tmp_path / name),
    ):
        with pytest.raises(DataError, match=r"readable image, PNG or JPEG"):
            read()


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "WEBP"])
def test_only_png_and_jpeg_are_opened_whatever_the_suffix(tmp_path: Path, kind: str) -> None:
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "a.png", format=kind)
    with pytest.raises(DataError, match=r"a\.png .*PNG or JPEG"):
        open_dataset(tmp_path)


def test_an_image_of_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 32)
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((13, 13), np.uint8)).save(tmp_path / name)
    with pytest.raises(DataError, match=r"a\.png .*at most 64 pixels"):
        open_dataset(tmp_path, size=4)


def test_a_folder_whose_images_do_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((3, 3), np.uint8)).save(tmp_path / name)
    with pytest.raises(ConfigurationError, match=r"2 images of 1 x 10000000 x 10000000 pixels .*memory"):
        open_dataset(tmp_path, size=10**7)
    with pytest.raises(ConfigurationError, match=r"images of 1 x 10000000 x 10000000 pixels .*memory"):
        images.resize(np.zeros((1, 1, 3, 3), np.uint8), 10**7)
    with pytest.raises(ConfigurationError, match="size must be a positive number"):
        open_dataset(tmp_path, size=10**400)


def test_large_images_are_decoded_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        Image.fromarray(np.full((13, 13), 10 * number, np.uint8)).save(tmp_path / f"{number:02}.png")
    Image.fromarray(np.zeros((3, 3), np.uint8)).save(tmp_path / "small.png")
    monkeypatch.setattr(image_sets, "LARGE_PIXELS", 100)
    flattened, decoded = images._flattened, []

    def watched(image: Image.Image) -> Image.Image:
        decoded.append((image.size, threading.current_thread() is threading.main_thread()))
        return flattened(image)

    monkeypatch.setattr(images, "_flattened", watched)
    dataset = open_dataset(tmp_path, size=4)
    assert decoded == [((3, 3), False)] + [((13, 13), True)] * 20
    np.testing.assert_allclose(dataset.batch(torch.arange(21))[:, 0, 0, 0], [*(np.arange(20) / 25.5), 0], atol=1e-6)


def test_a_huge_jpeg_is_shrunk_while_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.jpg", "b.jpg"):
        Image.fromarray(np.full((128, 64), ord(name[0]), np.uint8)).save(tmp_path / name)
    whole = images.read_image(tmp_path / "a.jpg", colour=False, size=4)
    monkeypatch.setattr(images, "HUGE_PIXELS", 1000)
    decoded = []
    flattened = images._flattened
    monkeypatch.setattr(images, "_flattened", lambda image: decoded.append(image.size) or flattened(image))
    np.testing.assert_allclose(images.read_image(tmp_path / "a.jpg", colour=False, size=4), whole, atol=1)
    assert decoded == [(8, 16)]


@pytest.mark.parametrize("rank", [5, 33, 65, 255])
def test_an_idx_file_of_too_many_dimensions_is_an_error(rank: int) -> None:
    with pytest.raises(DataError, match=f"dimensions.* {rank}"):
        parse_idx(bytes([0, 0, 8, rank]) + struct.pack(">I", 1) * rank + b"\x01", "file")


@pytest.mark.parametrize("label", [10**15, 2**50])
def test_huge_labels_are_kept_but_cannot_be_conditions(tmp_path: Path, label: int) -> None:
    (tmp_path / "a.csv").write_text(f"1,2,0\n3,4,1\n5,6,{label:g}\n")
    dataset = open_dataset(tmp_path / "a.csv", label=3)
    for call in (lambda: condition_width(dataset, "label"), lambda: condition_table(dataset, "label", 3)):
        with pytest.raises(DataError, match=r"a\.csv: labels .*without large gaps"):
            call()


def test_a_file_name_that_is_not_utf8_is_shown_with_escapes(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.npy")
    np.save(path, ROWS)
    dataset = open_dataset(path)
    assert dataset.name.endswith(r"caf\udce9.npy")
    assert dataset.name.encode()
    assert dataset.fingerprint == open_dataset(ROWS).fingerprint
