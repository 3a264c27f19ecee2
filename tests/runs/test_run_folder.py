"""A run folder from creation to completion."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.errors import RunError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.runs import Configuration, Run, Split, fit
from vaescope.runs.record import Provenance
from vaescope.training import Member, Plan, Trainer

DATA = from_array(np.random.default_rng(0).normal(size=(20, 4)))
ARCHITECTURE = Architecture(net=MLP((5,), (5,)), likelihood="gaussian")
CONFIGURATION = Configuration.of(DATA, Split(0), ARCHITECTURE, Plan(1), Member(2))


def test_a_new_run_is_in_training_and_has_no_model(tmp_path: Path) -> None:
    run = Run.create(tmp_path, CONFIGURATION)
    opened = Run.open(str(tmp_path))
    assert opened == run
    assert (opened.status, opened.id, opened.configuration) == ("training", CONFIGURATION.id, CONFIGURATION)
    assert opened.history == []
    assert opened.last("train") == {}
    assert not opened.has_model
    with pytest.raises(RunError, match=rf"run {CONFIGURATION.id} must be complete"):
        _ = opened.model


def test_a_failed_run_records_the_reason_until_it_succeeds(tmp_path: Path) -> None:
    run = Run.create(tmp_path, CONFIGURATION)
    failed = run.fail({"error": "rate must stay finite", "step": 3})
    assert failed.status == "failed"
    assert json.loads((tmp_path / "failure.json").read_text())["step"] == 3
    (tmp_path / "history.jsonl").write_text('{"step": 1, "split": "train"}\n')
    finished = failed.finish(ARCHITECTURE.build(DATA.shape, 2, seed=1))
    assert finished.status == "complete"
    assert not (tmp_path / "failure.json").exists()


def test_the_model_of_a_run_is_the_trained_one(tmp_path: Path) -> None:
    trainer = Trainer(ARCHITECTURE, [Member(2)], CONFIGURATION.plan, DATA)
    trainer.advance()
    run = Run.create(tmp_path, CONFIGURATION).finish(trainer.model())
    ours, theirs = run.model.state_dict(), trainer.model().state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not run.model.training


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_model_keeps_the_precision_it_was_trained_in(precision: str, tmp_path: Path) -> None:
    run = fit(DATA, 2, net=MLP((5,), (5,)), steps=2, precision=precision, runs=tmp_path, device="cpu")
    assert {parameter.dtype for parameter in run.model.parameters()} == {getattr(torch, precision)}


def test_provenance_is_kept_next_to_the_configuration(tmp_path: Path) -> None:
    run = Run.create(tmp_path, CONFIGURATION, Provenance(source="somewhere", device="cpu"))
    assert (run.provenance.source, run.provenance.device) == ("somewhere", "cpu")
