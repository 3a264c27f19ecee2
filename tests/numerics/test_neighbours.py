"""Nearest neighbours: an independent search, blocks of any size, and distances that float32 products cannot resolve.

Points of 6 dimensions are searched in a tree, those of 12 through products.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from vaescope.numerics import neighbours as search
from vaescope.numerics.neighbours import distinct, nearest_distances


def reference(points: Tensor, k: int) -> np.ndarray:
    found = NearestNeighbors(n_neighbors=k, algorithm="kd_tree").fit(points.double().numpy())
    return found.kneighbors()[0]


few_and_many = pytest.mark.parametrize("dimensions", [6, 12])


def some_points(items: int = 400, dimensions: int = 12, seed: int = 0) -> Tensor:
    return torch.randn(items, dimensions, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 2, 20, 399])
@few_and_many
def test_distances_equal_an_independent_search(kind: torch.dtype, k: int, dimensions: int) -> None:
    points = some_points(dimensions=dimensions).to(kind)
    found = nearest_distances(points, k)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, reference(points, k), rtol=1e-9)


@pytest.mark.parametrize("block", [1, 7, 1000, 400 * 33])
def test_blocks_change_nothing(block: int) -> None:
    points = some_points()
    np.testing.assert_allclose(nearest_distances(points, 5, block), nearest_distances(points, 5), rtol=1e-14)


@pytest.mark.parametrize("dimensions", [2, 8])
def test_a_tree_finds_the_distances_that_products_find(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    points = some_points(1500, dimensions)
    points = distinct(torch.cat([points, points.round(), points.round() + 1e-9]))
    found = nearest_distances(points, 10)
    monkeypatch.setattr(search, "MAX_TREE_DIMENSIONS", 0)
    torch.testing.assert_close(found, nearest_distances(points, 10), rtol=1e-14, atol=0)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("block", [2**12, 2**23])
def test_products_that_serve_both_points_find_the_same(
    kind: torch.dtype, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = some_points(700).to(kind)
    found = nearest_distances(points, 5, block)
    monkeypatch.setattr(search, "MIN_SHARED_DIMENSIONS", 1)
    assert torch.equal(nearest_distances(points, 5, block), found)


@pytest.mark.parametrize("others", [20, 123, 4001])
def test_the_smallest_entries_of_rows_of_any_width_are_found(others: int) -> None:
    rows = torch.randint(0, 500, (40, others), generator=torch.Generator().manual_seed(0)).float()
    values, places = search.smallest_entries(rows, 12)
    assert torch.equal(values, rows.gather(1, places))
    assert torch.equal(values.sort(1).values, rows.sort(1).values[:, :12])
    assert all(len(row.unique()) == 12 for row in places)


@few_and_many
def test_distances_far_below_the_offset_survive(dimensions: int) -> None:
    points = 1e6 + 1e-6 * some_points(100, dimensions)
    np.testing.assert_allclose(nearest_distances(points, 4), reference(points, 4), rtol=1e-9)


@few_and_many
def test_tight_pairs_among_far_points_survive(dimensions: int) -> None:
    points, moves, far = (some_points(items, dimensions, seed) for seed, items in enumerate((150, 150, 3)))
    points = torch.cat([points, points + 1e-7 * moves, 1e5 * far])
    np.testing.assert_allclose(nearest_distances(points, 3), reference(points, 3), rtol=1e-9)


def test_clusters_too_tight_for_products_in_double_precision_are_searched_by_differences() -> None:
    clusters = torch.cat([1e-12 * some_points(40), 1 + 1e-12 * some_points(40, seed=1)])
    np.testing.assert_allclose(nearest_distances(clusters, 5), reference(clusters, 5), rtol=1e-9)


@pytest.mark.parametrize("zeros", [0, 9])
def test_equal_distances_are_found(zeros: int) -> None:
    grid = torch.cartesian_prod(*[torch.arange(6.0)] * 3)
    grid = torch.cat([grid, torch.zeros(len(grid), zeros)], 1)
    np.testing.assert_allclose(nearest_distances(grid, 8), reference(grid, 8), rtol=1e-9)


def test_lowered_precision_of_products_changes_nothing() -> None:
    points = some_points().float()
    wanted, before = nearest_distances(points, 5), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = nearest_distances(points, 5)
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("zeros", [0, 7])
def test_differences_whose_squares_underflow_are_still_distances(zeros: int) -> None:
    points = torch.tensor([[0.0, 0.0], [1e-200, 0.0], [0.0, 1.0]], dtype=torch.float64)
    points = torch.cat([points, torch.zeros(3, zeros)], 1)
    assert nearest_distances(points, 2)[0].tolist() == [1e-200, 1.0]


@pytest.mark.parametrize(("kind", "factor"), [(torch.float64, 2.0**-1000), (torch.float32, 2.0**-120)])
@few_and_many
def test_very_close_points_are_searched_exactly(kind: torch.dtype, factor: float, dimensions: int) -> None:
    points = (some_points(dimensions=dimensions) * 256).round().to(kind)
    points = distinct(points)
    found, wanted = nearest_distances(points * factor, 5), nearest_distances(points, 5)
    np.testing.assert_allclose(found / factor, wanted, rtol=1e-12)


def test_subnormal_numbers_are_searched() -> None:
    points = torch.tensor([[0.0], [1e-44], [4e-44], [9e-44]])
    wanted = [float(points[1] - points[0]), float(points[1] - points[0]), float(points[2] - points[1])]
    assert nearest_distances(points, 1).flatten()[:3].tolist() == pytest.approx(wanted, rel=1e-12)


def test_large_single_precision_numbers_do_not_overflow() -> None:
    points = torch.tensor([[-3e38], [3e38], [0.0]])
    assert nearest_distances(points, 1).flatten().tolist() == pytest.approx([3e38] * 3, rel=1e-6)


def test_distinct_points_keep_their_order() -> None:
    points = torch.tensor([[3.0, 1.0], [1.0, 2.0], [3.0, 1.0], [0.0, 5.0], [1.0, 2.0]])
    assert distinct(points).tolist() == [[3, 1], [1, 2], [0, 5]]
    assert distinct(torch.tensor([[0.0], [-0.0]])).shape == (1, 1)
    assert distinct(points[[0, 2, 2, 4, 3]]).tolist() == [[3, 1], [1, 2], [0, 5]]
    assert torch.equal(distinct(points[:2]), points[:2])


@pytest.mark.parametrize("k", [0, 3, 4])
def test_too_many_neighbours_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=r"k must lie in 1\.\.2 for 3 points"):
        nearest_distances(some_points(3), k)
