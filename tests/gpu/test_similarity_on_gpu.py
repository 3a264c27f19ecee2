"""On a GPU: similarities of all pairs equal those of the CPU within the tolerance of each precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vaescope.similarity import all_pairs


def tables(count: int, items: int, widths: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(items, 8, generator=generator)
    return [
        shared @ torch.randn(8, widths[number % len(widths)], generator=generator)
        + number / count * torch.randn(items, widths[number % len(widths)], generator=generator)
        for number in range(count)
    ]


@pytest.mark.parametrize(("items", "widths"), [(500, (16, 40)), (120, (300, 64))])
@pytest.mark.parametrize(("precision", "error"), [("float64", 1e-10), ("float32", 1e-5), ("tf32", 1e-3)])
def test_cka_of_all_pairs_is_that_of_the_cpu(items: int, widths: tuple[int, ...], precision: str, error: float) -> None:
    known = tables(24, items, widths)
    wanted = all_pairs([table.double() for table in known])
    found = all_pairs(known, device="cuda", precision=precision)
    np.testing.assert_allclose(found, wanted, atol=error)


def test_procrustes_of_all_pairs_is_that_of_the_cpu() -> None:
    known = tables(12, 300, (16, 40))
    np.testing.assert_allclose(
        all_pairs(known, measure="procrustes", device="cuda"), all_pairs(known, measure="procrustes"), atol=1e-4
    )


def test_little_memory_changes_nothing() -> None:
    known = tables(24, 400, (32,))
    whole, parts = (all_pairs(known, device="cuda", memory=memory) for memory in (None, 4 * 2**20))
    np.testing.assert_allclose(parts, whole, atol=1e-5)
