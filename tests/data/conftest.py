"""Fixtures for tests of data: an empty data folder, and the procedural dSprites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from vaescope.data.dataset import Dataset
from vaescope.data.dsprites import open_dsprites


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $VAESCOPE_DATA, and a separate user cache next to it."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("VAESCOPE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "data"


@pytest.fixture(scope="session")
def full() -> Dataset:
    """The whole procedural dSprites."""
    return open_dsprites()


@pytest.fixture(scope="session")
def render(full: Dataset) -> Callable[[Sequence[tuple[int, ...]]], torch.Tensor]:
    """Renders images (items x height x width) from codes of the six published factors."""
    table = full.factor_table
    assert table is not None
    return lambda codes: full.batch(table.index(torch.tensor(codes)))[:, 0]
