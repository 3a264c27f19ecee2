"""The table of results over seeds."""

from __future__ import annotations

from vaescope.reporting.comparison_page import interval_text, seed_rows


def test_intervals_over_seeds_are_students() -> None:
    rows = [{"name": str(seed), "beta": 4.0, "seed": seed, "rate": value} for seed, value in enumerate((1.0, 2.0, 3.0))]
    (row,) = seed_rows([*rows, {"name": "x", "beta": 1.0, "seed": 0, "rate": 9.0}])
    # t(.975, 2) = 4.3027, and the standard error 1 / sqrt(3).
    assert row["rate"] == interval_text([1.0, 2.0, 3.0]) == "2 (-0.4841 to 4.484)"
    assert row["seeds"] == 3
    assert row["beta"] == 4.0
