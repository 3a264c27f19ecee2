"""A shorter training passes through the schedules of its objective in its share of the time."""

from __future__ import annotations

import pytest

from vaescope.objectives import Annealed
from vaescope.studies import StudyContext, StudySettings
from vaescope.studies.bonheme import settings as thesis
from vaescope.studies.schedules import shortened_grid, shortened_objective


@pytest.mark.parametrize(
    ("table", "shortened"),
    [
        ({"name": "annealed", "capacity": 5}, {"name": "annealed", "capacity": 5, "steps": 10_000.0}),
        ({"name": "annealed", "steps": 40}, {"name": "annealed", "steps": 4.0}),
        ({"name": "annealed", "steps": 3}, {"name": "annealed", "steps": 1.0}),
        ({"name": "beta", "warm_up": 100}, {"name": "beta", "warm_up": 10.0}),
        ({"name": "beta", "beta": 4.0}, {"name": "beta", "beta": 4.0}),
    ],
)
def test_the_schedules_of_an_objective_are_cut(table: dict[str, object], shortened: dict[str, object]) -> None:
    assert shortened_objective(table, 0.1) == shortened


def test_schedules_in_a_grid_are_cut() -> None:
    grid = {"objective.steps": [100, 200], "seed": [0], "objective": [{"name": "annealed", "steps": 50}]}
    assert shortened_grid(grid, 0.5) == {
        "objective.steps": [50.0, 100.0],
        "seed": [0],
        "objective": [{"name": "annealed", "steps": 25.0}],
    }


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_cut_annealed_vae_reaches_its_capacity(share: float) -> None:
    """A third of the training, as in the thesis, whatever the share."""
    context = StudyContext(StudySettings("paper", seeds=1, share=share, device="cuda"))
    runs = thesis.asked_runs(context, thesis.ANNEALED, thesis.DSPRITES, seeds=1)
    for capacity, (run,) in runs.items():
        objective = run.member.objective
        assert isinstance(objective, Annealed)
        assert (objective.capacity, objective.steps) == (capacity, share * 100_000)
        assert run.job.steps == share * 300_000
