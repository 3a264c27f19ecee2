"""`on_row` receives every row of the history once, as soon as it is recorded, in the process of the caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vaescope as vs
from vaescope.errors import ConfigurationError
from vaescope.runs import FitOptions, RecordedRow, Run, Store, fit, fit_many
from vaescope.runs.following import Follower
from vaescope.runs.journal import Journal
from vaescope.runs.record import STATE_FILE
from vaescope.sweeps import EngineOptions, Sweep, make_jobs, run_sweep
from vaescope.sweeps.tail import HistoryTail
from vaescope.training import Member, Trainer
from vaescope.training.checkpoint import load_state

DATA = np.random.default_rng(0).normal(size=(100, 8))
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
SMALL: dict[str, Any] = {
    "net": NET,
    "steps": 30,
    "batch": 16,
    "log_every": 5,
    "evaluate_every": 10,
    "monitor_every": 15,
    "device": "cpu",
    "progress": False,
}
SWEPT = {"net": NET, "steps": 20, "batch": 16, "log_every": 5, "evaluate_every": 10, "monitor_every": 10}


class Receiver:
    """Keeps rows, and raises an error at the first row of a step."""

    def __init__(self, fails_at: int | None = None, error: BaseException | None = None) -> None:
        self.rows: list[RecordedRow] = []
        self.fails_at, self.error = fails_at, error or RuntimeError("enough")

    def __call__(self, row: RecordedRow) -> None:
        self.rows.append(row)
        if row.step == self.fails_at:
            raise self.error

    def of(self, run: str) -> list[dict[str, Any]]:
        """The rows of a run, as its history has them."""
        return [{"step": row.step, "split": row.split, **row.values} for row in self.rows if row.run == run]


def test_rows_are_those_of_the_history_with_the_settings_of_the_run(tmp_path: Path) -> None:
    received = Receiver()
    run = fit(DATA, 3, seed=4, runs=tmp_path, on_row=received, **SMALL)
    assert received.of(run.id) == run.history
    assert {row.member for row in received.rows} == {Member(3, seed=4)}
    settings = received.rows[0].settings
    assert (settings["latents"], settings["steps"], settings["net"], settings["beta"]) == (3, 30, "mlp", 1.0)
    assert all(row.settings == settings for row in received.rows)


def test_a_row_is_recorded_before_it_is_received(tmp_path: Path) -> None:
    def look(row: RecordedRow) -> None:
        assert any(
            (known["step"], known["split"]) == (row.step, row.split) for known in Journal(tmp_path / row.run).rows()
        )
        seen.append(row.step)

    seen: list[int] = []
    fit(DATA, 3, runs=tmp_path, on_row=look, **SMALL)
    assert seen[0] == 5
    assert seen[-1] == 30


def test_the_numbers_of_a_row_have_the_split_in_their_names(tmp_path: Path) -> None:
    received = Receiver()
    run = fit(DATA, 3, runs=tmp_path, on_row=received, **SMALL)
    last = {row.split: row for row in received.rows}
    assert last["test"].numbers["test/loss"] == run.last("test")["loss"]
    assert sum(last["probe"].numbers[f"probe/{kind}"] for kind in ("active", "mixed", "passive")) == 3
    assert not {"probe/types", "probe/correlations"} & set(last["probe"].numbers)


def test_members_that_train_together_are_received_under_their_own_ids(tmp_path: Path) -> None:
    received = Receiver()
    members = [Member(latents, seed=seed) for latents, seed in ((2, 5), (3, 1), (2, 0))]
    runs = fit_many(DATA, members, FitOptions(runs=tmp_path, on_row=received, **SMALL))
    for run, member in zip(runs, members, strict=True):
        assert received.of(run.id) == run.history
        assert {row.member for row in received.rows if row.run == run.id} == {member}
    assert len(received.rows) == sum(len(run.history) for run in runs)


def test_rows_of_a_reused_run_are_not_sent(tmp_path: Path) -> None:
    run = fit(DATA, 3, runs=tmp_path, **SMALL)
    received = Receiver()
    assert fit(DATA, 3, runs=tmp_path, on_row=received, **SMALL) == run
    assert received.rows == []


def test_a_receiver_that_changes_its_row_does_not_change_the_history(tmp_path: Path) -> None:
    def spoil(row: RecordedRow) -> None:
        row.values.clear()
        row.settings.clear()

    spoilt = fit(DATA, 3, runs=tmp_path / "a", on_row=spoil, **SMALL)
    assert spoilt.history == fit(DATA, 3, runs=tmp_path / "b", **SMALL).history


@pytest.mark.parametrize("seeds", [(0,), (0, 1)], ids=["alone", "stacked"])
@pytest.mark.parametrize("error", [RuntimeError("enough"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_an_error_of_the_receiver_stops_with_a_checkpoint_and_no_row_is_repeated(
    error: BaseException, seeds: tuple[int, ...], tmp_path: Path
) -> None:
    members = [Member(3, seed=seed) for seed in seeds]
    first, second = Receiver(25, error), Receiver()
    with pytest.raises(type(error)) as caught:
        fit_many(DATA, members, FitOptions(runs=tmp_path / "stopped", on_row=first, **SMALL))
    assert caught.value is error
    (state,) = (tmp_path / "stopped").rglob(STATE_FILE)
    assert load_state(state).step == 25
    runs = fit_many(DATA, members, FitOptions(runs=tmp_path / "stopped", on_row=second, **SMALL))
    assert [run.history for run in runs] == [
        run.history for run in fit_many(DATA, members, FitOptions(runs=tmp_path / "whole", **SMALL))
    ]
    assert {row.step for row in second.rows} == {30}
    sent = [first.of(run.id) + second.of(run.id) for run in runs]
    for rows, run in zip(sent, runs, strict=True):
        # Of the members that follow, the row of that step is in the history alone.
        assert rows in (run.history, [row for row in run.history if row["step"] != 25])
    assert any(rows == run.history for rows, run in zip(sent, runs, strict=True))


@pytest.mark.parametrize("before", ["append", "send"])
def test_ctrl_c_at_any_moment_loses_and_repeats_no_row(
    before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = Journal if before == "append" else Follower
    function, calls = getattr(owner, before), [0]

    def interrupted(*arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        function(*arguments)

    first, second = Receiver(), Receiver()
    with monkeypatch.context() as patch:
        patch.setattr(owner, before, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(DATA, 3, runs=tmp_path, on_row=first, **SMALL)
    assert first.rows
    run = fit(DATA, 3, runs=tmp_path, on_row=second, **SMALL)
    assert first.of(run.id) + second.of(run.id) == run.history


def test_after_a_kill_the_rows_since_the_checkpoint_are_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Ends training as a kill does: without another checkpoint."""

    advance: Callable[[Any], Any] = Trainer.advance

    def killed(trainer: Trainer) -> Any:
        if trainer.state.step == 20:
            raise Killed
        return advance(trainer)

    first, second = Receiver(), Receiver()
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", killed)
        with pytest.raises(Killed):
            fit(DATA, 3, runs=tmp_path, on_row=first, checkpoint_seconds=1000, **SMALL)
    run = fit(DATA, 3, runs=tmp_path, on_row=second, **SMALL)
    assert first.of(run.id) == [row for row in run.history if row["step"] <= 20]
    assert second.of(run.id) == run.history


