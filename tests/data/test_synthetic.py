"""Synthetic data sets have the geometry that they document."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.dataset import DatasetEntry
from vaescope.data.synthetic import ENTRIES, rotation
from vaescope.errors import ConfigurationError


def points(dataset: Dataset) -> torch.Tensor:
    return dataset.batch(torch.arange(len(dataset))).double()


def few(entry: DatasetEntry) -> dict[str, int]:
    return {"per_class": 20} if entry.name == "pinwheel" else {"items": 80}


def spreads(values: torch.Tensor) -> torch.Tensor:
    centred = values - values.mean(0)
    return torch.linalg.svdvals(centred) / math.sqrt(len(values))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_entry_describes_the_set_that_it_opens(entry: DatasetEntry) -> None:
    dataset = entry.open()
    assert (dataset.name, len(dataset), dataset.shape) == (entry.name, entry.items, entry.shape)
    assert (dataset.factor_table.names if dataset.factor_table else ()) == entry.factors
    assert entry.locate() == "built in"
    assert bool(torch.isfinite(points(dataset)).all())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_items_and_fingerprint_are_functions_of_the_options(entry: DatasetEntry) -> None:
    first, again, other = (entry.open(seed=seed, **few(entry)) for seed in (0, 0, 1))
    assert torch.equal(points(first), points(again))
    assert first.fingerprint == again.fingerprint
    assert not torch.equal(points(first), points(other))
    assert first.fingerprint != other.fingerprint


def test_no_two_sets_share_a_fingerprint() -> None:
    assert len({entry.open(**few(entry)).fingerprint for entry in ENTRIES}) == len(ENTRIES)


def test_a_smaller_set_is_the_start_of_a_larger_one() -> None:
    small, large = (open_dataset("synthetic-linear", items=items) for items in (50, 80))
    assert torch.equal(points(small), points(large)[:50])


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_the_linear_set_is_a_flat_rectangle_of_the_given_ratio(ratio: float) -> None:
    spread = spreads(points(open_dataset("synthetic-linear", items=20_000, ratio=ratio)))
    side = 1 / math.sqrt(12)
    torch.testing.assert_close(spread[:2], torch.tensor([ratio * side, side]).double(), rtol=0.02, atol=0)
    assert spread[2] < 1e-6


def test_the_linear_set_rotated_back_gives_its_factors() -> None:
    dataset = open_dataset("synthetic-linear", items=1000)
    flat = points(dataset) @ rotation(math.pi / 4, (1.0, -1.0, 1.0))
    bins = (flat[:, :2] / torch.tensor([2.0, 1.0]) * 100).clamp(0, 99.999)
    assert bool(((bins - dataset.factors).abs() <= 1 + 1e-3).all())
    assert bool(((bins - dataset.factors) >= -1e-3).all())
    torch.testing.assert_close(flat[:, 2], torch.zeros(1000).double(), atol=1e-6, rtol=0)


def test_a_rotation_keeps_its_axis_and_rotates_by_its_angle() -> None:
    turn = rotation(math.pi / 4, (1.0, -1.0, 1.0))
    axis = torch.tensor([1.0, -1.0, 1.0]).double()
    torch.testing.assert_close(turn @ axis, axis)
    torch.testing.assert_close(turn @ turn.T, torch.eye(3).double())
    assert math.isclose(float(turn.trace()), 1 + 2 * math.cos(math.pi / 4))
    assert math.isclose(float(torch.linalg.det(turn)), 1.0)


def test_the_nonlinear_set_is_curved_and_its_network_does_not_depend_on_the_seed() -> None:
    first, other = (open_dataset("synthetic-nonlinear", items=5000, seed=seed) for seed in (0, 1))
    assert spreads(points(first))[2] > 0.02
    near = torch.cdist(points(other), points(first)).min(1).values
    assert near.max() < 0.1


def test_the_factors_of_the_square_are_uniform_codes_of_a_hundred_bins() -> None:
    codes = open_dataset("synthetic-nonlinear", items=20_000).factors
    assert codes is not None
    for column in codes.T:
        counts = torch.bincount(column.long(), minlength=100)
        assert len(counts) == 100
        assert 120 < counts.min() <= counts.max() < 280


def test_the_pinwheel_has_a_hundred_points_on_each_of_four_equal_arms() -> None:
    dataset = open_dataset("pinwheel")
    assert torch.bincount(dataset.labels).tolist() == [100] * 4
    centres = torch.stack([points(dataset)[dataset.labels == label].mean(0) for label in range(4)])
    torch.testing.assert_close(centres.sum(0), torch.zeros(2).double(), atol=0.2, rtol=0)
    angles = torch.atan2(-centres[:, 1], centres[:, 0])
    steps = torch.diff(angles) % (2 * math.pi)
    torch.testing.assert_close(steps, torch.full((3,), math.pi / 2).double(), atol=0.15, rtol=0)


def test_an_arm_of_the_pinwheel_unwinds_to_a_gaussian() -> None:
    dataset = open_dataset("pinwheel", per_class=4000, along=0.2, across=0.0)
    radius = points(dataset).norm(dim=1)
    assert math.isclose(float(radius.std()), 0.2, rel_tol=0.03)
    angle = 2 * math.pi * dataset.labels / 4 + 0.25 * torch.exp(radius)
    straight = torch.stack([radius * torch.cos(angle), -radius * torch.sin(angle)], 1)
    torch.testing.assert_close(straight, points(dataset), atol=1e-5, rtol=0)


def test_a_gaussian_manifold_has_as_many_equal_spreads_as_dimensions() -> None:
    spread = spreads(points(open_dataset("gaussian-manifold", dimension=3, ambient=7, items=20_000)))
    torch.testing.assert_close(spread[:3], torch.ones(3).double(), atol=0.03, rtol=0)
    assert spread[3] < 1e-6


def test_a_sphere_manifold_has_radius_one_in_a_subspace_of_one_dimension_more() -> None:
    values = points(open_dataset("sphere-manifold", dimension=2, ambient=6, items=2000))
    torch.testing.assert_close(values.norm(dim=1), torch.ones(2000).double(), atol=1e-6, rtol=0)
    assert int(torch.linalg.matrix_rank(values, rtol=1e-5)) == 3


def test_noise_fills_the_ambient_space() -> None:
    spread = spreads(points(open_dataset("gaussian-manifold", dimension=2, ambient=5, noise=0.1)))
    np.testing.assert_allclose(spread[2:], 0.1, rtol=0.05)


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("synthetic-linear", {"items": 1}, "items .* 2, got 1"),
        ("synthetic-linear", {"ratio": 0.0}, "ratio .* above 0, got 0.0"),
        ("synthetic-nonlinear", {"items": 10.5}, "items .* got 10.5"),
        ("pinwheel", {"along": -1.0}, "along .* 0, got -1.0"),
        ("pinwheel", {"rate": 10**30}, "rate .* finite"),
        ("pinwheel", {"seed": -1}, "seed .* got -1"),
        ("gaussian-manifold", {"dimension": 0}, "dimension .* 1, got 0"),
        ("gaussian-manifold", {"dimension": 9, "ambient": 8}, "ambient must .* at least 9, got 8"),
        ("sphere-manifold", {"dimension": 8, "ambient": 8}, "ambient must .* at least 9, got 8"),
        ("sphere-manifold", {"noise": math.nan}, "noise .* got nan"),
    ],
)
def test_an_option_out_of_range_is_an_error(name: str, options: dict[str, float], facts: str) -> None:
    with pytest.raises(ConfigurationError, match=facts):
        open_dataset(name, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("synthetic-linear", {"items": 10**12}),
        ("synthetic-nonlinear", {"items": 10**12}),
        ("pinwheel", {"classes": 10**6, "per_class": 10**6}),
        ("gaussian-manifold", {"ambient": 10**12}),
    ],
)
def test_more_items_than_memory_holds_are_refused(name: str, options: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=r"1,000,000,000,000 items .* must fit into memory: .* GB"):
        open_dataset(name, **options)


def test_synthetic_counts_have_the_mean_and_variance_of_their_model() -> None:
    # With a tiny effect all cells have the same shares; with totals of the same order their counts are comparable.
    data = open_dataset("synthetic-counts", dimension=1, genes=20, items=20_000, effect=1e-6, dispersion=4.0)
    counts = points(data)
    assert bool((counts == counts.round()).all())
    assert data.holds_counts
    totals = counts.sum(1)
    assert totals.mean() == pytest.approx(1000 * math.exp(0.3**2 / 2), rel=0.02)
    mean, spread_of_totals = counts.mean(0), math.exp(0.3**2) - 1
    # Var = E[m + m^2 / theta] + Var[m], where m is proportional to a log-normal total.
    wanted = mean + mean**2 * ((1 + spread_of_totals) / 4 + spread_of_totals)
    torch.testing.assert_close(counts.var(0), wanted, rtol=0.1, atol=0)


def test_synthetic_counts_vary_in_as_many_directions_as_they_have_dimensions() -> None:
    data = open_dataset("synthetic-counts", dimension=3, genes=40, items=2000, depth=1e6, dispersion=1e6)
    shares = points(data).clamp_min(1).log()
    found = spreads(shares - shares.mean(1, keepdim=True))
    assert found[2] > 10 * found[3]
