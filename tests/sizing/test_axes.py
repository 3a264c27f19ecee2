"""Axes of a search: numbers of latents, or strengths in even steps of their logarithm."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vaescope as vs
from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.sizing.axes import Latents, Strength, axis_over
from vaescope.sizing.gaps import Evidence, GapTerms
from vaescope.sizing.result import Fondue
from vaescope.training import Member, Trainer

BETA = Strength("beta")


@given(st.integers(1, BETA.largest))
def test_a_position_of_a_strength_comes_back_from_its_value(position: int) -> None:
    assert BETA.position(BETA.value(position)) == position
    assert BETA.of(BETA.member(position, Member(3))) == BETA.value(position)


@given(st.integers(1, 50), st.integers(1, 50))
def test_a_position_of_latents_is_their_number(position: int, largest: int) -> None:
    axis = Latents(largest)
    assert axis.position(axis.value(position)) == min(position, largest)
    assert axis.of(axis.member(position, Member(3))) == position


@given(st.floats(0, 1e6))
def test_the_nearest_strength_is_within_half_a_step(value: float) -> None:
    position = BETA.position(value)
    assert 1 <= position <= BETA.largest
    if BETA.lowest <= value <= BETA.highest:
        assert abs(math.log2(BETA.value(position) / value)) <= 0.5 / BETA.steps_per_doubling + 1e-9


def test_strengths_rise_evenly_from_the_lowest_to_the_highest() -> None:
    values = [BETA.value(position) for position in range(1, BETA.largest + 1)]
    assert (values[0], values[-1]) == (2.0**-6, 2.0**12)
    steps = [after / before for before, after in pairwise(values)]
    assert steps == pytest.approx([2 ** (1 / 4)] * 72)


def test_only_the_strength_of_a_member_changes() -> None:
    member = Member(3, Beta(2.0), 1e-3, 7)
    assert BETA.member(BETA.position(8.0), member) == Member(3, Beta(8.0), 1e-3, 7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lowest": 0.0}, "lowest.*above 0"),
        ({"lowest": 4.0, "highest": 4.0}, "highest.*above 4"),
        ({"steps_per_doubling": 0}, "steps_per_doubling"),
    ],
)
def test_an_axis_without_length_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Strength("beta", **options)


def test_an_unknown_strength_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"beta.*gamma"):
        axis_over("gamma", 10, Beta())
    assert axis_over("latents", 10, Beta()) == Latents(10)
    assert axis_over("beta", 10, Beta()) == BETA


def searched(latents: int, **options: Any) -> Fondue:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=16, items=600, noise=0.3)
    table = {"net": MLP((8,), (8,)), "seeds": 1, "period": 10, "runs": None, "over": "beta", "device": "cpu"}
    return vs.fondue(data, latents=latents, **{**table, **options})


class Rising:
    """A gap that depends only on beta: 1 at `crossing`; the strength of a model follows from the order of calls."""

    threshold = 1.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, crossing: float) -> None:
        load, rising = Trainer.load_into, self
        self.beta, self.crossing, self.latents = 0.0, crossing, set[int]()

        def noting(trainer: Trainer, model: Any, place: int) -> Any:
            rising.beta = trainer.members[place].objective.beta
            rising.latents.add(trainer.members[place].latents)
            return load(trainer, model, place)

        monkeypatch.setattr(Trainer, "load_into", noting)

    def __call__(self, evidence: Evidence) -> GapTerms:
        return GapTerms(self.beta / self.crossing, 0.0)


@pytest.mark.parametrize("init", [None, 0.02, 1.0, 300.0])
def test_the_largest_strength_within_the_threshold_is_found_from_anywhere(
    init: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = Rising(monkeypatch, crossing=5.0)
    result = searched(3, gap=gap, init=init)
    largest = max(BETA.value(position) for position in range(1, BETA.largest + 1) if BETA.value(position) <= 5)
    assert result.values == (largest,)
    assert gap.latents == {3}
    assert result.stable
    assert result.rows()[0]["beta"] == largest
    assert [row["gap"] for row in result.curve] == pytest.approx(sorted(row["beta"] / 5 for row in result.curve))
    assert f"beta {largest:.3g} is the largest before passive latents appear on gaussian-manifold" in result.summary()
    assert "latents" not in result.plain()
    with pytest.raises(AttributeError, match="beta"):
        _ = result.latents


def test_passive_latents_at_every_strength_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = searched(3, gap=Rising(monkeypatch, crossing=1e-9), max_periods=2)
    assert result.values == (0,)
    assert "smallest beta has a gap above 1" in result.summary()
    assert "fewer latents" in result.summary()


def test_no_passive_latents_at_any_strength_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = searched(3, gap=Rising(monkeypatch, crossing=1e9), max_periods=2)
    assert result.values == (4096,)
    assert "never exceeds 1 up to 4096" in result.summary()


def test_an_objective_without_strength_starts_at_the_lowest(monkeypatch: pytest.MonkeyPatch) -> None:
    result = searched(3, gap=Rising(monkeypatch, crossing=5.0), objective=Beta(0.0))
    assert result.start == BETA.lowest


def test_two_latents_allow_a_stronger_beta_than_eight_for_two_factors() -> None:
    noise = {"name": "gaussian", "variance": 0.1}
    settings = {"period": 100, "learning_rate": 2e-2, "batch": 32, "max_periods": 2, "likelihood": noise}
    few, many = searched(2, **settings), searched(8, **settings)
    assert 1 <= few.values[0] <= 16
    assert few.answers[0].search.bounded
    within = [row["gap"] for row in few.curve if row["beta"] <= few.values[0]]
    assert max(within) <= 1 < few.curve[-1]["gap"]
    # The six latents that are not needed are passive at almost any strength.
    assert many.values[0] < few.values[0] / 20
    assert {row["beta"]: row["gap"] for row in many.curve}[1.0] > 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"latents": None}, "a search over beta needs the number of latents: pass latents"),
        ({"latents": 0}, "latents must be"),
        ({"latents": 17}, "latents must be"),
        ({"latents": 3, "init": 0.0}, "init must be a finite number above 0, got 0"),
        ({"latents": 3, "over": "gamma"}, r"over must be 'latents' or a strength of Beta \(beta\), got 'gamma'"),
    ],
)
def test_missing_settings_of_a_search_over_a_strength_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        searched(**options)
