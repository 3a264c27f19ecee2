"""Codes in chunks: every item once in float64, values checked, memory maps released."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.codes import Representation
from vaescope.codes.chunks import Codes
from vaescope.errors import DataError

MEAN = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
VARIANCE = np.random.default_rng(1).uniform(0.1, 1, (100, 3)).astype(np.float32)


@pytest.mark.parametrize("items", [None, 1, 7, 100, 1000])
def test_chunks_hold_every_item_once_in_order(items: int | None) -> None:
    chunks = list(Codes.of((MEAN, torch.from_numpy(VARIANCE))).chunks(items))
    assert torch.equal(torch.cat([chunk.mean for chunk in chunks]), torch.from_numpy(MEAN).double())
    assert torch.equal(torch.cat([chunk.variance for chunk in chunks]), torch.from_numpy(VARIANCE).double())
    assert chunks[0].prior_mean is None


def test_a_prior_comes_from_the_representation_or_from_the_caller() -> None:
    mean, variance = torch.from_numpy(MEAN), torch.from_numpy(VARIANCE)
    codes = Representation(mean, variance, mean, prior_mean=mean + 1, prior_variance=torch.ones(3))
    (own,) = Codes.of(codes).chunks()
    assert own.prior_mean is not None
    assert own.prior_variance is not None
    assert torch.equal(own.prior_mean, (mean + 1).double())
    assert own.prior_variance.tolist() == [[1, 1, 1]]
    (given,) = Codes.of(codes, (mean, variance)).chunks()
    assert given.prior_mean is not None
    assert torch.equal(given.prior_mean, mean.double())


def test_bad_values_are_named_by_their_number_in_the_whole() -> None:
    wrong = MEAN.copy()
    wrong[57, 2] = np.nan
    with pytest.raises(DataError, match="item 57, latent 2"):
        list(Codes.of((wrong, VARIANCE)).chunks(10))
    with pytest.raises(DataError, match="item 1057, latent 2"):
        list(Codes.of((wrong, VARIANCE)).chunks(10, first=1000))


def test_changes_of_a_private_memory_map_stay(tmp_path: Path) -> None:
    np.save(tmp_path / "mean.npy", MEAN)
    private = np.load(tmp_path / "mean.npy", mmap_mode="c")
    private[:] = 5
    assert all((chunk.mean == 5).all() for chunk in Codes.of((private, VARIANCE)).chunks(10))
    assert (private == 5).all()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to read the resident memory")
def test_pages_of_a_memory_map_are_released(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    np.full((4_000_000, 4), 1.0, np.float32).tofile(tmp_path / "codes")
    codes = np.memmap(tmp_path / "codes", np.float32, "r", shape=(4_000_000, 4))
    before = resident()
    codes.sum()
    full = resident()
    assert full - before > 50e6
    for _ in Codes.of((codes[10:], codes[10:])).chunks():
        pass
    assert full - resident() > 40e6
