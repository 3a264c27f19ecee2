"""On a GPU: the same estimate of the intrinsic dimension as on the CPU."""

from __future__ import annotations

import pytest
import torch

from vaescope.data import open_dataset
from vaescope.dimension import estimate, neighbours


def images(items: int) -> torch.Tensor:
    data = open_dataset("dsprites")
    return data.batch(torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:items])


def test_distances_are_the_same_on_both_devices() -> None:
    # Twice the same images: duplicates are found there too.
    x = torch.cat([images(800), images(400)])
    here, there = neighbours(x, 20), neighbours(x, 20, "cuda")
    assert there.distances.device.type == "cuda"
    assert there.duplicates == here.duplicates >= 400
    torch.testing.assert_close(there.distances.cpu(), here.distances, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["dsprites", "gaussian-manifold"])
def test_the_estimate_is_the_same_on_both_devices(name: str) -> None:
    x = images(1000) if name == "dsprites" else open_dataset(name, dimension=5, ambient=20, items=1000)
    here, there = estimate(x), estimate(x, device="cuda")
    assert there.latents_to_start_with == here.latents_to_start_with
    assert (there.infinite, there.chosen.k) == (here.infinite, here.chosen.k)
    for ours, theirs in zip(here.rows(), there.rows(), strict=True):
        for name in ("dimension", "low", "high"):
            assert theirs.pop(name) == pytest.approx(ours.pop(name), rel=1e-9)
        assert theirs == ours
