"""Tests in this folder need a GPU; warnings of the compiler are ignored."""

from pathlib import Path

import pytest
import torch

COMPILER_WARNINGS = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
            for warning in COMPILER_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))
