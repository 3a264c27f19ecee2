"""Attacked files are kept in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from corpus import memory


@pytest.fixture(scope="module")
def attacked_folder() -> Iterator[None]:
    """A new current folder."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield
