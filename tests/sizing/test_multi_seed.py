"""Searches of several seeds find the answers of Algorithm 1, and end when the answers converge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.sizing import Answer, fondue_search, search_in_rounds
from vaescope.sizing.axes import Latents, Strength
from vaescope.sizing.gaps import GapTerms, Trace
from vaescope.sizing.model_pool import ModelPool, SeedSearch, run_searches
from vaescope.sizing.setup import SearchSpec, Setup
from vaescope.training import Member, Plan

BRISK = settings(max_examples=150, deadline=None)


class FakePool:
    """A pool whose gaps are a function of member and period; it records the requests."""

    def __init__(self, gap: Callable[[Member, int], float]) -> None:
        self.gap, self.asked = gap, []

    def measure(
        self, wanted: Sequence[tuple[str, Member]], period: int, report: Any, likely: Sequence[Member]
    ) -> dict[tuple[str, Member], GapTerms]:
        report(len(self.asked), len(wanted))
        self.asked.append((period, tuple(member for _, member in wanted)))
        return {(name, member): GapTerms(self.gap(member, period), 0.0) for name, member in wanted}


def silent(done: int, words: str | int = "", total: int | None = None) -> None:
    pass


def found(gap: Callable[[Member, int], float], seeds: Sequence[int] = (0,), **options: Any) -> tuple[Answer, ...]:
    return asked(FakePool(gap), seeds, **options)


def asked(pool: Any, seeds: Sequence[int] = (0,), **options: Any) -> tuple[Answer, ...]:
    table = {"gap": "trace", "axis": Latents(64), "member": Member(4), "start": 4, "threshold": 1.0, "width": 5}
    spec = SearchSpec(**{**table, "max_periods": 6, **options})
    return run_searches(pool, [SeedSearch(spec, seed) for seed in seeds], silent)


def crossing(answer: int) -> Callable[[int], float]:
    """0 while all latents are active, and more for each that is too many."""
    return lambda size: float(size - answer + 1) if size > answer else 0.0


@BRISK
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=40, max_size=40),
    st.integers(1, 40),
    st.integers(1, 12),
    st.booleans(),
    st.floats(-1, 6),
)
def test_rounds_find_what_algorithm_1_finds(
    steps: list[float], start: int, width: int, near: bool, threshold: float
) -> None:
    def gap(size: int) -> float:
        return math.fsum(steps[:size])

    alone = fondue_search(gap, start, threshold, 40)
    together = search_in_rounds(lambda sizes: {size: gap(size) for size in sizes}, start, threshold, width, 40, near)
    assert together.bracket == alone.bracket
    assert together.latents == max((size for size in range(1, 41) if gap(size) <= threshold), default=0)


def expected_period(answers: Sequence[int]) -> tuple[int, bool]:
    """The period at which a search with these answers ends, and whether two in a row were equal."""
    for period in range(2, len(answers) + 1):
        if answers[period - 1] == answers[period - 2] > 0:
            return period, True
    return len(answers), answers[-1] == 0


@BRISK
@given(
    st.lists(st.lists(st.integers(0, 12), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(1, 64),
    st.integers(1, 10),
)
def test_every_seed_gets_the_answer_of_algorithm_1_at_its_last_period(
    answers: list[list[int]], start: int, width: int
) -> None:
    def gap(member: Member, period: int) -> float:
        return crossing(answers[member.seed][period - 1])(member.latents)

    for answer in found(gap, range(len(answers)), start=start, width=width, max_periods=5):
        period, stable = expected_period(answers[answer.seed])
        alone = fondue_search(crossing(answers[answer.seed][period - 1]), start, 1.0, 64)
        assert (answer.periods, answer.stable) == (period, stable)
        assert answer.value == alone.latents
        assert answer.search.bracket == alone.bracket


@pytest.mark.parametrize("answer", [1, 2, 11, 32, 150, 199])
def test_the_answer_does_not_depend_on_the_start(answer: int) -> None:
    gap = crossing(answer)
    values = {
        found(lambda member, _: gap(member.latents), start=start, axis=Latents(200))[0].value for start in range(1, 201)
    }
    assert values == {answer}


def test_an_interpolated_search_reads_both_neighbours_and_confirms_them_in_the_next_period() -> None:
    pool = FakePool(lambda member, _: 0.3 * 1.2 ** (member.latents - 6))
    (answer,) = asked(pool, search="interpolate", start=8, width=2)
    assert [(period, [member.latents for member in members]) for period, members in pool.asked] == [
        (1, [8, 10]),
        (1, [13, 14]),
        (1, [12]),
        (2, [12, 13]),
    ]
    assert (answer.value, answer.search.bracket) == (12, (12, 13))


def test_a_bisection_trains_one_model_of_each_seed_at_a_time_and_begins_again_in_each_period() -> None:
    pool = FakePool(lambda member, _: crossing(11 + member.seed)(member.latents))
    answers = asked(pool, (0, 1), search="bisection", axis=Latents(63))
    assert [answer.value for answer in answers] == [11, 12]
    assert all(len({member.seed for member in members}) == len(members) for _, members in pool.asked)
    sizes = [(period, member.latents) for period, members in pool.asked for member in members if member.seed == 0]
    assert sizes == [(period, size) for period in (1, 2) for size in (32, 16, 8, 12, 10, 11)]


def test_two_equal_answers_in_a_row_end_the_search() -> None:
    (answer,) = found(lambda member, period: crossing(min(3 + period, 6))(member.latents))
    assert (answer.value, answer.periods, answer.stable) == (6, 4, True)


def test_an_answer_that_changes_is_followed_to_the_last_period_and_is_not_stable() -> None:
    (answer,) = found(lambda member, period: crossing(3 + period)(member.latents))
    assert (answer.value, answer.periods, answer.stable) == (9, 6, False)


def test_an_answer_of_a_single_period_counts_as_stable() -> None:
    (answer,) = found(lambda member, _: crossing(5)(member.latents), max_periods=1)
    assert (answer.value, answer.periods, answer.stable) == (5, 1, True)


def test_models_without_active_latents_do_not_end_the_search_early() -> None:
    pool = FakePool(lambda member, _: float(member.latents))
    (answer,) = asked(pool)
    # A gap of 1 at 1 latent is within the threshold, but nothing has been learnt.
    assert (answer.value, answer.periods) == (1, 6)
    assert {period for period, _ in pool.asked} == set(range(1, 7))


def test_a_search_waits_for_models_that_learn_late() -> None:
    def gap(member: Member, period: int) -> float:
        return float(member.latents) if period < 4 else crossing(5)(member.latents)

    (answer,) = found(gap)
    assert (answer.value, answer.periods, answer.stable) == (5, 5, True)


def test_seeds_share_rounds_and_finish_independently() -> None:
    moving = {0: [4, 4], 1: [4, 5, 6, 6]}
    pool = FakePool(lambda member, period: crossing(moving[member.seed][period - 1])(member.latents))
    first, second = asked(pool, (0, 1))
    assert (first.value, first.periods, second.value, second.periods) == (4, 2, 6, 4)
    period, members = pool.asked[0]
    assert (period, {member.seed for member in members}) == (1, {0, 1})
    assert all({member.seed for member in members} == {1} for period, members in pool.asked if period > 2)


def test_after_a_period_few_sizes_near_the_answer_are_measured() -> None:
    pool = FakePool(lambda member, _: crossing(11)(member.latents))
    asked(pool, width=8)
    later = [[member.latents for member in members] for period, members in pool.asked if period == 2]
    assert len(later) == 1
    assert {11, 12} <= set(later[0]) <= set(range(8, 16))


def test_progress_names_the_period_the_last_possible_one_and_the_sizes() -> None:
    told = []

    def report(done: int, words: str = "", total: int | None = None) -> None:
        told.append((words, total))

    spec = SearchSpec("trace", Latents(64), Member(4), 4, 1.0, 2, 6)
    pool: Any = FakePool(lambda member, _: crossing(11)(member.latents))
    run_searches(pool, [SeedSearch(spec, 0), SeedSearch(spec, 1)], report)
    assert told[0] == ("period 1 of at most 6, sizes 2 to 4, 2 seeds", 4)
    assert ("period 1 of at most 6, sizes 8 to 16, 2 seeds", 4) in told
    assert told[-1] == ("period 2 of at most 6, sizes 11 to 12, 2 seeds", 4)


def test_convergence_over_a_strength_depends_on_the_latents_of_the_model() -> None:
    axis = Strength("beta")

    def gap(member: Member, _: int) -> float:
        return 0.8 if axis.position(axis.of(member)) <= 1 else 9.0

    (answer,) = found(gap, axis=axis, member=Member(10), start=25)
    assert (answer.value, answer.periods, answer.stable) == (axis.lowest, 2, True)
    (answer,) = found(lambda *_: 1.0, axis=axis, member=Member(1), start=25)
    assert answer.periods == 6


def pool_of(precision: str = "float64") -> ModelPool:
    data = open_dataset("gaussian-manifold", dimension=3, ambient=12, items=400)
    architecture = Architecture(net=MLP((12,), (12,)), likelihood={"name": "gaussian", "learned": True})
    plan = Plan(90, 16, precision=precision, log_every=10, evaluate_every=10, monitor_every=0)
    return ModelPool(Setup(architecture, plan, 30, data, 200, torch.device("cpu")), {"trace": Trace()})


MEMBERS = (Member(2, learning_rate=3e-3), Member(7, Beta(2.0), 3e-3), Member(4, learning_rate=3e-3, seed=5))


def test_a_model_is_measured_as_if_trained_alone() -> None:
    wanted = [("trace", member) for member in MEMBERS]
    together = pool_of()
    among = {period: together.measure(wanted, period, silent) for period in (1, 3)}
    for key in wanted:
        alone = pool_of()
        for period in (1, 3):
            terms = alone.measure([key], period, silent)[key]
            assert terms.minuend == pytest.approx(among[period][key].minuend, rel=1e-9)
            assert terms.subtrahend == pytest.approx(among[period][key].subtrahend, rel=1e-9)


def test_a_model_that_joins_later_catches_up_and_is_measured_on_the_way() -> None:
    first, second, third = (("trace", member) for member in MEMBERS)
    late = pool_of()
    late.measure([first], 2, silent)
    late.measure([first, second, third], 2, silent)
    early = pool_of()
    early.measure([first, second, third], 2, silent)
    assert late.trained_steps == early.trained_steps == 3 * 2 * 30
    assert late.measurements.keys() == early.measurements.keys()
    for key, terms in early.measurements.items():
        assert late.measurements[key].gap == pytest.approx(terms.gap, rel=1e-9, abs=1e-9)


def test_nothing_is_trained_for_a_known_measurement() -> None:
    pool = pool_of("float32")
    wanted = [("trace", member) for member in MEMBERS]
    before = pool.measure(wanted, 2, silent)
    steps = pool.trained_steps
    assert pool.measure(wanted, 1, silent).keys() == before.keys()
    assert pool.measure(wanted, 2, silent) == before
    assert pool.trained_steps == steps


def test_a_lost_measurement_is_made_again() -> None:
    pool, key = pool_of(), ("trace", MEMBERS[0])
    before = pool.measure([key], 2, silent)
    del pool.measurements["trace", MEMBERS[0], 1]
    assert pool.measure([key], 1, silent)[key].gap != before[key].gap
    assert pool.measure([key], 2, silent)[key].gap == pytest.approx(before[key].gap, rel=1e-9)
