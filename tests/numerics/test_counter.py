"""Counter-based random numbers: published Philox vectors, no hidden state, and uniform and normal distributions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from vaescope.numerics import counter

WORD = 0xFFFFFFFF
KINDS = [counter.uniform, counter.normal]
Draw = Callable[..., Tensor]


def plain_philox(counters: tuple[int, ...], keys: tuple[int, ...]) -> tuple[int, ...]:
    """Philox 4x32-10 as in the paper's listing, in integers of any length."""
    (c0, c1, c2, c3), (k0, k1) = counters, keys
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def words(counters: tuple[int, ...], keys: tuple[int, ...]) -> tuple[int, ...]:
    result = counter.philox([torch.tensor(value) for value in counters], [torch.tensor(value) for value in keys])
    return tuple(int(word) for word in result)


def seeds(*values: int) -> Tensor:
    return torch.tensor(values)


ONE, STEP = torch.tensor(7), torch.tensor(3)


@pytest.mark.parametrize(
    ("counters", "keys", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD,) * 4, (WORD,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_published_vectors_of_random123_are_reproduced(
    counters: tuple[int, ...], keys: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert words(counters, keys) == expected
    assert plain_philox(counters, keys) == expected


a_word = st.integers(0, WORD)


@settings(max_examples=200, deadline=None)
@given(st.tuples(a_word, a_word, a_word, a_word), st.tuples(a_word, a_word))
def test_philox_equals_an_implementation_with_python_integers(counters: tuple[int, ...], keys: tuple[int, ...]) -> None:
    assert words(counters, keys) == plain_philox(counters, keys)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**62 - 1), st.integers(0, 2**31), st.integers(0, 2**31), st.text(max_size=8))
def test_uniform_numbers_are_philox_of_position_and_seed(seed: int, step: int, row: int, stream: str) -> None:
    drawn = counter.uniform(torch.tensor(seed), stream, torch.tensor(step), torch.tensor([row]), 2)
    for column in range(2):
        place = (column, row, step, counter.stream_number(stream))
        first, second, _, _ = plain_philox(place, (seed & WORD, seed >> 32))
        assert drawn[0, column].item() == ((first >> 5) * 2**26 + (second >> 6)) / 2**53


@pytest.mark.parametrize("draw", KINDS)
def test_a_narrow_draw_equals_the_first_columns_of_a_wide_draw(draw: Draw) -> None:
    rows = torch.arange(6)
    assert torch.equal(draw(ONE, "s", STEP, rows, 3), draw(ONE, "s", STEP, rows, 9)[:, :3])


@pytest.mark.parametrize("draw", KINDS)
def test_rows_are_independent_of_other_rows(draw: Draw) -> None:
    whole = draw(ONE, "s", STEP, torch.arange(20), 4)
    some = torch.tensor([17, 3, 3, 11])
    assert torch.equal(draw(ONE, "s", STEP, some, 4), whole[some])


@pytest.mark.parametrize("draw", KINDS)
def test_steps_drawn_together_equal_steps_drawn_separately(draw: Draw) -> None:
    rows = torch.arange(5)
    together = draw(seeds(1, 2), "s", torch.arange(10, 14), rows, 3)
    assert together.shape == (4, 2, 5, 3)
    for position, step in enumerate(range(10, 14)):
        assert torch.equal(together[position], draw(seeds(1, 2), "s", torch.tensor(step), rows, 3))


@pytest.mark.parametrize("draw", KINDS)
def test_members_are_independent_of_each_other_and_of_their_order(draw: Draw) -> None:
    rows = torch.arange(5)
    together = draw(seeds(4, 9, 2), "s", STEP, rows, 3)
    assert torch.equal(together[[2, 0, 1]], draw(seeds(2, 4, 9), "s", STEP, rows, 3))
    for position, seed in enumerate((4, 9, 2)):
        assert torch.equal(together[position], draw(torch.tensor(seed), "s", STEP, rows, 3))


def test_permutations_are_independent_of_other_members_and_steps() -> None:
    together = counter.permutation(seeds(4, 9), "order", torch.arange(3), 50)
    assert together.shape == (3, 2, 50)
    for step in range(3):
        for position, seed in enumerate((4, 9)):
            alone = counter.permutation(torch.tensor(seed), "order", torch.tensor(step), 50)
            assert torch.equal(together[step, position], alone)


@pytest.mark.parametrize("draw", KINDS)
def test_other_seeds_streams_and_steps_give_other_numbers(draw: Draw) -> None:
    rows = torch.arange(8)
    drawn = [
        draw(torch.tensor(seed), stream, torch.tensor(step), rows, 8).flatten()
        for seed in (0, 1, 2**40)
        for stream in ("a", "b")
        for step in (0, 1)
    ]
    for position, one in enumerate(drawn):
        assert all(not torch.isclose(one, other).any() for other in drawn[:position])


def many(draw: Draw) -> Tensor:
    return draw(seeds(0, 1), "many", torch.arange(10), torch.arange(100), 50)


def test_uniform_numbers_are_uniform_doubles_in_the_unit_interval() -> None:
    values = many(counter.uniform)
    assert values.dtype == torch.float64
    assert values.min() >= 0
    assert values.max() < 1
    assert stats.kstest(values.flatten().numpy(), "uniform").pvalue > 0.001


def test_the_largest_word_stays_below_one() -> None:
    assert counter.unit_number(torch.tensor(WORD), torch.tensor(WORD)).item() == 1 - 2**-53
    assert counter.unit_number(torch.tensor(0), torch.tensor(0)).item() == 0


def test_normal_numbers_are_standard_normal() -> None:
    values = many(counter.normal)
    count = values.numel()
    assert values.dtype == torch.float64
    assert torch.isfinite(values).all()
    assert abs(values.mean().item()) < 4 / count**0.5
    assert abs(values.var().item() - 1) < 4 * (2 / count) ** 0.5
    assert abs(values.pow(3).mean().item()) < 4 * (15 / count) ** 0.5
    assert abs(values.pow(4).mean().item() - 3) < 4 * (96 / count) ** 0.5
    assert stats.kstest(values.flatten().numpy(), "norm").pvalue > 0.001


def test_normal_numbers_are_uncorrelated_along_every_axis() -> None:
    values = many(counter.normal)
    for axis in range(values.ndim):
        ahead = values.narrow(axis, 1, values.shape[axis] - 1)
        behind = values.narrow(axis, 0, values.shape[axis] - 1)
        assert abs((ahead * behind).mean().item()) < 4 / ahead.numel() ** 0.5


@pytest.mark.parametrize("items", [1, 2, 7, 1000])
def test_a_permutation_has_every_item_once(items: int) -> None:
    order = counter.permutation(seeds(0, 1, 2), "order", torch.arange(4), items)
    assert torch.equal(order.sort(-1).values, torch.arange(items).expand(4, 3, items))


def test_every_item_takes_every_position_equally_often() -> None:
    items, draws = 6, 6000
    orders = counter.permutation(torch.tensor(0), "order", torch.arange(draws), items)
    for position in range(items):
        counts = torch.bincount(orders[:, position], minlength=items).numpy()
        assert stats.chisquare(counts).pvalue > 1e-4


def test_derived_seeds_differ_by_seed_and_name_and_fit_a_generator() -> None:
    derived = {counter.derived_seed(seed, name) for seed in (0, 1, 10) for name in ("a", "b", "0/a")}
    assert len(derived) == 9
    assert all(0 <= seed < 2**63 for seed in derived)
    assert counter.derived_seed(3, "weights") == counter.derived_seed(3, "weights")
