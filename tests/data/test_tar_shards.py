"""Tar files in the layout of WebDataset: images, labels, factors; decoded once; damage and attacks are errors."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data import Dataset, image_sets, images, open_dataset, tar_samples, tar_shards
from vaescope.data.file_rows import FileRows
from vaescope.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)
WORDS = ["cat", "ant", "bee", "bee", "ant", "cat"]
NUMBERS = [2, 0, 1, 1, 0, 2]


def picture(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def write_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], kind: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w:", format=kind) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return path


def sample(item: int, *, label: object = None, table: object = None) -> list[tuple[tarfile.TarInfo, bytes]]:
    found = [member(f"{item:06d}.png", picture(PIXELS[item]))]
    found += [] if label is None else [member(f"{item:06d}.cls", f"{label}\n".encode())]
    return found + ([] if table is None else [member(f"{item:06d}.json", json.dumps(table).encode())])


@pytest.fixture
def shards(folder: Path) -> Path:
    """Two shards of three samples with words as labels, and a table with a number and a word."""
    (folder / "shards").mkdir()
    for shard in range(2):
        members = [
            one
            for item in range(3 * shard, 3 * shard + 3)
            for one in sample(item, label=WORDS[item], table={"height": 10 * NUMBERS[item], "kind": WORDS[item]})
        ]
        write_tar(folder / "shards" / f"shard-{shard:03d}.tar", members)
    return folder / "shards"


def values(dataset: Dataset) -> np.ndarray:
    return np.rint(dataset.batch(torch.arange(len(dataset))).numpy() * 255).astype(np.uint8)


def test_a_folder_of_shards_gives_images_labels_and_factors_in_order(shards: Path) -> None:
    dataset = open_dataset(shards, factors=["height", "kind"])
    assert isinstance(dataset.items, FileRows)
    np.testing.assert_array_equal(values(dataset), np.moveaxis(PIXELS, -1, 1))
    np.testing.assert_array_equal(dataset.labels, NUMBERS)
    assert dataset.label_names == ("ant", "bee", "cat")
    assert (dataset.factor_table.names, dataset.factor_table.sizes) == (("height", "kind"), (3, 3))
    np.testing.assert_array_equal(dataset.factors, np.stack([NUMBERS, NUMBERS], 1))


def test_one_shard_is_a_data_set_and_its_source_opens_it_again(shards: Path) -> None:
    dataset = open_dataset(shards / "shard-001.tar", size=4, colour=False, factors=["kind"])
    assert dataset.shape == (1, 4, 4)
    again = open_dataset(dataset.source)
    assert (again.fingerprint, again.factor_table) == (dataset.fingerprint, dataset.factor_table)
    np.testing.assert_array_equal(dataset.labels, [1, 0, 2])


def test_images_are_those_of_a_folder_with_the_same_options(shards: Path, folder: Path) -> None:
    for item, pixels in enumerate(PIXELS):
        (folder / "images").mkdir(exist_ok=True)
        (folder / "images" / f"{item}.png").write_bytes(picture(pixels))
    for options in ({}, {"size": 3}, {"size": [8, 6], "colour": False}):
        ours, theirs = open_dataset(shards, **options), open_dataset(folder / "images", **options)
        assert ours.fingerprint == theirs.fingerprint


def test_numbers_are_class_numbers_and_grey_jpegs_have_one_channel(folder: Path) -> None:
    members = [
        one
        for item, pixels in enumerate(PIXELS)
        for one in (
            member(f"./part/{item}.JPG", picture(pixels[..., 0], "JPEG")),
            member(f"./part/{item}.cls", str(NUMBERS[item]).encode()),
            member(f"./part/{item}.seg.png", b"another image, of which nothing is known"),
        )
    ]
    extra = [member("./part", b"", tarfile.DIRTYPE), member("./part/._0.jpg", b"of a Mac"), member("README", b"none")]
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        dataset = open_dataset(write_tar(folder / "one.tar", [*extra, *members], kind))
        assert dataset.shape == (1, 5, 7)
        np.testing.assert_array_equal(dataset.labels, NUMBERS)
        assert dataset.label_names is None


def test_large_images_are_decoded_one_at_a_time(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = open_dataset(shards).fingerprint
    os.utime(shards / "shard-000.tar", (1, 1))
    monkeypatch.setattr(image_sets, "LARGE_PIXELS", 3)
    monkeypatch.setattr(tar_shards, "CHUNK_IMAGES", 4)
    assert open_dataset(shards).fingerprint == expected


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The images that are decoded."""
    found: list[Path] = []
    monkeypatch.setattr(
        image_sets,
        "read_image",
        lambda path, *given, **options: found.append(path) or images.read_image(path, *given, **options),
    )
    return found


def test_images_are_decoded_once_until_a_shard_or_an_option_changes(shards: Path, decoded: list[Path]) -> None:
    first = open_dataset(shards, factors=["height"])
    assert len(decoded) == 6
    again = open_dataset(shards, factors=["height"])
    assert len(decoded) == 6
    assert (again.fingerprint, again.label_names) == (first.fingerprint, first.label_names)
    np.testing.assert_array_equal(again.factors, first.factors)
    open_dataset(shards, size=4)
    assert len(decoded) == 12
    write_tar(shards / "shard-001.tar", [*sample(5, label="fox"), *sample(4, label="fox")])
    changed = open_dataset(shards)
    assert len(decoded) == 17
    assert changed.label_names == ("ant", "bee", "cat", "fox")
    np.testing.assert_array_equal(values(changed), np.moveaxis(PIXELS, -1, 1)[[0, 1, 2, 5, 4]])


