"""Empty slots of a program train the models that searches are likely to ask for next; no answer depends on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.data import open_dataset
from vaescope.errors import NonFiniteError
from vaescope.models import Architecture, TrainableModel
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.sizing import Answer, SearchOptions, model_pool
from vaescope.sizing.axes import Latents
from vaescope.sizing.gaps import GapTerms, Trace
from vaescope.sizing.model_pool import ModelPool, SeedSearch, run_searches
from vaescope.sizing.setup import SearchSpec, Setup
from vaescope.sizing.store import GapJournal, StateFiles
from vaescope.training import Member, Plan

PERIOD, HIGH_RATE = 30, 1.0
DATA = open_dataset("gaussian-manifold", dimension=3, ambient=40, items=200)
NET = Architecture(net=MLP((8,), (8,)), likelihood={"name": "gaussian", "learned": True})
PLAN = Plan(10 * PERIOD, 16, precision="float64", log_every=10, evaluate_every=10, monitor_every=0)
SETUP = Setup(NET, PLAN, PERIOD, DATA, 100, torch.device("cpu"))


@cache
def form(latents: int) -> TrainableModel:
    return SETUP.form(latents)


class QuickSetup(Setup):
    """Builds each form once."""

    def form(self, latents: int) -> TrainableModel:
        return form(latents)


def silent(done: int, words: str | int = "", total: int | None = None) -> None:
    pass


def trace_of(*members: Member) -> list[tuple[str, Member]]:
    return [("trace", member) for member in members]


class FakeTrainer:
    """A program that trains nothing, and checks what it is given; members with a high learning rate diverge."""

    def __init__(self, modules: Any, members: Sequence[Member], *given: Any, **options: Any) -> None:
        *_, self.latents = given
        self.ensemble = SimpleNamespace(holds=lambda width: width <= self.latents)
        self.size = len(members)
        self.members, self.state = tuple(members), SimpleNamespace(step=0)

    def assign_slots(self, members: Sequence[Member], states: Sequence[Any]) -> None:
        (step,) = {0 if state is None else state.step for state in states}
        assert len(members) == self.size
        assert max(member.latents for member in members) <= self.latents
        self.members, self.state = tuple(members), SimpleNamespace(step=step)

    def advance(self, stop: int) -> None:
        for position, member in enumerate(self.members):
            if member.learning_rate > HIGH_RATE:
                raise NonFiniteError("loss", term="loss", member=position, step=self.state.step, items=[])
        self.state = SimpleNamespace(step=stop)

    def member_state(self, slot: int) -> SimpleNamespace:
        return self.state


class Replay(ModelPool):
    """A pool whose gaps are a function of member and period; it records what searches ask for and what is trained."""

    def __init__(self, gap: Callable[[Member, int], float], slots: int, ahead: bool = True) -> None:
        super().__init__(QuickSetup(**vars(SETUP)), {"trace": Trace()}, slots)
        self.gap, self.ahead = gap, ahead
        self.asked: list[tuple[int, tuple[Member, ...]]] = []
        self.programs: list[tuple[int, tuple[Member, ...]]] = []

    def measure(
        self, wanted: Sequence[tuple[str, Member]], period: int, report: Any, likely: Sequence[Member] = ()
    ) -> dict[tuple[str, Member], GapTerms]:
        self.asked.append((period, tuple(member for _, member in wanted)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model_pool, "Trainer", FakeTrainer)
            return super().measure(wanted, period, report, likely if self.ahead else ())

    def _train(self, asked: list[Member], ahead: list[Member], period: int, report: Any) -> None:
        self.programs.append((period, (*asked, *ahead)))
        super()._train(asked, ahead, period, report)

    def _measure(self, trainer: Any, member: Member, slot: int, period: int) -> None:
        assert (trainer.members[slot], trainer.state.step) == (member, period * PERIOD)
        self.measurements["trace", member, period] = GapTerms(self.gap(member, period), 0.0)


def answers_of(pool: ModelPool, seeds: Sequence[int] = (0,), **options: Any) -> tuple[Answer, ...]:
    table = {"gap": "trace", "axis": Latents(40), "member": Member(4), "start": 4, "threshold": 1.0, "width": 4}
    spec = SearchSpec(**{**table, "max_periods": 5, **options})
    return run_searches(pool, [SeedSearch(spec, seed) for seed in seeds], silent)


def beyond(answers: Sequence[Sequence[int]]) -> Callable[[Member, int], float]:
    """A gap that crosses 1 after the answer of a seed in a period."""
    return lambda member, period: 0.3 + 0.8 * max(0, member.latents - answers[member.seed][period - 1])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 24), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 12),
    st.sampled_from(["rounds", "interpolate", "bisection"]),
)
def test_searches_ask_for_the_same_sizes_and_need_no_more_programs(
    answers: list[list[int]], start: int, width: int, slots: int, search: str
) -> None:
    options = {"seeds": range(len(answers)), "start": start, "width": width, "search": search}
    without, pool = Replay(beyond(answers), slots, ahead=False), Replay(beyond(answers), slots)
    assert answers_of(pool, **options) == answers_of(without, **options)
    assert pool.asked == without.asked
    assert len(pool.programs) <= len(without.programs)
    assert pool.trained_steps == PERIOD * sum(len(members) for _, members in pool.programs)
    assert pool.trained_ahead == len({m for _, members in pool.programs for m in members} - pool._asked)
    again = Replay(beyond(answers), slots)
    answers_of(again, **options)
    assert again.programs == pool.programs


@pytest.mark.parametrize(("search", "programs"), [("rounds", (13, 8)), ("interpolate", (10, 7))])
def test_an_answer_that_moves_needs_fewer_programs(search: str, programs: tuple[int, int]) -> None:
    gap = beyond([[12, 10, 9, 9, 9], [13, 12, 11, 11, 11], [11, 9, 8, 8, 8]])
    pools = [Replay(gap, 12, ahead) for ahead in (False, True)]
    for pool in pools:
        answers_of(pool, (0, 1, 2), start=11, search=search)
    assert tuple(len(pool.programs) for pool in pools) == programs


def test_the_models_that_a_waiting_search_asks_for_come_first() -> None:
    pool = Replay(beyond([[4] * 5, [20] * 5]), 8)
    answers_of(pool, (0, 1), width=2, search="interpolate", start=5)
    asked = next(members for period, members in pool.asked if period == 2)
    assert all(any(member in members for _, members in pool.programs[:3]) for member in asked if member.seed == 0)


def test_models_are_trained_ahead_at_the_step_of_the_program_and_no_wider() -> None:
    pool = Replay(lambda member, _: 0.0, 5)
    first, second, wide = Member(5), Member(3), Member(9)
    pool.measure(trace_of(first), 1, silent, [wide, first, second])
    assert pool.programs == [(1, (first, second))]
    pool.measure(trace_of(first), 2, silent, [Member(4), second])  # 4 is a period behind
    assert pool.programs[1:] == [(2, (first, second))]
    pool.measure(trace_of(wide), 2, silent, [second, Member(7)])
    assert pool.programs[2:] == [(1, (wide, Member(7))), (2, (wide, Member(7)))]


def test_models_of_a_factory_are_trained_ahead_with_others_of_their_size() -> None:
    options = SearchOptions(model=lambda latents: NET.build(DATA.shape, latents, seed=0), device="cpu", period=PERIOD)
    pool = Replay(lambda member, _: 0.0, 4)
    pool.setup = options.setup(DATA)
    pool.measure(trace_of(Member(5)), 1, silent, [Member(4), Member(5, seed=1)])
    assert pool.programs == [(1, (Member(5), Member(5, seed=1)))]


def test_a_model_that_was_trained_ahead_is_measured_when_it_is_asked_for() -> None:
    pool = Replay(lambda member, period: member.latents + period / 8, 3)
    pool.measure(trace_of(Member(5)), 1, silent, [Member(4), Member(3)])
    assert list(pool.measurements) == [("trace", Member(5), 1)]
    assert pool.trained_ahead == 2
    found = pool.measure(trace_of(Member(3)), 1, silent)
    assert found["trace", Member(3)].gap == 3.125
    assert (len(pool.programs), pool.trained_ahead, pool.trained_steps) == (1, 1, 3 * PERIOD)


def test_without_likely_models_the_slots_are_filled_with_copies_that_do_not_count() -> None:
    pool = Replay(lambda member, _: 0.0, 4)
    pool.measure(trace_of(Member(5)), 2, silent)
    assert (pool.trained_steps, pool.trained_ahead, list(pool.states)) == (2 * PERIOD, 0, [Member(5)])


def test_a_model_that_diverges_ahead_is_left_out_and_raises_when_it_is_asked_for() -> None:
    pool = Replay(lambda member, _: 0.0, 3)
    broken = Member(4, learning_rate=2 * HIGH_RATE)
    pool.measure(trace_of(Member(5)), 1, silent, [broken, Member(3)])
    pool.measure(trace_of(Member(2)), 1, silent, [broken])
    assert [members for _, members in pool.programs] == [
        (Member(5), broken, Member(3)),
        (Member(5), Member(3)),
        (Member(2),),
    ]
    assert set(pool.states) == {Member(5), Member(3), Member(2)}
    with pytest.raises(NonFiniteError):
        pool.measure(trace_of(broken), 1, silent)


def test_progress_counts_the_models_that_are_trained_ahead() -> None:
    pool, reports = Replay(lambda member, _: 0.0, 4), []
    pool.measure(trace_of(Member(5)), 2, lambda done, total: reports.append((done, total)), [Member(4), Member(3)])
    assert reports == [(3 * PERIOD, 4 * PERIOD), (6 * PERIOD, 6 * PERIOD)]


def trained_pool(folder: Path | None = None, slots: int | None = 6) -> ModelPool:
    stored = {} if folder is None else {"states": StateFiles(folder), "measurements": GapJournal(folder)}
    return ModelPool(SETUP, {"trace": Trace()}, slots, **stored)


MEMBER = Member(4, Beta(0.3), 2e-2)


def test_a_model_that_was_trained_ahead_equals_one_that_was_trained_alone() -> None:
    asked, likely = Member(6, Beta(0.3), 2e-2), Member(3, Beta(0.3), 2e-2, seed=1)
    pool, alone = trained_pool(), trained_pool(slots=None)
    pool.measure(trace_of(asked), 1, silent, [MEMBER, likely])
    pool.measure(trace_of(asked), 2, silent, [likely])
    steps = pool.trained_steps
    assert steps == 5 * PERIOD
    for member in (asked, likely):
        terms = pool.measure(trace_of(member), 2, silent)["trace", member]
        expected = alone.measure(trace_of(member), 2, silent)["trace", member]
        assert terms.minuend == pytest.approx(expected.minuend, rel=1e-9)
        assert terms.subtrahend == pytest.approx(expected.subtrahend, rel=1e-9)
    assert pool.trained_steps == steps


class Killed(BaseException):
    """Looks like the end of the process to the code under test."""


@pytest.mark.parametrize("search", ["rounds", "interpolate"])
def test_a_search_that_was_killed_resumes_with_the_same_models(
    search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"seeds": (0, 1), "member": MEMBER, "axis": Latents(12), "search": search, "max_periods": 3}
    whole = trained_pool(tmp_path / "whole")
    expected = answers_of(whole, **options)
    assert whole.trained_steps > PERIOD * len(whole._asked)
    assert [answer.value for answer in answers_of(trained_pool(slots=None), **options)] == [
        answer.value for answer in expected
    ]
    replace, calls = Path.replace, iter(range(1, 10_000))

    def dying(path: Path, target: Path) -> Path:
        if next(calls) % 11 == 0:
            raise Killed
        return replace(path, target)

    found = None
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dying)
        while found is None:
            try:
                pool = trained_pool(tmp_path / "killed")
                found = answers_of(pool, **options)
            except Killed:
                continue
    assert found == expected
    kept, own = (GapJournal(tmp_path / name) for name in ("killed", "whole"))
    assert kept._found == own._found
    assert {file.name for file in (tmp_path / "killed/states").glob("*.safetensors")} == {
        file.name for file in (tmp_path / "whole/states").glob("*.safetensors")
    }
