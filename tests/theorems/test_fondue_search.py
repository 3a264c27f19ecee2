"""Any execution of FONDUE returns the largest size within the threshold (Bonheme, theorem 8.3.3, tables 8.4-8.6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.sizing import Search, SearchResult, binary_search, fondue_search, search_in_rounds
from vaescope.sizing.interpolation import MAX_LINES
from vaescope.sizing.kinds import BISECTION, INTERPOLATE, MAX_WIDTHS, ROUNDS, new_search
from vaescope.sizing.search import ladder

BRISK = settings(max_examples=150, deadline=None)
STARTS = st.integers(1, 200)
THRESHOLDS = st.floats(-2, 5)
# The starts of tables 8.4 to 8.6.
PUBLISHED_STARTS = [5, 19, 22, 39, 74, 94, 116, 145, 180, 182]
# The increase of the gap with each size: 0 for an active latent, between 0 and 1 for a mixed one, 1 for a passive one.
STEPS = st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0]), max_size=300)


def rising(steps: Sequence[float]) -> Callable[[int], float]:
    """The gap with `size` latents; latents beyond the list are passive (propositions 8.3.1-8.3.3)."""
    return lambda size: math.fsum(steps[:size]) + max(size - len(steps), 0)


def stepping(answer: int) -> Callable[[int], float]:
    return lambda size: float(size > answer) * 2


def largest_within(gap: Callable[[int], float], threshold: float) -> int:
    """By trying every size."""
    size = 0
    while gap(size + 1) <= threshold:
        size += 1
    return size


def at_once(gap: Callable[[int], float]) -> Callable[[Sequence[int]], Mapping[int, float]]:
    return lambda sizes: {size: gap(size) for size in sizes}


@BRISK
@given(STEPS, THRESHOLDS, STARTS)
def test_theorem_8_3_3_the_result_is_the_largest_size_within_the_threshold(
    steps: list[float], threshold: float, start: int
) -> None:
    gap = rising(steps)
    result = fondue_search(gap, start, threshold)
    answer = largest_within(gap, threshold)
    assert result.latents == answer
    assert result.bracket == (answer, answer + 1)
    assert result.bounded


@pytest.mark.parametrize("answer", [0, 1, 11, 19, 32, 63, 64, 199, 200, 201])
def test_the_result_does_not_depend_on_the_start(answer: int) -> None:
    assert {fondue_search(stepping(answer), start).latents for start in range(1, 201)} == {answer}


@pytest.mark.parametrize(("answer", "models"), [(11, 8), (19, 9), (32, 10)])
def test_the_published_starts_need_no_more_models_than_published(answer: int, models: int) -> None:
    results = [fondue_search(stepping(answer), start) for start in PUBLISHED_STARTS]
    assert {result.latents for result in results} == {answer}
    assert max(len(result.gaps) for result in results) <= models


def test_the_number_of_measured_sizes_is_logarithmic() -> None:
    for start in range(1, 201):
        for answer in range(0, 420, 3):
            calls = len(fondue_search(stepping(answer), start).gaps)
            assert calls <= 2 * math.log2(max(start, answer + 1)) + 2


@BRISK
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=120), STARTS, THRESHOLDS)
def test_no_size_is_measured_twice_and_the_bracket_holds_for_any_gap(
    values: list[float], start: int, threshold: float
) -> None:
    asked: list[int] = []

    def gap(size: int) -> float:
        asked.append(size)
        return values[size % len(values)]

    result = fondue_search(gap, start, threshold, largest=500)
    assert len(asked) == len(set(asked))
    assert [size for size, _ in result.gaps] == asked
    lower, upper = result.bracket
    gaps = dict(result.gaps)
    assert lower == 0 or gaps[lower] <= threshold
    assert (lower == 500) if upper is None else (upper == lower + 1 and gaps[upper] > threshold)
    # The bounds only move inwards, so a sequential search cannot reveal a contradiction.
    assert result.contradictions == ()


@BRISK
@given(STEPS, THRESHOLDS, STARTS, st.integers(200, 600))
def test_with_an_end_the_result_is_the_largest_size_up_to_it(
    steps: list[float], threshold: float, start: int, largest: int
) -> None:
    gap = rising(steps)
    result = fondue_search(gap, start, threshold, largest)
    answer = largest_within(gap, threshold)
    assert result.latents == min(answer, largest)
    assert result.bounded == (answer < largest)
    assert max(size for size, _ in result.gaps) <= largest


@BRISK
@given(STEPS, THRESHOLDS, st.integers(1, 50), st.integers(1, 300))
def test_binary_search_finds_the_same_size_inside_its_range(
    steps: list[float], threshold: float, low: int, more: int
) -> None:
    high, gap = low + more, rising(steps)
    result = binary_search(gap, low, high, threshold)
    answer = largest_within(gap, threshold)
    assert result.latents == min(max(answer, low - 1), high - 1)
    assert result.bounded == (answer < high - 1)
    assert len(result.gaps) <= math.ceil(math.log2(high - low + 1))
    assert all(low <= size < high for size, _ in result.gaps)


@BRISK
@given(STEPS, THRESHOLDS, STARTS, st.integers(1, 40), st.none() | st.integers(200, 600))
def test_rounds_find_what_the_sequential_search_finds(
    steps: list[float], threshold: float, start: int, width: int, largest: int | None
) -> None:
    gap = rising(steps)
    together = search_in_rounds(at_once(gap), start, threshold, width, largest)
    assert together.bracket == fondue_search(gap, start, threshold, largest).bracket
    assert together.contradictions == ()


@pytest.mark.parametrize("width", [1, 2, 3, 7, 30])
def test_rounds_agree_with_the_sequential_search_for_every_start_and_answer(width: int) -> None:
    for start in range(1, 70, 3):
        for answer in range(0, 140, 3):
            assert search_in_rounds(at_once(stepping(answer)), start, width=width).latents == answer


@BRISK
@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=120), STARTS, THRESHOLDS, st.integers(1, 40), st.integers(200, 400)
)
def test_rounds_over_any_gap_end_at_a_crossing_that_no_smaller_size_tried_contradicts(
    values: list[float], start: int, threshold: float, width: int, largest: int
) -> None:
    rounds: list[Sequence[int]] = []

    def gaps(sizes: Sequence[int]) -> dict[int, float]:
        rounds.append(sizes)
        return {size: values[size % len(values)] for size in sizes}

    result = search_in_rounds(gaps, start, threshold, width, largest)
    asked = [size for sizes in rounds for size in sizes]
    assert len(asked) == len(set(asked))
    assert [size for size, _ in result.gaps] == asked
    assert all(1 <= len(sizes) <= width and max(sizes) <= largest for sizes in rounds)
    lower, upper = result.bracket
    within = {size: gap <= threshold for size, gap in result.gaps}
    assert all(within[size] for size in asked if size <= lower)
    assert lower == 0 or lower in within
    assert (lower == largest) if upper is None else (upper == lower + 1 and not within[upper])


@BRISK
@given(st.integers(0, 200), STARTS)
def test_the_sequential_search_stays_on_the_ladder_until_it_has_a_bracket(answer: int, start: int) -> None:
    gap, rungs = stepping(answer), ladder(start, 400)
    seen: set[bool] = set()
    for size, value in fondue_search(gap, start, largest=400).gaps:
        if len(seen) < 2:
            assert size in rungs
        seen.add(value <= 1)


KINDS = st.sampled_from(sorted(MAX_WIDTHS))
# Sizes and the numbers of well-determined latents of dSprites by beta, the mean of two seeds.
DSPRITES_SIZES = [8, 10, 12, 14, 18, 24, 50]
DSPRITES = {1: [7.9, 9.6, 10.8, 11.9, 12.2, 13.0, 15.7], 4: [6.3, 6.4, 6.7, 6.8, 6.9, 7.1, 7.5]}


def fed(search: Search, gap: Callable[[int], float]) -> tuple[SearchResult, list[tuple[int, ...]]]:
    """The result of a search, and the sizes of each round."""
    rounds = []
    while search.sizes:
        rounds.append(search.sizes)
        search.feed({size: gap(size) for size in search.sizes})
    return search.result, rounds


def measured_gap(beta: int) -> Callable[[int], float]:
    """The trace gap n - determined(n), on lines between the measured sizes and on the first of them below."""
    sizes, determined = DSPRITES_SIZES, DSPRITES[beta]
    slope = (determined[1] - determined[0]) / (sizes[1] - sizes[0])

    def gap(size: int) -> float:
        below = min(size, determined[0] + slope * (size - sizes[0]))
        return size - (below if size < sizes[0] else float(np.interp(size, sizes, determined)))

    return gap


@BRISK
@given(KINDS, STEPS, THRESHOLDS, STARTS, st.integers(1, 12), st.integers(200, 600), st.booleans())
def test_every_kind_of_search_finds_what_algorithm_1_finds_for_a_monotone_gap(
    kind: str, steps: list[float], threshold: float, start: int, width: int, largest: int, near: bool
) -> None:
    gap = rising(steps)
    result, rounds = fed(new_search(kind, start, threshold, width, largest, near), gap)
    alone = fondue_search(gap, start, threshold, largest)
    assert (result.bracket, result.contradictions) == (alone.bracket, ())
    assert {size for size in result.bracket if size} <= dict(result.gaps).keys()
    assert max(map(max, rounds)) <= largest
    assert kind != BISECTION or {len(sizes) for sizes in rounds} == {1}


@BRISK
@given(
    KINDS,
    st.lists(st.floats(-3, 3) | st.sampled_from([-math.inf, math.inf]), min_size=1, max_size=120),
    st.integers(1, 200),
    THRESHOLDS,
    st.integers(1, 12),
    st.integers(200, 400),
    st.booleans(),
)
def test_every_kind_of_search_over_any_gap_ends_between_measured_neighbours(
    kind: str, values: list[float], start: int, threshold: float, width: int, largest: int, near: bool
) -> None:
    search = new_search(kind, start, threshold, width, largest, near)
    result, rounds = fed(search, lambda size: values[size % len(values)])
    asked = [size for sizes in rounds for size in sizes]
    assert len(asked) == len(set(asked))
    lower, upper = result.bracket
    gaps = dict(result.gaps)
    assert lower == 0 or gaps[lower] <= threshold
    assert lower == largest if upper is None else (upper == lower + 1 and gaps[upper] > threshold)
    again = sorted(size for size, gap in gaps.items() if size > lower and gap <= threshold)
    assert list(result.contradictions) == again


@pytest.mark.parametrize("start", [10, 11, 12])
@pytest.mark.parametrize(("beta", "answers"), [(1, {11}), (4, {6, 7})])
def test_four_sizes_are_enough_on_the_curves_of_dsprites(beta: int, answers: set[int], start: int) -> None:
    gap = measured_gap(beta)
    result, rounds = fed(new_search(INTERPOLATE, start, 1.0, 2, 4096, False), gap)
    assert result.latents in answers
    assert result.latents == largest_within(gap, 1.0)
    assert len(result.gaps) <= 4
    assert len(rounds) == 2
    in_rounds, _ = fed(new_search(ROUNDS, start, 1.0, 10, 4096, False), gap)
    assert in_rounds.bracket == result.bracket
    assert len(in_rounds.gaps) > 2 * len(result.gaps)


def test_a_later_period_confirms_an_answer_with_two_sizes() -> None:
    result, rounds = fed(new_search(INTERPOLATE, 11, 1.0, 2, 4096, True), measured_gap(1))
    assert (result.latents, rounds) == (11, [(11, 12)])


@pytest.mark.parametrize("width", [1, 2])
def test_interpolation_needs_few_more_sizes_than_algorithm_1_for_the_gaps_that_fit_lines_least(width: int) -> None:
    for start in range(1, 200, 7):
        for answer in range(0, 250, 9):
            result, _ = fed(new_search(INTERPOLATE, start, 1.0, width, 4096, False), stepping(answer))
            assert result.latents == answer
            alone = fondue_search(stepping(answer), start, 1.0, 4096)
            assert len(result.gaps) <= len(alone.gaps) + 2 * MAX_LINES + 4


def test_a_gap_that_crosses_again_is_searched_in_rounds_below_the_first_crossing() -> None:
    gaps = {3: 0.5, 6: 0.8, 10: 3.0, 13: 0.2}
    result, rounds = fed(new_search(INTERPOLATE, 10, 1.0, 2, 20, False), lambda size: gaps.get(size, 2.0))
    assert rounds[:2] == [(10, 13), (3, 6)]
    assert result.contradictions == (13,)
    assert result.bracket == (6, 7)


@pytest.mark.parametrize("largest", [1, 2, 7, 199])
def test_a_bisection_measures_what_algorithm_8_measures(largest: int) -> None:
    for answer in range(largest + 1):
        low, high, sizes = 1, largest + 1, []
        while low < high:  # Algorithm 8, as printed
            sizes.append((low + high) // 2)
            low, high = (sizes[-1] + 1, high) if sizes[-1] <= answer else (low, sizes[-1])
        result, rounds = fed(new_search(BISECTION, 5, 1.0, 1, largest, False), stepping(answer))
        assert [size for (size,) in rounds] == sizes
        assert result.latents == low - 1 == answer