@pytest.mark.parametrize(
    "damage",
    [
        lambda cache: [path.write_bytes(b"{") for path in cache.glob("*.json")],
        lambda cache: [path.write_bytes(b'{"contents": {}, "rows": 3}') for path in cache.glob("*.json")],
        lambda cache: [os.truncate(path, 300) for path in cache.glob("*.npy")],
        lambda cache: [path.unlink() for path in cache.glob("*.npy")],
        lambda cache: [
            path.write_text(path.read_text().replace('"labels": ["cat", ', '"labels": ['))
            for path in cache.glob("*.json")
        ],
    ],
    ids=["cut record", "other record", "cut images", "no images", "too few labels"],
)
def test_a_damaged_cache_is_decoded_again(
    shards: Path, folder: Path, decoded: list[Path], damage: Callable[[Path], object]
) -> None:
    first = open_dataset(shards)
    damage(folder.parent / "cache" / "vaescope" / "shards")
    again = open_dataset(shards)
    assert len(decoded) == 12
    assert again.fingerprint == first.fingerprint
    np.testing.assert_array_equal(values(again), np.moveaxis(PIXELS, -1, 1))
    np.testing.assert_array_equal(again.labels, first.labels)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8])
def test_a_shard_that_is_cut_off_or_overwritten_is_an_error_that_names_it(shards: Path, place: float) -> None:
    path = shards / "shard-001.tar"
    whole = path.read_bytes()
    start = int(place * len(whole)) // 512 * 512
    for content in (whole[:start], whole[: start + 100], whole[:start] + b"\xff" * 2048 + whole[start + 2048 :]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"shard-001\.tar"):
            open_dataset(shards)


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100, bytes(10240)], ids=["empty", "text", "zeros"])
def test_a_file_that_is_no_tar_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "one.tar").write_bytes(content)
    with pytest.raises(DataError, match=r"one\.tar"):
        open_dataset(folder / "one.tar")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_an_error_that_names_them(folder: Path, kind: bytes) -> None:
    (folder / "secret.png").write_bytes(picture(PIXELS[0]))
    link = member("000009.png", b"", kind, str(folder / "secret.png"))
    with pytest.raises(DataError, match=r"regular files only, but 000009\.png"):
        open_dataset(write_tar(folder / "one.tar", [*sample(0), *sample(1), link]))


def test_names_that_leave_the_folder_write_nothing(folder: Path, tmp_path: Path) -> None:
    before = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    members = [member(name, picture(PIXELS[item])) for item, name in enumerate(("../../up.png", "/etc/absolute.png"))]
    dataset = open_dataset(write_tar(folder / "one.tar", members))
    np.testing.assert_array_equal(values(dataset), np.moveaxis(PIXELS, -1, 1)[:2])
    after = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    assert after == sorted([*before, folder / "one.tar"])


def test_members_that_are_too_large_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tar(folder / "one.tar", [*sample(0, label="cat"), *sample(1, label="ant" * 1000)])
    monkeypatch.setattr(tar_samples, "MAX_TEXT_BYTES", 1000)
    with pytest.raises(DataError, match=r"000001\.cls must have at most 1,000 bytes, but it has 3,001"):
        open_dataset(path)
    monkeypatch.setattr(tar_samples, "MAX_IMAGE_BYTES", 10)
    with pytest.raises(DataError, match=r"000000\.png must have at most"):
        open_dataset(path)


BAD = {
    "no image": ([*sample(0), member("1.cls", b"3"), *sample(2)], r"1 has 0"),
    "two images": ([*sample(0), member("000000.jpg", b"")], r"000000 has 2"),
    "the same member twice": ([*sample(0), *sample(0)], "000000.png is there twice"),
    "one label missing": ([*sample(0, label=1), *sample(1)], r"000001\.png has none"),
    "one label only": ([*sample(0), *sample(1, label=1)], r"000001\.png is the first with one"),
    "no factor": ([*sample(0, table={"kind": 1}), *sample(1, table={"sort": 1})], r"got None for .*000001\.png.* sort"),
    "a list": ([*sample(0, table={"kind": [1]}), *sample(1)], r"got \[1\]"),
    "numbers and words": ([*sample(0, table={"kind": 1}), *sample(1, table={"kind": "a"})], "got 'a'"),
    "not a table": ([*sample(0, table=[1]), *sample(1)], "a JSON object"),
    "not JSON": ([*sample(0), member("000000.json", b"{"), *sample(1)], "a JSON object"),
    "deep JSON": ([*sample(0), member("000000.json", b"[" * 100_000), *sample(1)], "a JSON object"),
    "not finite": ([*sample(0, table={"kind": float("nan")}), *sample(1)], "got nan"),
    "not an image": ([*sample(0), member("1.png", b"GIF89a")], r"1\.png must be a readable image"),
    "a cut image": ([*sample(0), member("1.png", picture(PIXELS[1])[:100])], r"1\.png must be a readable image"),
    "another size": ([*sample(0), member("1.png", picture(PIXELS[1][:3]))], r"1\.png is 3 x 7"),
    "one image": (sample(0, table={"kind": 1}), "at least 2 images"),
    "label that is not text": ([*sample(0), member("000000.cls", b"\xff"), *sample(1)], "text in UTF-8"),
}


@pytest.mark.parametrize(("members", "message"), BAD.values(), ids=BAD)
def test_bad_samples_are_errors_that_name_them(
    folder: Path, members: list[tuple[tarfile.TarInfo, bytes]], message: str
) -> None:
    path = write_tar(folder / "one.tar", members)
    factors = ["kind"] if any(info.name.endswith(".json") for info, _ in members) else []
    with pytest.raises(DataError, match=message):
        open_dataset(path, factors=factors)