@pytest.mark.parametrize("receiver", [3, "print"])
def test_a_receiver_must_be_a_function(receiver: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="on_row must be a function"):
        fit(DATA, 3, runs=tmp_path, on_row=receiver, **SMALL)
    with pytest.raises(ConfigurationError, match="on_row must be a function"):
        run_sweep(swept([0]), runs=tmp_path, on_row=receiver)
    assert list(tmp_path.iterdir()) == []


def swept(seeds: list[int], **grid: Any) -> Sweep:
    return Sweep("digits", SWEPT, {"latents": 2}, grid={"seed": seeds, **grid})


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_of_a_sweep_reach_the_caller_from_every_process(workers: int, tmp_path: Path) -> None:
    received, where = Receiver(), set()

    def receive(row: RecordedRow) -> None:
        where.add((os.getpid(), threading.current_thread() is threading.main_thread()))
        received(row)

    # Groups of two, of which one loses a member that diverges and starts again.
    sweep = swept([0, 1], batch=[8, 16], learning_rate=[1e-3, 1e30])
    rows = run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=workers, on_row=receive)
    assert where == {(os.getpid(), True)}
    assert sorted(str(row["status"]) for row in rows) == ["complete"] * 4 + ["failed"] * 4
    for row in rows:
        run = Run.open(tmp_path / str(row["id"]))
        if run.status == "complete":
            assert received.of(run.id) == run.history
    again = Receiver()
    run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=workers, on_row=again)
    assert again.rows == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_receiver_stops_a_sweep_which_resumes_without_repeating_a_row(
    workers: int, tmp_path: Path
) -> None:
    sweep = swept([0], batch=[8, 16, 32])
    first, second = Receiver(10), Receiver()
    with pytest.raises(RuntimeError, match="enough"):
        run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=workers, on_row=first)
    # A process may record the last row before it is stopped; it is not sent.
    ended = {run.id for run in Store(tmp_path).runs() if Journal(run.path).last_step() == 20}
    for row in run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=1, on_row=second):
        run = Run.open(tmp_path / str(row["id"]))
        sent = first.of(run.id) + second.of(run.id)
        steps = [(one["step"], one["split"]) for one in sent]
        assert len(steps) == len(set(steps))
        assert all(one in run.history for one in sent)
        assert run.id in ended or run.history[-1] in sent


def test_rows_that_are_recorded_again_after_a_kill_are_sent_once(tmp_path: Path) -> None:
    received = Receiver()
    (job,) = make_jobs(swept([0]))
    options = EngineOptions(tmp_path, follower=Follower(received))
    tail = HistoryTail([job], options)
    tail.poll()
    run = fit("digits", 2, runs=tmp_path / "elsewhere", **{**SMALL, **SWEPT})
    assert run.id == job.ids[0]
    rows = run.history
    os.rename(run.path, tmp_path / run.id)
    journal = Journal(tmp_path / run.id)
    (tmp_path / run.id / STATE_FILE).unlink()
    for kept, written in ((0, 1), (0, 4), (2, 5), (1, len(rows))):
        journal.replace(rows[:kept])
        journal.append(rows[kept:written])
        with journal.path.open("ab") as file:
            file.write(b'{"step": 1')  # half a row
        tail.poll()
    tail.done(job)
    assert received.of(run.id) == rows


def test_the_row_is_part_of_the_public_face() -> None:
    assert vs.runs.RecordedRow is RecordedRow
