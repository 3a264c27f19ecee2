"""Any execution of FONDUE returns the largest size within the threshold (Bonheme, theorem 8.3.3, tables 8.4-8.6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.sizing import binary_search, fondue_search, search_in_rounds
from vaescope.sizing.search import ladder

BRISK = settings(max_examples=150, deadline=None)
STARTS = st.integers(1, 200)
THRESHOLDS = st.floats(-2, 5)
# The starts of tables 8.4 to 8.6.
PUBLISHED_STARTS = [5, 19, 22, 39, 74, 94, 116, 145, 180, 182]
# How far each size raises the gap: 0 for an active latent, between 0 and 1 for a mixed one, 1 for a passive one.
STEPS = st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0]), max_size=300)


def rising(steps: Sequence[float]) -> Callable[[int], float]:
    """The gap after so many latents; latents beyond the list are passive (propositions 8.3.1-8.3.3)."""
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
    # The bounds only move inwards, so one by one no contradiction can come to light.
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
