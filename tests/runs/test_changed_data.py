"""A data file that changes under a run: an error that names it; the run resumes with the right file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.errors import DataError
from vaescope.runs import FitOptions, Run, fit, fit_many
from vaescope.training import Member, Trainer

ROWS = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
SMALL: dict[str, Any] = {"net": NET, "steps": 30, "batch": 16, "log_every": 5, "evaluate_every": 10, "device": "cpu"}


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(128)
        file.write((ROWS + 1).tobytes())
    os.utime(path, ns=(1, 1))


CHANGES: dict[str, Callable[[Path], object]] = {
    "overwritten in place": overwrite,
    "cut": lambda path: os.truncate(path, 500),
    "moved": lambda path: path.rename(path.with_suffix(".moved")),
}


def change_after(patch: pytest.MonkeyPatch, calls: int, change: Callable[[], object]) -> None:
    """The file changes before the chunk of steps after this many."""
    advance, left = Trainer.advance, [calls]

    def changed(trainer: Trainer, *given: Any) -> Any:
        if not left[0]:
            change()
        left[0] -= 1
        return advance(trainer, *given)

    patch.setattr(Trainer, "advance", changed)


@pytest.mark.parametrize("members", [1, 2], ids=["alone", "stacked"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_stops_the_run_which_resumes_with_the_right_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], members: int
) -> None:
    path, right = tmp_path / "rows.npy", tmp_path / "right.npy"
    np.save(right, ROWS)
    shutil.copy(right, path)
    asked = [Member(3, seed=seed) for seed in range(members)]
    options = FitOptions(runs=tmp_path / "runs", checkpoint_seconds=0, **SMALL)
    with monkeypatch.context() as patch:
        change_after(patch, 3, lambda: change(path))
        with pytest.raises(DataError, match=r"rows\.npy must stay as it was"):
            fit_many(path, asked, options)
    stopped = [Run.open(file.parent) for file in (tmp_path / "runs").glob("*/run.json")]
    assert [run.status for run in stopped] == ["training"] * members
    shutil.copy(right, path)
    runs = fit_many(path, asked, options)
    assert {run.id for run in runs} == {run.id for run in stopped}
    untroubled = fit(right, 3, runs=tmp_path / "untroubled", **SMALL)
    assert runs[0].history == untroubled.history
    for name, weights in untroubled.model.state_dict().items():
        assert torch.equal(runs[0].model.state_dict()[name], weights)
