"""Names of compared models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vaescope.diagnosis.names import differing, model_names, numbered, settings_of_runs
from vaescope.objectives import Annealed, Beta
from vaescope.runs import Run, fit

NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
Fitter = Callable[..., Run]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitter:
    folder = tmp_path_factory.mktemp("named")

    def train(**settings: Any) -> Run:
        return fit("digits", **{"latents": 2, "net": NET, "steps": 2, "runs": folder, "device": "cpu", **settings})

    return train


def names(*runs: Run) -> tuple[str, ...]:
    return model_names(runs, runs)


def test_runs_are_named_by_what_differs(fitted: Fitter) -> None:
    one, strong, seeded = fitted(), fitted(objective=Beta(16.0)), fitted(seed=1)
    assert names(one, strong) == ("beta 1", "beta 16")
    assert names(one, seeded) == ("seed 0", "seed 1")
    assert names(one, strong, seeded) == ("beta 1 · seed 0", "beta 16 · seed 0", "beta 1 · seed 1")
    assert names(one, fitted(latents=3)) == ("2 latents", "3 latents")
    assert names(one, fitted(learning_rate=0.01))[1] == "learning rate 0.01"


def test_a_setting_that_tells_no_more_runs_apart_is_not_in_the_name(fitted: Fitter) -> None:
    runs = (fitted(objective=Beta(2.0), seed=0), fitted(objective=Beta(4.0), seed=1))
    assert names(*runs) == ("beta 2", "beta 4")
    assert differing(settings_of_runs(runs)) == ["beta", "seed"]


def test_objectives_are_named(fitted: Fitter) -> None:
    assert names(fitted(objective=Beta(1.0)), fitted(objective=Annealed(10.0, 5.0, 100))) == (
        "beta objective",
        "annealed objective",
    )


def test_nets_differ_in_their_widths(fitted: Fitter) -> None:
    wide = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [6]}
    assert names(fitted(), fitted(net=wide)) == ("encoder widths [6]", "encoder widths [8]")


def test_the_same_run_twice_is_numbered(fitted: Fitter) -> None:
    run = fitted()
    assert names(run, run) == (f"run {run.id[:8]} (1)", f"run {run.id[:8]} (2)")


def test_a_single_run_among_codes_is_named_by_its_id(fitted: Fitter) -> None:
    run = fitted()
    assert model_names([run, "codes/one.npz"], [run, None]) == (f"run {run.id[:8]}", "one.npz")


def test_files_have_the_shortest_names_that_differ() -> None:
    assert model_names(["x/a/one.npz", Path("x/b/one.npz")], [None, None]) == ("a/one.npz", "b/one.npz")
    assert model_names(["x/one.npz", "x/two.npz"], [None, None]) == ("one.npz", "two.npz")
    assert model_names(["one.npz", "one.npz"], [None, None]) == ("one.npz (1)", "one.npz (2)")


def test_other_models_have_their_class_and_a_number() -> None:
    assert numbered(["Net", "Net", "Other"]) == ("Net (1)", "Net (2)", "Other")
