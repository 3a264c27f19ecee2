"""The matching of the latents of two models."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from vaescope.errors import DataError
from vaescope.similarity import match_latents


def table(latents: int, seed: int = 0, items: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((items, latents))


def test_permuted_and_flipped_latents_are_found() -> None:
    codes = table(4)
    found = match_latents(codes, -2 * codes[:, [2, 0, 3, 1]] + 5)
    assert {(pair.one, pair.other) for pair in found.pairs} == {(2, 0), (0, 1), (3, 2), (1, 3)}
    assert [pair.correlation for pair in found.pairs] == pytest.approx([-1.0] * 4)
    assert (found.matched, found.most, found.share) == (4, 4, 1.0)


def test_no_other_matching_has_a_greater_sum() -> None:
    one, other = table(4, 1), table(5, 2) @ np.random.default_rng(3).standard_normal((5, 5))
    other[:, :4] += one
    found = match_latents(one, other)
    strength = np.abs(np.corrcoef(one.T, other.T)[:4, 4:])
    best = max(sum(strength[row, column] for row, column in enumerate(way)) for way in permutations(range(5), 4))
    assert sum(abs(pair.correlation) for pair in found.pairs) == pytest.approx(best)
    for pair in found.pairs:
        assert abs(pair.correlation) == pytest.approx(strength[pair.one, pair.other])


def test_only_the_given_latents_are_matched() -> None:
    codes = table(4)
    found = match_latents(codes, codes, [1, 3], [0, 1, 2])
    assert found.latents == ((1, 3), (0, 1, 2))
    assert found.pairs[0].one == found.pairs[0].other == 1
    assert (found.matched, found.most) == (1, 3)
    assert match_latents(codes, codes, [], [0]).pairs == ()
    assert match_latents(codes, codes, [], []).share == 0


def test_constant_latents_match_nothing() -> None:
    codes = table(2)
    codes[:, 0] = 1.0
    found = match_latents(codes, codes)
    assert {pair.one: pair.correlation for pair in found.pairs} == pytest.approx({1: 1.0, 0: 0.0})
    assert found.matched == 1


def test_other_items_raise_an_error() -> None:
    with pytest.raises(DataError, match="a has 200 and b has 100"):
        match_latents(table(2), table(2, items=100))
