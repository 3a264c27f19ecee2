"""Torch data sets, streams and loaders: every way to give items, a file that is whole or absent, and reuse of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from vaescope.data import Dataset, open_as_given, open_dataset
from vaescope.data.file_rows import FileRows
from vaescope.data.items import open_items
from vaescope.errors import ConfigurationError, DataError, DataWarning, WriteError

ITEMS = np.random.default_rng(0).random((7, 1, 4, 4), dtype=np.float32)
LABELS = np.array([2, 0, 1, 1, 0, 2, 1])
WORDS = ["cat", "ant", "bee", "bee", "ant", "cat", "bee"]
Sample = namedtuple("Sample", "image label")
Other = namedtuple("Other", "first second")

pytestmark = pytest.mark.usefixtures("folder")


class Given(TorchDataset):
    """Entries of a list, by position."""

    def __init__(self, entries: list[object]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, position: int) -> object:
        return self.entries[position]


class Stream(IterableDataset):
    """Entries of a list, one after another, without a length."""

    def __init__(self, entries: object) -> None:
        self.entries = entries

    def __iter__(self) -> Iterator[object]:
        return iter(self.entries)


def cached(folder: Path) -> list[Path]:
    return [path for path in (folder.parent / "cache").rglob("*") if path.suffix in (".npy", ".part")]


def values(dataset: Dataset) -> np.ndarray:
    return dataset.batch(torch.arange(len(dataset))).numpy()


def tensors() -> list[torch.Tensor]:
    return list(torch.from_numpy(ITEMS))


ENTRIES = {
    "pairs": list(zip(tensors(), LABELS.tolist(), strict=True)),
    "pairs with words": list(zip(tensors(), WORDS, strict=True)),
    "lists": [[item, label] for item, label in zip(tensors(), torch.from_numpy(LABELS), strict=True)],
    "image and label": [{"image": x, "label": y} for x, y in zip(tensors(), LABELS, strict=True)],
    "pixel_values and labels": [
        {"pixel_values": x, "labels": y, "id": 3} for x, y in zip(tensors(), WORDS, strict=True)
    ],
    "x and y": [{"y": y, "x": x} for x, y in zip(ITEMS, WORDS, strict=True)],
    "the only other entry": [{"thing": x, "label": y} for x, y in zip(ITEMS, WORDS, strict=True)],
    "named tuples": [Sample(x, y) for x, y in zip(ITEMS, LABELS, strict=True)],
    "named tuples with other names": [Other(x, y) for x, y in zip(ITEMS, WORDS, strict=True)],
}


@pytest.mark.parametrize("kind", [Given, Stream, lambda entries: DataLoader(Given(entries), batch_size=3)])
@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
def test_every_kind_of_entry_gives_items_and_labels(kind: type, entries: list[object]) -> None:
    dataset = open_dataset(kind(entries))
    np.testing.assert_array_equal(values(dataset), ITEMS)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.label_names in (None, ("ant", "bee", "cat"))
    assert dataset.fingerprint == open_dataset(ITEMS).fingerprint


@pytest.mark.parametrize("kind", [Given, Stream])
def test_items_without_labels(kind: type) -> None:
    for entries in (tensors(), list(ITEMS), [(item,) for item in tensors()], [{"image": item} for item in tensors()]):
        dataset = open_dataset(kind(entries))
        np.testing.assert_array_equal(values(dataset), ITEMS)
        assert dataset.labels is None


def test_keys_choose_between_several_entries() -> None:
    entries = [{"image": x, "x": 1 - x, "label": y, "fine": w} for x, y, w in zip(ITEMS, LABELS, WORDS, strict=True)]
    with pytest.raises(DataError, match="key=NAME"):
        open_dataset(Given(entries))
    chosen = open_dataset(Given(entries), key="x", label_key="fine")
    np.testing.assert_array_equal(values(chosen), 1 - ITEMS)
    assert chosen.label_names == ("ant", "bee", "cat")
    assert open_dataset(Given(entries), key="image", label_key=False).labels is None
    for options in ({"key": "nope"}, {"key": "x", "label_key": "nope"}):
        with pytest.raises(DataError, match="'image', 'x', 'label', 'fine'"):
            open_dataset(Given(entries), **options)


def test_key_of_entries_that_are_not_tables_is_an_error() -> None:
    with pytest.raises(DataError, match="Leave them out"):
        open_dataset(Given(tensors()), key="image")


def test_pictures_are_channels_of_bytes_and_transparent_pixels_are_black() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)
    colour = [Image.fromarray(one) for one in pixels]
    np.testing.assert_array_equal(values(open_dataset(Stream(colour))), np.float32(np.moveaxis(pixels, -1, 1)) / 255)
    grey = open_dataset(Given([(Image.fromarray(one[..., 0]), word) for one, word in zip(pixels, WORDS, strict=False)]))
    np.testing.assert_array_equal(values(grey)[:, 0], np.float32(pixels[..., 0]) / 255)
    assert grey.label_names == ("ant", "bee", "cat")
    clear = np.concatenate([pixels, np.zeros_like(pixels[..., :1])], axis=-1)
    clear[0, 0, 0, 3] = 255
    found = values(open_dataset(Stream([{"image": Image.fromarray(one)} for one in clear])))
    np.testing.assert_array_equal(found[0, :, 0, 0] * 255, pixels[0, 0, 0])
    assert found.sum() == pytest.approx(float(pixels[0, 0, 0].sum()) / 255)


@pytest.mark.parametrize("batch", [1, 2, 7, 10])
@pytest.mark.parametrize("collate", [None, list], ids=["stacked", "a list of entries"])
def test_batches_of_a_loader_are_taken_apart(batch: int, collate: type | None) -> None:
    loader = DataLoader(Given(ENTRIES["pairs"]), batch_size=batch, collate_fn=collate)
    dataset = open_dataset(loader)
    np.testing.assert_array_equal(values(dataset), ITEMS)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    alone = open_dataset(DataLoader(Given(ENTRIES["pairs"]), batch_size=None))
    assert alone.fingerprint == dataset.fingerprint


def test_a_stream_of_batches_is_taken_apart_if_that_is_said() -> None:
    stream = Stream([(ITEMS[:3], WORDS[:3]), (ITEMS[3:], WORDS[3:])])
    np.testing.assert_array_equal(values(open_dataset(stream, batched=True)), ITEMS)
    with pytest.raises(DataError, match="shape and type of the first"):
        open_dataset(stream, label_key=False)
    with pytest.raises(DataError, match="batched=False"):
        open_dataset(Stream([(ITEMS[:3], WORDS[:2])]), batched=True)


def test_a_stream_without_end_needs_a_number_of_items(folder: Path) -> None:
    def forever() -> Iterator[np.ndarray]:
        generator = np.random.default_rng(1)
        while True:
            yield generator.random(3)

    dataset = open_dataset(Stream(forever()), items=50)
    assert len(dataset) == 50
    np.testing.assert_allclose(values(dataset), np.random.default_rng(1).random((50, 3)), rtol=1e-6)
    with pytest.raises(ConfigurationError, match="items must be a whole number"):
        open_dataset(Stream(forever()), items=0)
    assert len(cached(folder)) == 1


def test_a_stream_of_unknown_length_that_goes_on_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaescope.data.torch_datasets.UNBOUNDED_ITEMS", 20)
    with pytest.warns(DataWarning, match=r"Stream has no length and has given 20 items.*items=NUMBER"):
        open_dataset(Stream(list(np.arange(90.0).reshape(30, 3))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_dataset(Stream(list(np.arange(90.0).reshape(30, 3))), items=25)


def test_a_stream_ends_with_an_error_before_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaescope.data.torch_datasets.CHECKED_BYTES", 1000)
    monkeypatch.setattr("vaescope.data.torch_datasets.MIN_FREE_BYTES", 2**62)
    with pytest.raises(DataError, match="items=NUMBER"):
        open_dataset(Stream([np.zeros(100) for _ in range(50)]))
    assert cached(folder) == []


def test_a_data_set_that_does_not_fit_into_memory_is_an_error_that_names_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vaescope.memory.available_memory", lambda: 100)
    with pytest.raises(ConfigurationError, match=r"cache=FILE\.npy"):
        open_dataset(Given(tensors()))
    assert len(open_dataset(Given(tensors()), items=1, as_given=True)) == 1
    assert len(open_dataset(Stream(tensors()))) == 7


def test_the_same_content_uses_the_same_file_again(folder: Path) -> None:
    first = open_dataset(Stream(ENTRIES["pairs"]))
    (file,) = cached(folder)
    before = file.stat()
    again = open_dataset(Stream(ENTRIES["x and y"]))
    assert cached(folder) == [file]
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert first.fingerprint == again.fingerprint
    np.testing.assert_array_equal(values(first), values(again))  # the file of `first` did not change
    open_dataset(Stream(list(1 - ITEMS)))
    open_dataset(Stream(list(ITEMS.astype(np.float64))))
    assert len(cached(folder)) == 3


def test_a_file_in_the_cache_that_was_cut_off_is_written_again(folder: Path) -> None:
    open_dataset(Stream(tensors()))
    (file,) = cached(folder)
    os.truncate(file, 200)
    np.testing.assert_array_equal(values(open_dataset(Stream(tensors()))), ITEMS)


def test_the_user_chooses_the_file(folder: Path) -> None:
    file = folder / "mine.npy"
    for source in (Stream(tensors()), Given(tensors()), Stream(tensors())):
        dataset = open_dataset(source, cache=file)
        assert isinstance(dataset.items, FileRows)
    np.testing.assert_array_equal(np.load(file), ITEMS)
    assert list(folder.iterdir()) == [file]
    assert cached(folder) == []


def test_labels_are_written_next_to_the_file_that_the_user_chooses(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    dataset = open_dataset(Stream(ENTRIES["x and y"]), cache="mine.npy")
    monkeypatch.chdir("/")
    assert {path.suffix for path in folder.iterdir()} == {".npy", ".csv"}
    assert open_dataset(dataset.source).label_names == ("ant", "bee", "cat")
    assert not (folder.parent / "cache").exists()


def test_a_file_with_other_content_is_never_replaced(folder: Path) -> None:
    file = folder / "mine.npy"
    np.save(file, 1 - ITEMS)
    for source, cache in ((Stream(tensors()), file), (Stream(tensors()), folder / "mine.txt")):
        with pytest.raises(DataError, match="cache must be"):
            open_dataset(source, cache=cache)
    np.testing.assert_array_equal(np.load(file), 1 - ITEMS)
    assert list(folder.iterdir()) == [file]
    with pytest.raises(WriteError, match="Create its folder first"):
        open_dataset(Stream(tensors()), cache=folder / "no" / "mine.npy")


@pytest.mark.parametrize("labels", [None, LABELS.tolist(), WORDS], ids=["no labels", "numbers", "words"])
def test_the_source_of_a_stream_opens_its_file_and_labels_again(labels: list[object] | None) -> None:
    stream = Stream(tensors() if labels is None else list(zip(tensors(), labels, strict=True)))
    for options in ({}, {"image": False}, {"image": False, "standardise": True}, {"image": False, "missing": "mask"}):
        dataset = open_dataset(stream, **options)
        assert dataset.source is not None
        again = open_dataset(dataset.source)
        np.testing.assert_array_equal(values(again), values(dataset))
        assert (again.fingerprint, again.standardise) == (dataset.fingerprint, "standardise" in options)
        assert again.label_names == dataset.label_names
        assert labels is None or torch.equal(again.labels, dataset.labels)


@pytest.mark.parametrize("word", ["10", "nan", "NA", " padded", "", "=formula"])
def test_labels_that_a_table_would_change_are_not_read_from_one(word: str) -> None:
    dataset = open_dataset(Stream([(item, word if place else "ant") for place, item in enumerate(tensors())]))
    assert dataset.label_names == tuple(sorted([word, "ant"]))
    assert dataset.source is None


def test_a_run_on_a_stream_opens_its_data_by_itself(tmp_path: Path) -> None:
    import vaescope as vs

    run = vs.fit(Stream(ENTRIES["x and y"]), latents=2, steps=2, batch=4, runs=tmp_path / "runs", net="mlp")
    source = json.loads((run.path / "run.json").read_text())["provenance"]["source"]
    assert open_dataset(source).label_names == ("ant", "bee", "cat")


def test_a_loader_that_shuffles_is_noticed() -> None:
    pairs = TensorDataset(torch.from_numpy(ITEMS), torch.from_numpy(LABELS))
    for options in (
        {"shuffle": True},
        {"shuffle": True, "batch_size": None},
        {"sampler": torch.utils.data.SubsetRandomSampler(range(7))},
    ):
        with pytest.warns(DataWarning, match="shuffle=False") as found:
            dataset = open_dataset(DataLoader(pairs, **options))
        assert found[0].filename == __file__
        np.testing.assert_array_equal(np.sort(values(dataset), axis=0), np.sort(ITEMS, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_dataset(DataLoader(pairs, batch_size=2))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([ITEMS[0], ITEMS[1][:, :3]], "item 1 has"),
        ([ITEMS[0], ITEMS[1].astype(np.float64)], "item 1 has"),
        ([(ITEMS[0], 1), (ITEMS[1], None)], "got None for item 1"),
        ([(ITEMS[0], None), (ITEMS[1], 1)], "item 1 is the first with one"),
        ([(ITEMS[0], 0.5), (ITEMS[1], 1)], "label_key=False"),
        ([(ITEMS[0], 1), (ITEMS[1], "cat")], "all words or all numbers"),
        ([{}, {}], "an empty table"),
        (["a", "b"], "real numbers"),
        ([], "at least one item"),
        ([ITEMS[0]], "at least 2 items"),
        ([ITEMS[0], ITEMS[1] * np.nan], "NaN"),
    ],
)
@pytest.mark.parametrize("kind", [Given, Stream])
def test_bad_entries_are_named_and_leave_no_part_of_a_file(
    kind: type, entries: list[object], message: str, folder: Path
) -> None:
    with pytest.raises(DataError, match=message):
        open_dataset(kind(entries))
    assert not [path for path in cached(folder) if path.suffix == ".part"]


def test_items_for_a_trained_model_may_come_from_a_loader() -> None:
    loader = DataLoader(TensorDataset(torch.from_numpy(ITEMS)), batch_size=3)
    np.testing.assert_array_equal(values(open_items(loader, (1, 4, 4))), ITEMS)
    normalised = DataLoader(Given([4 * item - 2 for item in tensors()]), batch_size=3)
    np.testing.assert_array_equal(values(open_as_given(normalised)), 4 * ITEMS - 2)


def test_an_error_of_the_stream_reaches_the_user(folder: Path) -> None:
    def broken() -> Iterator[np.ndarray]:
        yield ITEMS[0]
        raise OSError(5, "the user's own")

    with pytest.raises(OSError, match="the user's own"):
        open_dataset(Stream(broken()))
    assert cached(folder) == []


def test_a_dataset_without_a_length_is_an_error() -> None:
    class NoLength(TorchDataset):
        def __getitem__(self, position: int) -> np.ndarray:
            return ITEMS[position]

    with pytest.raises(DataError, match="__len__"):
        open_dataset(NoLength())


ENDLESS = """
import sys, numpy as np, pooch
from pathlib import Path
pooch.os_cache = lambda project: Path(sys.argv[1])
from torch.utils.data import IterableDataset
from vaescope.data import open_dataset

class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield np.random.rand(1000)

open_dataset(Endless(), **({"cache": sys.argv[2]} if len(sys.argv) > 2 else {}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_process_leaves_no_half_file_and_its_part_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache" / "vaescope"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(cache)])
    try:
        until = time.monotonic() + 60
        while not sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) > 100_000:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (part,) = (path for path in cache.rglob("*") if path.is_file())
    assert part.suffix == ".part"
    open_dataset(Stream(tensors()))
    assert part.exists()  # another process may be writing it
    os.utime(part, (time.time() - 2 * 86400,) * 2)
    open_dataset(Stream(tensors()))
    assert not part.exists()
