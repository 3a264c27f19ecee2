"""Fixtures for tests with real packages: data, and a check that a call leaves a model unchanged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from by_hand import Untouched, assert_equal, state
from torch import Tensor, nn

import vaescope as vs

ITEMS = 400

# Packages warn about each other; only the warnings that vaescope causes are errors.
WARNINGS = pytest.mark.filterwarnings("default", "error:::vaescope")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(WARNINGS, append=False)


@pytest.fixture(scope="session")
def digits() -> Tensor:
    """Images of digits, items x 1 x 8 x 8, in [0, 1]."""
    return vs.open_dataset("digits").batch(torch.arange(ITEMS))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  (packages draw from the global generator)
    random.seed(0)


@pytest.fixture
def untouched() -> Untouched:
    """`with untouched(module):` fails if the block changes the module or the random number generators."""

    @contextmanager
    def check(module: nn.Module) -> Iterator[None]:
        before = state(module)
        yield
        after = state(module)
        for name, value in before.items():
            assert_equal(after[name], value, name)

    return check
