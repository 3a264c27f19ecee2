"""The source of a data set, also of a subset, opens the same items again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data import Dataset, Subset, open_dataset
from vaescope.errors import ConfigurationError

ROWS = np.random.default_rng(0).random((12, 4)).astype(np.float32)


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    """A folder of images of two sizes."""
    folder = tmp_path / "pngs"
    folder.mkdir()
    for position in range(12):
        side = 20 if position % 2 else 24
        pixels = np.random.default_rng(position).integers(0, 256, (side, side), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{position:02}.png")
    return str(folder)


def again(data: Dataset) -> Dataset:
    """The data set that the source opens, after a round trip through a file."""
    return open_dataset(json.loads(json.dumps(data.source)))


def test_a_name_or_a_path_is_the_source(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    assert open_dataset(tmp_path / "rows.npy").source == str(tmp_path / "rows.npy")
    assert open_dataset("pinwheel").source == "pinwheel"
    assert open_dataset({"name": "pinwheel"}).source == "pinwheel"


@pytest.mark.parametrize("size", [16, (16, 12), [16, 12]])
def test_options_are_part_of_the_source(size: Any, pictures: str) -> None:
    data = open_dataset(pictures, size=size, colour=False)
    assert data.source["name"] == pictures
    assert again(data).fingerprint == data.fingerprint
    assert again(data).source == data.source


def test_data_in_memory_have_no_source(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    in_memory = (open_dataset(ROWS), open_dataset(tmp_path / "rows.npy", labels=np.arange(12)))
    for data in in_memory:
        assert data.source is None
        assert data.draw(3).source is None
        assert data.split(4)[1].source is None


@pytest.mark.parametrize(
    "part",
    [
        lambda data: data.draw(5, seed=3),
        lambda data: data.split(0.25, seed=1)[0],
        lambda data: data.split(4)[1],
        lambda data: data.split(0.5)[1].draw(3).split(1)[0],
        lambda data: data.to("cpu").draw(5).to("cpu"),
    ],
    ids=["draw", "split", "held out", "part of a part", "moved"],
)
@pytest.mark.parametrize("options", [{}, {"per_class": 5}], ids=["no options", "options"])
def test_a_random_subset_opens_again(part: Any, options: dict[str, Any]) -> None:
    data = part(open_dataset("pinwheel", **options))
    opened = again(data)
    assert opened.fingerprint == data.fingerprint
    assert torch.equal(opened.labels, data.labels)
    assert opened.source == data.source


def test_a_subset_by_index_has_no_source() -> None:
    assert Subset.of(open_dataset("pinwheel"), torch.tensor([3, 1])).source is None


@pytest.mark.parametrize(
    "subset",
    [
        5,
        {"draw": 5, "seed": 0},
        [{"draw": 5}],
        [{"draw": 0, "seed": 0}],
        [{"draw": "5", "seed": 0}],
        [{"draw": 5, "seed": 0, "more": 1}],
        [{"split": 0.5, "seed": 0, "part": 2}],
        [{"split": "a", "seed": 0, "part": 0}],
        [3],
    ],
)
def test_an_invalid_subset_is_refused(subset: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^subset must be a list of"):
        open_dataset("pinwheel", subset=subset)
