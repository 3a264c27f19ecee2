"""Student's interval of a mean: textbook values and coverage."""

from __future__ import annotations

import numpy as np
import pytest

from vaescope.numerics.confidence import student_interval


def test_the_interval_of_three_values_uses_two_degrees_of_freedom() -> None:
    assert student_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), rel=1e-6)
    assert student_interval([5, 5]) == (5, 5)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_has_the_stated_coverage(confidence: float) -> None:
    samples = np.random.default_rng(0).standard_normal((2000, 4)).tolist()
    covered = [low < 0 < high for low, high in (student_interval(sample, confidence) for sample in samples)]
    assert np.mean(covered) == pytest.approx(confidence, abs=0.03)
