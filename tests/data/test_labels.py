"""Labels in words become class numbers and names, wherever the items come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from PIL import Image

from vaescope.data import Dataset, Subset, open_dataset
from vaescope.data.labels import Labels

ROWS = np.random.default_rng(0).random((5, 3))
WORDS = ["dog", "cat", "dog", "ant", "cat"]


def check(dataset: Dataset) -> None:
    assert dataset.label_names == ("ant", "cat", "dog")
    assert dataset.labels.tolist() == [2, 1, 2, 0, 1]


@pytest.mark.parametrize(
    "labels",
    [
        WORDS,
        tuple(WORDS),
        np.array(WORDS),
        np.array(WORDS, object),
        pd.Series(WORDS),
        pd.Series(WORDS, dtype="string"),
        pd.Categorical(WORDS, categories=["dog", "cat", "ant", "eel"]),
        pl.Series(WORDS),
        pl.Series(WORDS, dtype=pl.Categorical),
        pa.array(WORDS),
        Labels(np.array([2, 1, 2, 0, 1]), ("ant", "cat", "dog")),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_words_of_any_library_are_numbered_in_alphabetical_order(labels: Any) -> None:
    check(open_dataset(ROWS, labels=labels))


@pytest.mark.parametrize("labels", [[2, 0, 1, 0, 2], torch.tensor([2, 0, 1, 0, 2]), pl.Series([2, 0, 1, 0, 2])])
def test_numbers_stay_as_they_are_and_have_no_names(labels: Any) -> None:
    dataset = open_dataset(ROWS, labels=labels)
    assert dataset.label_names is None
    assert dataset.labels.tolist() == [2, 0, 1, 0, 2]


def test_labels_leave_the_fingerprint_unchanged() -> None:
    assert open_dataset(ROWS, labels=WORDS).fingerprint == open_dataset(ROWS).fingerprint


def test_subsets_keep_all_names() -> None:
    subset = Subset.of(open_dataset(ROWS, labels=WORDS), torch.tensor([3, 0]))
    assert subset.labels.tolist() == [0, 2]
    for dataset in (subset, subset.to("cpu"), subset.draw(1), subset.split(1)[0]):
        assert dataset.label_names == ("ant", "cat", "dog")


class Named(torch.utils.data.Dataset):
    """A torch Dataset whose labels are words."""

    def __len__(self) -> int:
        return len(WORDS)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, str]:
        return torch.from_numpy(ROWS[position]), WORDS[position]


def test_files_folders_and_torch_datasets_have_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ROWS, y=np.array(WORDS))
    check(open_dataset(tmp_path / "a.npz"))
    (tmp_path / "a.csv").write_text("".join(f"{word},{row[0]}\n" for word, row in zip(WORDS, ROWS, strict=True)))
    check(open_dataset(tmp_path / "a.csv", label=1))
    check(open_dataset(Named()))
    for position, word in enumerate(WORDS):
        (tmp_path / "set" / word).mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * ROWS[position : position + 1]).astype(np.uint8)).save(
            tmp_path / "set" / word / f"{position}.png"
        )
    folder = open_dataset(tmp_path / "set")
    assert folder.label_names == ("ant", "cat", "dog")
    assert folder.labels.tolist() == [0, 1, 1, 2, 2]
