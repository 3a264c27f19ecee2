"""Checks shapes and types in the computing packages, and marks slow files. The other

packages take user input; their tests check their own errors for wrong types.
"""

import functools
import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

# Without a GPU, `torch.manual_seed` spends a third of a millisecond on the seeds of other devices.
seed_torch = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed

# Kernels of a GPU run in Triton's interpreter where there is none; it reads this when they are defined.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

COMPUTING = ("numerics", "nets", "posteriors", "priors", "likelihoods")

# A shell starts background jobs with interrupts ignored, and their processes inherit that: commands that tests
# interrupt would train without end.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests write thousands of small files, and waiting for the disk takes longer than writing them. That files are synced,
# and in which order, is tested in test_written_files.py and runs/test_journal.py.
os.fsync = lambda descriptor: None

# They limit memory, file sizes and time, and fork processes, by calls that Windows does not have.
collect_ignore = ["attack", "runs/test_kill.py"] if sys.platform == "win32" else []

# Packages whose models are tested in a separate environment: `make test-integrations`.
REAL_PACKAGES = ("pythae", "diffusers", "scvi", "mlflow", "tensorboard", "wandb")
if any(find_spec(package) is None for package in REAL_PACKAGES):
    collect_ignore.append("integrations_real")
    # No type checks there: beartype draws Python's random numbers, and those tests compare their state.
    install_import_hook([f"vaescope.{package}" for package in COMPUTING], "beartype.beartype")

# Folders and files that train real models, start processes or open a browser: `make test-fast` leaves them out.
SLOW = (
    "attack",
    "cli",
    "compatibility",
    "factories/test_factory_runs.py",
    "factories/test_factory_sizes.py",
    "family",
    "integrations",
    "integrations_real",
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
    "test_plain_example.py",
    "test_report_example.py",
    "theorems",
    "training/test_ensemble.py",
    "training/test_monitor.py",
)


# They wait for lost machines and parents most of the time: begun first, they wait while others work.
WAITING = ("sweeps/test_ray_engine.py", "sweeps/test_sweep.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _path(item).startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    # Slow files first, so that no worker starts a long file when the others are done.
    items.sort(key=lambda item: (not _path(item).startswith(WAITING), item.get_closest_marker("slow") is None))


def _path(item: pytest.Item) -> str:
    """The file of a test below this folder; empty for one elsewhere."""
    root = Path(__file__).parent
    return item.path.relative_to(root).as_posix() if item.path.is_relative_to(root) else ""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are no garbage: searching them again and again takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """At the end of the process everything is deleted, as packages of bindings demand."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Weights that a test or its fixtures draw do not depend on the tests before it.

    Slow tests call the same functions with the same shapes thousands of times: their checks would take half the time.
    """
    seed_torch(0)
    jaxtyping.config.update("jaxtyping_disable", item.get_closest_marker("slow") is not None)


@pytest.fixture(scope="session")
def onnx_operators() -> Iterator[None]:
    """torch reads the source of a thousand ONNX operators for every file that it exports; here it does so once."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))
        yield
