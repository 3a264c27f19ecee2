"""Shapes and types are checked in the packages that only compute, and slow files are marked.

The other packages take input from people, and tests of those check their own errors for wrong types.
"""

import sys
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

COMPUTING = ("numerics", "nets", "posteriors", "priors", "likelihoods")

install_import_hook([f"vaescope.{package}" for package in COMPUTING], "beartype.beartype")

# Attacks limit memory, file sizes and time by calls that Windows does not have.
collect_ignore = ["attack"] if sys.platform == "win32" else []

# Folders and files that train real models, start processes or open a browser: `make test-fast` leaves them out.
SLOW = (
    "attack",
    "cli",
    "compatibility",
    "family",
    "integrations",
    "models/test_gradient_origin.py",
    "models/test_trained_models.py",
    "regime/test_beta_sweep.py",
    "regime/test_custom_prior.py",
    "reporting",
    "runs",
    "sizing",
    "studies",
    "sweeps",
    "test_bad_settings.py",
    "test_docs.py",
    "test_import_cost.py",
    "theorems",
    "training/test_ensemble.py",
    "training/test_monitor.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(root).as_posix() if item.path.is_relative_to(root) else ""
        if path.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    # Slow files first, so that no worker begins a long one while the others have run out of work.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
