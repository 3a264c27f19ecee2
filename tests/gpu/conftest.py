"""Tests in this folder need a GPU; warnings of the compiler are ignored."""

import os
from pathlib import Path

import pytest
import torch

# Each process of pytest would start as many compilers as there are cores.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")

COMPILER_WARNINGS = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
            for warning in COMPILER_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))
