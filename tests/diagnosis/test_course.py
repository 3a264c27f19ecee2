"""Whether the loss of a training still falls, has levelled off, or rises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vaescope.diagnosis.course import course_of
from vaescope.objectives import Annealed, Beta

GENERATOR = np.random.default_rng(0)


def history(
    test: Callable[[float], float] | None, train: Callable[[float], float] | None = None, points: int = 20
) -> list[dict[str, Any]]:
    """Losses at equal steps to 1000, as functions of the share of training."""
    rows = []
    for step in range(1000 // points, 1001, 1000 // points):
        for split, curve in (("train", train), ("test", test)):
            if curve is not None:
                rows.append({"step": step, "split": split, "loss": curve(step / 1000)})
    return rows


def noisy(curve: Callable[[float], float], scale: float) -> Callable[[float], float]:
    return lambda share: curve(share) + scale * float(GENERATOR.standard_normal())


CURVES: dict[str, tuple[Callable[[float], float], str]] = {
    "a line": (lambda t: 100 - 50 * t, "falling"),
    "early in a decay": (lambda t: 50 + 100 * math.exp(-2 * t), "falling"),
    "late in a decay": (lambda t: 50 + 100 * math.exp(-12 * t), "level"),
    "constant": (lambda t: 70.0, "level"),
    "noise": (noisy(lambda t: 70.0, 2.0), "level"),
    "a fall within the noise": (noisy(lambda t: 70 - t, 5.0), "level"),
    "a fall beyond the noise": (noisy(lambda t: 100 - 40 * t, 1.0), "falling"),
    "up again": (lambda t: 50 + 200 * (t - 0.5) ** 2, "rising"),
    "around zero": (lambda t: 3 - 4 * t, "falling"),
}


@pytest.mark.parametrize("name", CURVES)
def test_the_trend_is_that_of_the_last_part_of_training(name: str) -> None:
    curve, trend = CURVES[name]
    assert course_of(history(curve, curve)).trend == trend


def test_the_change_is_in_nats_over_the_last_third() -> None:
    found = course_of(history(lambda t: 100 - 60 * t))
    assert found.change == pytest.approx(-18, abs=0.1)  # from 0.7 to 1: the points in the last third
    assert (found.loss, found.last, found.lowest_step) == ("held-out loss", pytest.approx(40), 1000)


def test_training_items_decide_without_held_out_ones() -> None:
    found = course_of(history(None, lambda t: 100 - 60 * t))
    assert (found.trend, found.loss) == ("falling", "training loss")
    few = history(lambda t: 70.0, points=5) + history(None, lambda t: 100 - 60 * t)
    assert course_of(few).loss == "training loss"


def test_few_evaluations_show_nothing() -> None:
    found = course_of(history(lambda t: 100 - 60 * t, points=5))
    assert found.trend == "unknown"
    assert "too few evaluations" in found.reason


def test_a_rise_of_the_held_out_loss_alone_is_overfitting() -> None:
    rising, falling = CURVES["up again"][0], CURVES["late in a decay"][0]
    assert course_of(history(rising, falling)).overfitted
    assert not course_of(history(rising, rising)).overfitted


def test_a_loss_that_is_not_finite_has_diverged() -> None:
    found = course_of(history(lambda t: math.nan if t > 0.95 else 3.0))
    assert (found.trend, found.overfitted) == ("rising", False)


@pytest.mark.parametrize("objective", [Beta(4.0, warm_up=2000), Annealed(steps=2000)])
def test_losses_are_not_compared_while_their_weights_change(objective: Any) -> None:
    found = course_of(history(lambda t: 100 + 60 * t), objective)
    assert (found.trend, found.unsettled) == ("unknown", True)
    assert "2000" in found.reason


def test_losses_during_warm_up_are_left_out() -> None:
    raised = history(lambda t: 10.0 if t < 0.3 else 70.0, lambda t: 10.0 if t < 0.3 else 70.0)
    assert course_of(raised, Beta(4.0, warm_up=300)).trend == "level"
    assert course_of(raised, Beta(4.0)).trend == "rising"


def test_a_short_training_may_pause_before_it_learns() -> None:
    found = course_of([{**row, "step": row["step"] // 10} for row in history(lambda t: 70.0)])
    assert found.trend == "unknown"
    assert "100 steps are too few" in found.reason


def test_a_training_loss_that_falls_shows_that_a_fall_of_few_held_out_values_is_no_noise() -> None:
    # Four evaluations in the last third, as of the demo: their slope is large, and so is their noise.
    values = iter([87.6, 85.4, 89.2, 81.6, 81.6])
    test = [{"step": step, "split": "test", "loss": next(values)} for step in range(600, 1001, 100)]
    falling, level = (history(None, curve, points=50) for curve in (lambda t: 100 - 20 * t, lambda t: 80.0))
    assert course_of(test).trend == course_of([*test, *level]).trend == "level"
    found = course_of([*test, *falling])
    assert (found.trend, found.loss) == ("falling", "held-out loss")
    # A held-out loss that does not fall has levelled off, whatever the training loss does.
    flat = [{**row, "loss": 81.6} for row in test]
    assert course_of([*flat, *falling]).trend == "level"
