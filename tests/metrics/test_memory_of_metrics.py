"""Metrics and CKA need little memory above their input, in memory or mapped from a file, and score it as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vaescope.metrics import class_activation, factor_vae, hoyer, inputs, irs, mcc, mig, modularity, sampling, sap
from vaescope.metrics.single_latent import neighbours
from vaescope.similarity import linear_cka

ITEMS, LATENTS = 200_000, 50
RESET = Path("/proc/self/clear_refs")
MEGABYTE = 2**20
LIMIT = 1.6  # times the codes in float64; a copy in float64 and one of their bins exceed it

needs_linux = pytest.mark.skipif(not RESET.exists(), reason="only Linux resets the peak of resident memory")


def resident(field: str) -> float:
    """Resident memory in megabytes: VmRSS is now, VmHWM was at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def memory_above(work: Callable[[], object]) -> float:
    RESET.write_text("5")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    factors = generator.integers(0, 6, (ITEMS, 2))
    codes = generator.standard_normal((ITEMS, LATENTS))
    codes[:, :2] += factors
    return codes, factors


@pytest.fixture(scope="module")
def mapped(table: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    path = tmp_path_factory.mktemp("codes") / "codes.npy"
    np.save(path, table[0].astype(np.float32))
    return np.asanyarray(np.load(path, mmap_mode="r"))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "mig": mig,
    "modularity": modularity,
    "irs": irs,
    "factor_vae": lambda codes, factors: factor_vae(codes, factors, train_votes=200, test_votes=100),
    "hoyer": lambda codes, factors: hoyer(codes),
}


@needs_linux
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_copies_only_parts_of_the_codes(name: str, table: tuple[np.ndarray, np.ndarray]) -> None:
    codes, factors = table
    assert memory_above(lambda: METRICS[name](codes, factors)) < LIMIT * codes.nbytes / MEGABYTE


@needs_linux
def test_a_metric_of_mapped_codes_copies_only_parts_of_them(
    mapped: np.ndarray, table: tuple[np.ndarray, np.ndarray]
) -> None:
    mapped.max()  # reads all pages, so that they do not count
    assert memory_above(lambda: mig(mapped, table[1])) < LIMIT * table[0].nbytes / MEGABYTE


@needs_linux
def test_cka_copies_only_parts_of_the_representations(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((50_000, 200))
    np.save(tmp_path / "x.npy", x)
    for values in (x, np.load(tmp_path / "x.npy", mmap_mode="r")):
        values.max()
        assert memory_above(lambda values=values: linear_cka(values, values)) < LIMIT * x.nbytes / MEGABYTE


@pytest.mark.parametrize("kind", ["<f8", "<f4", ">f4", "<f2", "<i4"])
@pytest.mark.parametrize("metric", [*METRICS.values(), class_activation, mcc, sap, neighbours])
def test_neither_blocks_nor_storage_change_a_score(
    metric: Callable[..., object], kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    generator = np.random.default_rng(1)
    factors = generator.integers(0, 4, (500, 2))
    codes = np.column_stack([3 * generator.standard_normal((500, 4)) + factors[:, :1], np.full(500, 2.0)]).astype(kind)
    factors = factors[:, 0] if metric is class_activation else factors
    expected = metric(codes.astype(np.float64), factors)
    np.save(tmp_path / "codes.npy", codes)
    assert metric(np.load(tmp_path / "codes.npy", mmap_mode="r"), factors) == expected
    assert metric(np.asfortranarray(codes), factors) == expected
    monkeypatch.setattr(inputs, "BLOCK_NUMBERS", 1000)
    monkeypatch.setattr(sampling, "MAX_COPIED_NUMBERS", 0)
    assert metric(codes, factors) == expected
