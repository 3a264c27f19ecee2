"""Training in memory: the weights and the history of a fit, without a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.errors import ConfigurationError, LatentError, NonFiniteError
from vaescope.runs import FitOptions, fit_in_memory

TABLE = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
SETTINGS: dict[str, Any] = {"net": NET, "steps": 12, "batch": 10, "log_every": 4, "evaluate_every": 4, "device": "cpu"}
MEMBER = vs.Member(2, vs.objectives.Beta(2.0), 1e-3, 7)


def test_weights_history_and_configuration_are_those_of_a_fit(tmp_path: Path) -> None:
    found = fit_in_memory(TABLE, MEMBER, FitOptions(**SETTINGS))
    run = vs.fit(TABLE, 2, objective=MEMBER.objective, learning_rate=1e-3, seed=7, runs=tmp_path, **SETTINGS)
    assert found.configuration == run.configuration
    assert found.history == run.history
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], tensor)


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit_in_memory(TABLE, MEMBER, FitOptions(**SETTINGS))
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_in_evaluation_mode() -> None:
    assert not fit_in_memory(TABLE, MEMBER, FitOptions(**SETTINGS)).model.training


def test_more_latents_than_dimensions_are_refused() -> None:
    with pytest.raises(LatentError, match="between 1 and 4"):
        fit_in_memory(TABLE, vs.Member(5), FitOptions(**SETTINGS))


def test_a_model_that_diverges_is_an_error() -> None:
    with pytest.raises(NonFiniteError, match="step"):
        fit_in_memory(TABLE, vs.Member(2, learning_rate=1e30), FitOptions(**SETTINGS))


@pytest.mark.parametrize("given", [{"on_row": print}, {"tracker": "tensorboard"}])
def test_what_follows_runs_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="on_row and tracker need a run"):
        fit_in_memory(TABLE, MEMBER, FitOptions(**SETTINGS, **given))
