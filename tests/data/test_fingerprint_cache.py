"""Fingerprints of large files are kept until the file changes; small, new and mapped files are read each time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data import arrays, file_rows, fingerprints, open_dataset
from vaescope.errors import DataError

ROWS = np.random.default_rng(0).integers(0, 256, (50, 6, 7, 3), dtype=np.uint8)


class Inspections:
    """Counts how often rows are read to inspect them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.inspect = 0, arrays._inspect
        monkeypatch.setattr(arrays, "_inspect", self.counted)

    def counted(self, *given: object) -> fingerprints.ArrayFacts:
        self.count += 1
        return self.inspect(*given)


@pytest.fixture
def inspections(monkeypatch: pytest.MonkeyPatch) -> Inspections:
    return Inspections(monkeypatch)


def age(path: Path, seconds: float = 100) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture(params=[0, file_rows.MAX_HELD_BYTES], ids=["read from the file", "held in memory"])
def file(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_rows, "MAX_HELD_BYTES", request.param)
    monkeypatch.setattr(fingerprints, "MIN_BYTES", 1000)
    np.save(folder / "rows.npy", ROWS)
    age(folder / "rows.npy")
    return folder / "rows.npy"


@pytest.fixture
def kept(folder: Path) -> Path:
    return folder.parent / "cache" / "vaescope" / "fingerprints.json"


def test_a_file_that_did_not_change_is_inspected_once(file: Path, inspections: Inspections) -> None:
    first, again = open_dataset(file), open_dataset(file)
    assert inspections.count == 1
    assert first.fingerprint == again.fingerprint == open_dataset(ROWS).fingerprint
    index = torch.arange(50)
    assert torch.equal(first.batch(index), again.batch(index))


def test_facts_about_floats_are_exact(file: Path, inspections: Inspections) -> None:
    values = np.random.default_rng(1).standard_normal((50, 6)) * 1e30
    np.save(file, values)
    age(file)
    open_dataset(file)
    rows = file_rows.open_rows(file)
    facts = fingerprints.known_facts(rows, lambda: pytest.fail("it was read again"), "None True")
    assert (facts.minimum, facts.maximum) == (values.min(), values.max())
    assert inspections.count == 1


def overwrite(path: Path) -> None:
    with path.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(bytes([ROWS[-1, -1, -1, -1] ^ 1]))


def replace(path: Path) -> None:
    other = path.with_suffix(".new.npy")
    np.save(other, 255 - ROWS)
    status = path.stat()
    os.replace(other, path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "overwritten in place": lambda path: (overwrite(path), age(path, 50)),
    "replaced, with the same size and time": replace,
    "longer": lambda path: (np.save(path, np.concatenate([ROWS, ROWS])), age(path)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changed_is_inspected_again(
    file: Path, inspections: Inspections, change: Callable[[Path], object]
) -> None:
    first = open_dataset(file).fingerprint
    change(file)
    second = open_dataset(file)
    assert inspections.count == 2
    assert second.fingerprint == open_dataset(np.load(file)).fingerprint != first


def test_a_file_that_was_just_modified_is_inspected_each_time(file: Path, inspections: Inspections, kept: Path) -> None:
    os.utime(file)
    open_dataset(file)
    assert not kept.exists()
    open_dataset(file)
    assert inspections.count == 2
    age(file)
    open_dataset(file)
    assert kept.exists()
    os.utime(file)
    open_dataset(file)
    assert inspections.count == 4


def test_other_arrangements_of_the_same_file_have_facts_of_their_own(file: Path, inspections: Inspections) -> None:
    images, vectors = open_dataset(file), open_dataset(file, image=False)
    assert images.fingerprint != vectors.fingerprint
    assert (open_dataset(file).fingerprint, open_dataset(file, image=False).fingerprint) == (
        images.fingerprint,
        vectors.fingerprint,
    )
    assert inspections.count == 2


def test_arrangements_of_the_same_shape_are_told_apart(file: Path) -> None:
    rows = file_rows.open_rows(file)
    first = rows.arranged(lambda read: np.moveaxis(read, -1, 1))
    other = rows.arranged(lambda read: np.moveaxis(read[..., ::-1], -1, 1))
    assert first.shape == other.shape
    found = [
        fingerprints.known_facts(one, lambda digest=digest: fingerprints.ArrayFacts(0.0, 1.0, digest * 64)).digest[0]
        for one, digest in ((first, "a"), (other, "b"), (first, "c"), (other, "c"))
    ]
    assert found == ["a", "b", "a", "b"]


def test_a_file_that_may_have_missing_values_is_inspected_for_each_use(file: Path) -> None:
    rows = np.random.default_rng(0).random((50, 30))
    rows[7, 3] = np.nan
    np.save(file, rows)
    age(file)
    assert len(open_dataset(file, missing="mask")) == 50
    with pytest.raises(DataError, match="item 7"):
        open_dataset(file)


def test_small_files_are_not_remembered(file: Path, inspections: Inspections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "MIN_BYTES", ROWS.nbytes + 1)
    for _ in range(2):
        open_dataset(file)
    assert inspections.count == 2


def test_a_memory_map_of_a_replaced_file_keeps_its_own_fingerprint(file: Path, kept: Path) -> None:
    mapped = np.load(file, mmap_mode="r")
    replace(file)
    assert open_dataset(mapped).fingerprint == open_dataset(ROWS).fingerprint
    assert not kept.exists()
    assert open_dataset(file).fingerprint == open_dataset(255 - ROWS).fingerprint


DAMAGE = {
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "not text": lambda content: b"\xff\xfe\x00",
    "a list": lambda content: b"[1, 2]",
    "deeply nested": lambda content: b"[" * 100_000,
    "no digest": lambda content: content.replace(b'"digest": "', b'"digest": "0'),
    "no minimum": lambda content: content.replace(b'"minimum": ', b'"minimum": NaN, "least": '),
    "an entry of another kind": lambda content: json.dumps(dict.fromkeys(json.loads(content), 3)).encode(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_ignored_and_written_again(
    file: Path, kept: Path, inspections: Inspections, damage: Callable[[bytes], bytes]
) -> None:
    first = open_dataset(file).fingerprint
    kept.write_bytes(damage(kept.read_bytes()))
    assert open_dataset(file).fingerprint == first
    assert inspections.count == 2
    assert open_dataset(file).fingerprint == first
    assert inspections.count == 2


def test_a_cache_that_is_not_writable_does_no_harm(file: Path, kept: Path, inspections: Inspections) -> None:
    kept.parent.parent.write_bytes(b"a file where the cache should be")
    for _ in range(2):
        open_dataset(file)
    assert inspections.count == 2


def test_only_the_last_files_are_kept(file: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "MAX_FILES", 2)
    for name in ("a", "b", "c"):
        np.save(file.parent / f"{name}.npy", ROWS)
        age(file.parent / f"{name}.npy")
        open_dataset(file.parent / f"{name}.npy")
    assert [Path(name.partition(".npy")[0]).name for name in json.loads(kept.read_text())] == ["b", "c"]


def test_a_file_with_numbers_that_are_not_finite_is_an_error_each_time(file: Path, kept: Path) -> None:
    rows = np.random.default_rng(0).random((50, 10))
    rows[7, 3] = np.nan
    np.save(file, rows)
    age(file)
    for _ in range(2):
        with pytest.raises(DataError, match="item 7"):
            open_dataset(file)
    assert not kept.exists()
