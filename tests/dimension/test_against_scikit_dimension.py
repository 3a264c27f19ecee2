"""The estimates against scikit-dimension: equal where the definitions are, and the exact relation where they differ."""

from __future__ import annotations

import math

import lazy_loader
import numpy as np
import pytest

from vaescope.data import open_dataset
from vaescope.dimension import estimate, mle, neighbours, twonn

skdim = lazy_loader.load("skdim")  # with numba and matplotlib, in all processes that collect tests otherwise


def manifold(name: str, ambient: int) -> np.ndarray:
    data = open_dataset(name, dimension=4, ambient=ambient, items=500)
    return np.concatenate([chunk.flatten(1).double().numpy() for chunk in data.chunks(500)])


# Few and many coordinates: scikit-dimension searches them in different ways.
SETS = [manifold("gaussian-manifold", 12), manifold("sphere-manifold", 12), manifold("gaussian-manifold", 60)]


@pytest.mark.parametrize("x", SETS, ids=["gaussian", "sphere", "wide"])
@pytest.mark.parametrize("k", [3, 5, 10, 20])
@pytest.mark.parametrize(("averaging", "comb"), [("mackay-ghahramani", "mle"), ("levina-bickel", "mean")])
@pytest.mark.parametrize(("correction", "unbiased"), [(1, False), (2, True)])
def test_each_averaging_and_divisor_equals_scikit_dimension(
    x: np.ndarray, k: int, averaging: str, comb: str, correction: int, unbiased: bool
) -> None:
    theirs = skdim.id.MLE(unbiased=unbiased).fit(x, n_neighbors=k, comb=comb).dimension_
    assert mle(x, k, averaging, correction=correction, subsamples=1).dimension == pytest.approx(theirs, rel=1e-6)


def test_the_defaults_differ_in_the_divisor() -> None:
    x, k = SETS[0], 20
    theirs = skdim.id.MLE().fit(x, n_neighbors=k).dimension_
    assert mle(x, k, subsamples=1).dimension == pytest.approx(theirs * (k - 2) / (k - 1), rel=1e-6)


def test_without_neighbourhoods_scikit_dimension_uses_the_smallest_distances_of_the_whole_set() -> None:
    x, k, used = SETS[0], 5, 50
    theirs = skdim.id.MLE(neighborhood_based=False, K=k).fit(x, n_neighbors=used).dimension_
    # Ours has no such estimate; it is (used - 1) over their log ratios, a distance that two items share counted once.
    distances = np.unique(neighbours(x, k).distances.numpy())[:used]
    assert theirs == pytest.approx((used - 1) / np.log(distances[-1] / distances).sum(), rel=1e-6)
    assert theirs != pytest.approx(mle(x, k, correction=1, subsamples=1).dimension, rel=1e-3)


@pytest.mark.parametrize("x", SETS, ids=["gaussian", "sphere", "wide"])
@pytest.mark.parametrize("anchor", [0.5, 0.75, 0.9])
def test_the_slope_of_twonn_equals_scikit_dimension(x: np.ndarray, anchor: float) -> None:
    theirs = skdim.id.TwoNN(discard_fraction=1 - anchor).fit(x)
    found = twonn(x, anchor)
    assert found.kept == len(theirs.x_)
    assert found.dimension == pytest.approx(theirs.dimension_, rel=1e-6)


def test_scikit_dimension_drops_one_more_ratio_where_the_share_rounds_down() -> None:
    x = SETS[0][:50]
    theirs, found = skdim.id.TwoNN(discard_fraction=0.34).fit(x), twonn(x, 0.66)
    # 50 * (1 - .34) is 33 less a rounding, of which they keep the whole part.
    assert (len(theirs.x_), found.kept) == (32, 33)
    ratios, tail = theirs.x_.ravel(), theirs.y_.ravel()
    distances = neighbours(x, 2).distances
    last = float((distances[:, 1] / distances[:, 0]).log().sort().values[32])
    wanted = (ratios @ tail - last * math.log(1 - 33 / 50)) / (ratios @ ratios + last**2)
    assert found.dimension == pytest.approx(wanted, rel=1e-6)


def test_scikit_dimension_drops_both_of_two_equal_items_and_we_drop_one() -> None:
    x = SETS[0][:200]
    twice = np.concatenate([x, x[:10]])
    with pytest.warns(UserWarning, match="Dropping 20 points with zero distance"):
        theirs = skdim.id.TwoNN().fit(twice)
    assert len(theirs.x_) == 171  # of the 190 that are left
    assert twonn(twice).kept == 180
    assert twonn(twice).dimension == pytest.approx(skdim.id.TwoNN().fit(x).dimension_, rel=1e-6)


def test_an_estimate_equals_separate_calls_of_scikit_dimension() -> None:
    x = SETS[2]
    rows = estimate(x, subsamples=1).rows()
    theirs = [
        skdim.id.MLE(unbiased=unbiased).fit(x, n_neighbors=k, comb=comb).dimension_
        for comb, unbiased in (("mle", True), ("mean", False))
        for k in (3, 5, 10, 20)
    ]
    assert [row["dimension"] for row in rows] == pytest.approx([*theirs, skdim.id.TwoNN().fit(x).dimension_], rel=1e-6)
