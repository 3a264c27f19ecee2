"""What arrives from arrays of any shape, type and range: images with any channels, 16 bits, ranges, and signals."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.pixel_scale import PixelScale
from vaescope.errors import ConfigurationError, DataError, PixelRangeWarning, VaescopeError

RANDOM = np.random.default_rng(0)
LAST = {"channels": "last"}


def floats(*shape: int, low: float = 0, high: float = 1) -> np.ndarray:
    """Floats whose smallest and largest are `low` and `high`."""
    values = RANDOM.uniform(low, high, (4, *shape))
    values.flat[:2] = low, high
    return values.astype(np.float32)


def whole(*shape: int, low: int = 0, high: int = 255, kind: str = "u1") -> np.ndarray:
    """Integers whose smallest and largest are `low` and `high`."""
    values = RANDOM.integers(low, high, (4, *shape), dtype=np.int64, endpoint=True)
    values.flat[:2] = low, high
    return values.astype(kind)


def everything(data: Dataset) -> np.ndarray:
    return data.batch(torch.arange(len(data))).numpy()


@dataclass(frozen=True)
class Case:
    """What is handed over; the shape of an item, and the smallest and the largest number, that arrive."""

    rows: np.ndarray = field(repr=False)
    shape: tuple[int, ...]
    low: float = 0
    high: float = 1
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    # channels
    "1 channel first": Case(floats(1, 8, 9), (1, 8, 9)),
    "1 channel last": Case(floats(8, 9, 1), (1, 8, 9)),
    "3 channels first": Case(whole(3, 8, 9), (3, 8, 9)),
    "3 channels last": Case(whole(8, 9, 3), (3, 8, 9)),
    "1 and 3: the first axis decides": Case(whole(1, 8, 3), (1, 8, 3)),
    "3 rows of 8 x 8": Case(whole(3, 8, 8), (3, 8, 8)),
    "2 channels first": Case(floats(2, 8, 9), (2, 8, 9)),
    "2 channels last": Case(floats(8, 9, 2), (2, 8, 9)),
    "4 channels last": Case(whole(28, 28, 4), (4, 28, 28)),
    "13 channels first": Case(floats(13, 64, 64), (13, 64, 64)),
    "13 channels last": Case(floats(64, 64, 13), (13, 64, 64)),
    "32 channels of 64 x 64": Case(floats(32, 64, 64), (32, 64, 64)),
    "not square, 5 channels last": Case(floats(10, 30, 5), (5, 10, 30)),
    "ambiguous, said to be first": Case(floats(8, 8, 5), (8, 8, 5), options={"channels": "first"}),
    "ambiguous, said to be last": Case(floats(8, 8, 5), (5, 8, 8), options=LAST),
    "against the rule": Case(floats(3, 8, 9), (9, 3, 8), options=LAST),
    # grey images
    "grey images": Case(floats(28, 28), (1, 28, 28)),
    "grey images of 2 x 7 are not long enough": Case(floats(2, 7), (1, 2, 7)),
    "bytes are pixels, however long": Case(whole(4, 64), (1, 4, 64)),
    "booleans are pixels, however long": Case(floats(2, 64) > 0.5, (1, 2, 64)),
    "long images, said to be no signals": Case(floats(2, 64), (1, 2, 64), options={"signal": False}),
    # signals
    "a signal": Case(floats(2, 128, low=-40, high=90), (2, 128), -40, 90),
    "a signal, channels last": Case(floats(128, 2, low=-40, high=90), (2, 128), -40, 90),
    "a signal of one channel": Case(floats(1, 100), (1, 100)),
    "a signal of integers": Case(whole(3, 50, low=-900, high=900, kind="i2"), (3, 50), -900, 900),
    "a short signal": Case(floats(6, 8, low=-2), (6, 8), -2, 1, {"signal": True}),
    "a signal whose longer axis holds the channels": Case(floats(12, 64), (64, 12), options=LAST),
    "bytes, said to be signals": Case(whole(2, 64), (2, 64), 0, 255, {"signal": True}),
    "a signal as a vector": Case(floats(2, 128, low=-1), (256,), -1, 1, {"image": False}),
    # types and ranges
    "bytes": Case(whole(8, 8), (1, 8, 8)),
    "wide integers up to 255": Case(whole(8, 8, kind="u2"), (1, 8, 8)),
    "16 bits": Case(whole(8, 8, high=65535, kind="u2"), (1, 8, 8)),
    "16 bits in other byte order": Case(whole(8, 8, high=60000, kind=">u2"), (1, 8, 8), 0, 60000 / 65535),
    "16 bits as int64": Case(whole(3, 8, 8, high=65535, kind="i8"), (3, 8, 8)),
    "12 bits": Case(whole(8, 8, high=4095, kind="u2"), (1, 8, 8), options={"range": (0, 4095)}),
    "32 bits": Case(whole(8, 8, high=10**6, kind="u4"), (1, 8, 8), options={"range": [0, 10**6]}),
    "signed bytes": Case(whole(8, 8, low=-128, high=127, kind="i1"), (1, 8, 8), options={"range": (-128, 127)}),
    "floats in [-1, 1]": Case(floats(3, 8, 8, low=-1), (3, 8, 8), options={"range": (-1, 1)}),
    "floats in part of the range": Case(floats(8, 8, low=-0.5), (1, 8, 8), 0.25, 1, {"range": (-1, 1)}),
    "floats in [0, 255]": Case(floats(8, 8, high=255), (1, 8, 8), options={"range": (0, 255)}),
    "bytes in a given range": Case(whole(8, 8, high=100), (1, 8, 8), options={"range": (0, 100)}),
    "booleans in a given range": Case(floats(8, 8) > 0.5, (1, 8, 8), options={"range": (-1, 1)}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_arrives_from_an_array(case: str, tmp_path: Path) -> None:
    given = CASES[case]
    data = open_dataset(given.rows, **given.options)
    values = everything(data)
    assert (data.shape, values.shape, values.dtype) == (given.shape, (4, *given.shape), np.float32)
    np.testing.assert_allclose((values.min(), values.max()), (given.low, given.high), atol=1e-6)
    assert data.is_image == (len(given.shape) == 3)
    # The same from a file, whose rows stay there.
    np.save(tmp_path / "rows.npy", given.rows)
    saved = open_dataset(tmp_path / "rows.npy", **given.options)
    assert saved.fingerprint == data.fingerprint
    np.testing.assert_array_equal(everything(saved), values)
    np.testing.assert_array_equal(everything(open_dataset(saved.source)), values)
    np.testing.assert_array_equal(everything(open_dataset(given.rows, **given.options).to("cpu")), values)


BAD = {
    "as many channels as pixels": (
        floats(16, 16, 16),
        {},
        ("16 channels first or 16 channels last", "channels='first'"),
    ),
    "an unknown place of channels": (floats(8, 8, 5), {"channels": "middle"}, ("'first' or 'last'", "'middle'")),
    "floats in [-1, 1] without a range": (floats(8, 8, low=-1), {}, ("[0, 1]", "-1..1", "range=(-1, 1)")),
    "floats in [0, 255] without a range": (floats(8, 8, high=255), {}, ("[0, 1]", "range=(0, 255)")),
    "floats of any scale": (floats(8, 8, low=-7, high=9.5), {}, ("[0, 1]", "range=(-7, 9.5)")),
    "negative integers": (whole(8, 8, low=-5, kind="i2"), {}, ("0..255 or 0..65535", "range=(-5, 255)")),
    "integers above 65535": (whole(8, 8, high=70000, kind="i4"), {}, ("0..65535", "range=(0, 70000)")),
    "floats outside of the range": (floats(8, 8, high=2), {"range": (-1, 1)}, ("-1..1", "0..2", "range=(-1, 2)")),
    "a range of vectors": (floats(8), {"range": (-1, 1)}, ("range is an option of images", "(8,)")),
    "a range of signals": (floats(2, 64), {"range": (-1, 1)}, ("range is an option of images", "(2, 64)")),
    "a range of one number": (floats(8, 8), {"range": 1}, ("two numbers", "got 1")),
    "a range in words": (floats(8, 8), {"range": "-1,1"}, ("two numbers", "'-1,1'")),
    "a range backwards": (floats(8, 8), {"range": (1, -1)}, ("ascending", "(1, -1)")),
    "a range to infinity": (floats(8, 8), {"range": (0, np.inf)}, ("finite", "inf")),
    "signals of images": (floats(3, 8, 8), {"signal": True}, ("items x channels x length", "(4, 3, 8, 8)")),
    "signals of vectors": (floats(8), {"signal": True}, ("channels and length", "8 numbers")),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_arrive_is_one_sentence(case: str) -> None:
    rows, options, facts = BAD[case]
    with pytest.raises((DataError, ConfigurationError)) as found:
        open_dataset(rows, **options)
    assert isinstance(found.value, VaescopeError)
    message = str(found.value)
    assert "\n" not in message
    assert [fact for fact in facts if fact not in message] == []


def test_numbers_of_16_bits_keep_all_their_bits() -> None:
    rows = whole(8, 8, high=65535, kind="u2")
    expected = rows[:, None].astype(np.float64) / 65535
    np.testing.assert_allclose(everything(open_dataset(rows)), expected, rtol=1e-7)


def test_dark_images_of_16_bits_are_opened_with_a_warning_that_names_the_range() -> None:
    rows = whole(8, 8, high=4095, kind="u2")
    with pytest.warns(PixelRangeWarning, match=re.escape("range=(0, 4095) to open_dataset if 4095 is white")):
        data = open_dataset(rows)
    assert everything(data).max() == pytest.approx(4095 / 65535)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_dataset(whole(8, 8, high=40000, kind="u2"))
        open_dataset(rows, range=(0, 4095))


def test_the_same_numbers_in_another_range_are_other_data() -> None:
    rows = floats(8, 8)
    prints = [open_dataset(rows, **options).fingerprint for options in ({}, {"range": (-1, 1)}, {"range": (0, 2)})]
    assert len(set(prints)) == 3
    assert open_dataset(rows, range=[-1.0, 1.0]).fingerprint == prints[1]


def test_channels_first_and_last_are_the_same_data() -> None:
    first = floats(5, 16, 18, low=-1)
    one, other = (open_dataset(rows, range=(-1, 1)) for rows in (first, np.moveaxis(first, 1, -1)))
    assert one.fingerprint == other.fingerprint
    signals = floats(3, 40)
    assert open_dataset(signals).fingerprint == open_dataset(np.swapaxes(signals, 1, 2)).fingerprint


def test_items_come_back_in_the_scale_of_the_data() -> None:
    rows = floats(1, 8, 8, low=-1)
    data = open_dataset(rows, range=(-1, 1))
    assert data.pixel_range == (0, 1)
    assert data.range_in_data_scale == (-1, 1)
    for part in (data, data.split(2)[0], data.draw(3)):
        assert part.pixel_scale == PixelScale(-1, 1)
    np.testing.assert_allclose(data.in_data_scale(torch.arange(4)), rows, atol=1e-6)


def test_a_given_range_moves_to_a_device_with_its_pixels(tmp_path: Path) -> None:
    rows = whole(8, 8, high=4095, kind="u2")
    np.save(tmp_path / "rows.npy", rows)
    moved = open_dataset(tmp_path / "rows.npy", range=(0, 4095)).to("meta")
    assert moved.batch(torch.arange(2, device="meta")).dtype == torch.float32


@pytest.mark.parametrize("loader", [False, True])
def test_torch_data_sets_take_the_same_options(loader: bool, tmp_path: Path) -> None:
    rows = floats(5, 16, 18, low=-1)
    source: Any = torch.utils.data.TensorDataset(torch.from_numpy(np.moveaxis(rows, 1, -1).copy()))
    options: dict[str, Any] = {"range": (-1, 1), "channels": "last"}
    if loader:
        source, options = torch.utils.data.DataLoader(source, batch_size=2), {**options, "cache": tmp_path / "rows.npy"}
    data = open_dataset(source, **options)
    assert data.fingerprint == open_dataset(rows, range=(-1, 1)).fingerprint
    if loader:
        assert open_dataset(data.source).fingerprint == data.fingerprint
