"""MNIST, Fashion-MNIST and digits: small files in their formats, and the real files where available."""

from __future__ import annotations

import dataclasses
import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from vaescope.data import cache
from vaescope.data.dataset import BUILT_IN, Dataset, DatasetEntry
from vaescope.data.public import ENTRIES, mnist
from vaescope.errors import ConfigurationError, DataError, UnknownNameError

REAL_DATA = os.environ.get("VAESCOPE_DATA")
BY_NAME = {entry.name: entry for entry in ENTRIES}


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx_set(folder: Path, train: int = 6, test: int = 3, side: int = 5) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    written = {}
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, count in (("train", train), ("t10k", test)):
        written[f"{prefix}-{mnist.IMAGES}"] = random.integers(0, 256, (count, side, side), np.uint8)
        written[f"{prefix}-{mnist.LABELS}"] = random.integers(0, 10, count).astype(np.uint8)
    for name, array in written.items():
        (folder / name).write_bytes(gzip.compress(idx(array)))
    return written


# Files named as those of MNIST, with the given content.
LITTLE_MNIST = dataclasses.replace(
    mnist.MNIST,
    name="little-mnist",
    files=tuple(dataclasses.replace(file, content="", prefix_crc32=None) for file in mnist.MNIST.files),
)


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.name not in ("digits", "fashion-mnist")])
def test_a_missing_set_says_where_to_put_it(entry: DatasetEntry, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    def no_network(*arguments: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", no_network)
    assert entry.locate() is None
    with pytest.raises(DataError, match=rf"^{entry.name}: .*\$VAESCOPE_DATA/{entry.name}/.*http"):
        entry.open()


def test_idx_images_and_labels_are_those_of_the_files(folder: Path) -> None:
    written = write_idx_set(folder / "little-mnist")
    data = mnist.open_idx_set(LITTLE_MNIST)
    images, labels = written[f"train-{mnist.IMAGES}"], written[f"train-{mnist.LABELS}"]
    assert (len(data), data.shape, data.name) == (6, (1, 5, 5), "little-mnist")
    torch.testing.assert_close(data.batch(torch.tensor([4, 1])), torch.tensor(images[[4, 1], None]) / 255)
    assert data.labels is not None
    assert data.labels.tolist() == labels.tolist()
    assert data.labels.dtype == torch.int64


def test_part_all_is_train_followed_by_test(folder: Path) -> None:
    write_idx_set(folder / "little-mnist")
    train, test, both = (mnist.open_idx_set(LITTLE_MNIST, part=part) for part in ("train", "test", "all"))
    assert (len(train), len(test), len(both)) == (6, 3, 9)
    expected = torch.cat([train.batch(torch.arange(6)), test.batch(torch.arange(3))])
    assert torch.equal(both.batch(torch.arange(9)), expected)
    assert len({train.fingerprint, test.fingerprint, both.fingerprint}) == 3


def test_size_resizes_the_images_and_changes_the_fingerprint(folder: Path) -> None:
    write_idx_set(folder / "little-mnist")
    data = mnist.open_idx_set(LITTLE_MNIST, size=32)
    assert data.batch(torch.arange(2)).shape == (2, 1, 32, 32)
    assert data.fingerprint != mnist.open_idx_set(LITTLE_MNIST).fingerprint
    with pytest.raises(ConfigurationError, match="size"):
        mnist.open_idx_set(LITTLE_MNIST, size=0)


def test_a_changed_pixel_changes_the_fingerprint(folder: Path) -> None:
    written = write_idx_set(folder / "little-mnist")
    before = mnist.open_idx_set(LITTLE_MNIST).fingerprint
    assert mnist.open_idx_set(LITTLE_MNIST).fingerprint == before
    images = written[f"train-{mnist.IMAGES}"]
    images[0, 0, 0] ^= 1
    (folder / "little-mnist" / f"train-{mnist.IMAGES}").write_bytes(idx(images))
    assert mnist.open_idx_set(LITTLE_MNIST).fingerprint != before


def test_unpacked_idx_files_are_found_too(folder: Path) -> None:
    write_idx_set(folder / "little-mnist")
    before = mnist.open_idx_set(LITTLE_MNIST).fingerprint
    for path in (folder / "little-mnist").iterdir():
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert mnist.open_idx_set(LITTLE_MNIST).fingerprint == before
    assert cache.locate(LITTLE_MNIST) == str(folder / "little-mnist")


def test_an_unknown_part_lists_the_known(folder: Path) -> None:
    with pytest.raises(UnknownNameError, match="all, test, train; got 'validation'"):
        mnist.open_idx_set(LITTLE_MNIST, part="validation")


def test_images_and_labels_of_different_length_are_refused(folder: Path) -> None:
    write_idx_set(folder / "little-mnist")
    short = idx(np.zeros(5, np.uint8))
    (folder / "little-mnist" / f"train-{mnist.LABELS}").write_bytes(short)
    with pytest.raises(DataError, match=r"\b6 train images, got 5"):
        mnist.open_idx_set(LITTLE_MNIST)


def test_other_files_with_the_names_of_mnist_fail_its_checksum(folder: Path) -> None:
    write_idx_set(folder / "mnist")
    with pytest.raises(DataError, match=r"^mnist: train-images-idx3-ubyte\.gz .*checksum"):
        BY_NAME["mnist"].open()


def real(name: str, part: str) -> Dataset:
    if not REAL_DATA or not (Path(REAL_DATA) / name).is_dir():
        pytest.skip(f"set VAESCOPE_DATA to a folder that holds {name}/ to test the real files")
    return BY_NAME[name].open(part=part)


@pytest.mark.parametrize(
    ("name", "part", "counts"),
    [
        ("mnist", "train", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("mnist", "test", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        ("fashion-mnist", "train", [6000] * 10),
        ("fashion-mnist", "test", [1000] * 10),
    ],
)
def test_the_real_files_contain_the_known_images(name: str, part: str, counts: list[int]) -> None:
    data = real(name, part)
    assert (len(data), data.shape) == (sum(counts), (1, 28, 28))
    assert data.labels is not None
    assert torch.bincount(data.labels).tolist() == counts
    batch = data.batch(torch.arange(1000))
    assert (float(batch.min()), float(batch.max())) == (0.0, 1.0)
    assert batch.dtype == torch.float32


def test_the_mean_pixel_of_real_mnist_is_the_known_one() -> None:
    data = real("mnist", "train")
    total = sum(float(chunk.sum(dtype=torch.float64)) for chunk in data.chunks(10000))
    assert total / (len(data) * data.dimensions) == pytest.approx(0.1307, abs=5e-5)


def test_real_mnist_is_located() -> None:
    real("mnist", "test")
    assert BY_NAME["mnist"].locate() == str(Path(str(REAL_DATA)) / "mnist")


def test_files_directly_in_the_data_folder_are_recognised_without_hashing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = "mnist", "fashion-mnist"
    real(own, "test")
    monkeypatch.setenv("VAESCOPE_DATA", str(Path(str(REAL_DATA)) / own))
    monkeypatch.setattr(cache.hashlib, "new", lambda *arguments, **options: pytest.fail("locate hashed a file"))
    assert BY_NAME[own].locate() == os.environ["VAESCOPE_DATA"]
    assert BY_NAME[other].locate() != os.environ["VAESCOPE_DATA"]


@pytest.mark.parametrize("moved", [False, True], ids=["file", "function"])
def test_digits_are_those_of_scikit_learn_wherever_it_keeps_them(moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    grey, labels = load_digits(return_X_y=True)
    if moved:
        monkeypatch.setattr(mnist.Path, "is_file", lambda file: False)
    data = mnist.open_digits()
    assert data.labels is not None
    assert data.labels.tolist() == labels.tolist()
    found = data.batch(torch.arange(len(data))).flatten(1).mul(16).round()
    assert torch.equal(found, torch.from_numpy(grey).float())


def test_digits_are_built_in() -> None:
    entry = BY_NAME["digits"]
    data = entry.open()
    assert entry.locate() == BUILT_IN
    assert (len(data), data.shape) == (entry.items, entry.shape) == (1797, (1, 8, 8))
    values = torch.cat(list(data.chunks(500))).unique()
    torch.testing.assert_close(values, torch.arange(17) / 16, atol=0.51 / 255, rtol=0)
    assert data.labels is not None
    assert data.labels[:10].tolist() == list(range(10))
