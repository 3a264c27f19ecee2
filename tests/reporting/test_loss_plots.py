"""Plots of the losses of several runs."""

from __future__ import annotations

import math
from typing import Any

from vaescope.reporting.comparison_plots import losses_plot
from vaescope.reporting.model_style import model_style
from vaescope.reporting.plots import Plot


def history(last: float, steps: int = 4, splits: tuple[str, ...] = ("train", "test")) -> list[dict[str, Any]]:
    """A loss that decreases to `last` on held-out items, and to one less on training items."""
    return [
        {"step": step, "split": split, "loss": last + steps - step - (split == "train")}
        for step in range(1, steps + 1)
        for split in splits
    ]


def drawn(plot: Plot | None) -> Plot:
    assert plot is not None
    return plot


def test_each_run_has_a_panel_on_the_same_scale() -> None:
    plot = drawn(losses_plot([("one", history(5.0)), ("two", history(3.0)), ("codes", [])], comparable=True))
    one, two = plot.figure.data
    assert (one.name, one.x, one.y) == ("one", (1, 2, 3, 4), (8.0, 7.0, 6.0, 5.0))
    assert (one.yaxis, two.yaxis) == ("y", "y2")
    assert plot.figure.layout.yaxis2.matches == "y"
    titles = [title.text for title in plot.figure.layout.annotations]
    assert titles == [model_style(0).tick("one"), model_style(1).tick("two")]
    assert [line.line.color for line in (one, two)] == [model_style(0).colour, model_style(1).colour]
    assert "two has the lowest final loss of 2 runs, 3 nats; 1 without" in plot.sentence
    assert plot.rows[0] == {"name": "one", "split": "test", "step": 1, "loss": 8.0}


def test_losses_that_do_not_measure_the_same_are_not_ranked() -> None:
    for count in (2, 13):
        runs = [(f"run {number}", history(20.0 - number)) for number in range(count)]
        plot = drawn(losses_plot(runs, comparable=False))
        assert "cannot be compared" in plot.sentence
        assert "lowest" not in plot.sentence
        assert not any("lowest" in (line.name or "") for line in plot.figure.data)
    assert drawn(losses_plot(runs[:2], comparable=False)).figure.layout.yaxis2.matches is None


def test_training_losses_are_used_if_a_run_has_no_others() -> None:
    plot = drawn(losses_plot([("one", history(5.0)), ("two", history(3.0, splits=("train",)))], comparable=True))
    assert {entry["split"] for entry in plot.rows} == {"train"}
    assert plot.figure.data[0].y == (7.0, 6.0, 5.0, 4.0)
    assert "training items" in plot.sentence


def test_many_losses_share_a_panel_with_the_lowest_on_top() -> None:
    runs = [(f"run {number}", history(20.0 - number)) for number in range(13)]
    figure = drawn(losses_plot(runs, comparable=True)).figure
    assert len(figure.data) == 13
    assert {one.yaxis for one in figure.data} == {None}
    assert figure.data[-1].name == "lowest final loss: run 12"
    assert figure.data[-1].line.width > figure.data[0].line.width
    assert [one.showlegend for one in figure.data].count(True) == 1
    assert "yaxis12" in drawn(losses_plot(runs[:12], comparable=True)).figure.layout


def test_long_histories_of_many_runs_give_small_figures() -> None:
    runs = [(f"run {number}", history(number + math.pi, 5000)) for number in range(12)]
    assert len(drawn(losses_plot(runs, comparable=True)).figure.to_json()) < 300_000


def test_without_histories_there_is_no_loss_plot() -> None:
    assert losses_plot([], comparable=True) is None
    assert losses_plot([("codes", []), ("failed", [])], comparable=True) is None
    assert losses_plot([("probed", [{"step": 1, "split": "probe", "active": 1}])], comparable=True) is None
