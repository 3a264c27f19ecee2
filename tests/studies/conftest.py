"""Studies of a document at quick scale, each run once, from runs in one folder."""

from __future__ import annotations

import pytest
from quick import Quick


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Quick:
    """The findings of studies by name; the tests of a file share them."""
    return Quick(tmp_path_factory.mktemp("runs"))
