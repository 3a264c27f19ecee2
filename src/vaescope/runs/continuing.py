"""Finish an interrupted run, or train a run longer: the longer run is a new run that ends as if trained in one go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from vaescope.checks import whole_number
from vaescope.data import DataLike, Dataset
from vaescope.errors import ConfigurationError, DataError, RunError
from vaescope.registry import PartSpec
from vaescope.runs.configuration import Configuration
from vaescope.runs.fitting import train_group
from vaescope.runs.folders import ensemble_of, locked, remove_leftovers
from vaescope.runs.following import Follower
from vaescope.runs.journal import HISTORY_NOTE, Journal
from vaescope.runs.options import FitOptions
from vaescope.runs.record import FAILED, FAILURE_FILE, STATE_FILE, Origin, Provenance
from vaescope.runs.recorded_row import OnRow
from vaescope.runs.run import Run
from vaescope.runs.store import Store, data_of, load
from vaescope.runs.trackers import Tracker
from vaescope.training.checkpoint import load_state, save_state


def resume(
    run: Run | str | Path,
    steps: int | None = None,
    *,
    data: DataLike | None = None,
    device: str | torch.device | None = None,
    runs: str | Path | None = None,
    progress: bool | None = None,
    checkpoint_seconds: float = 20.0,
    on_row: OnRow | None = None,
    tracker: PartSpec[Tracker] | None = None,
) -> Run:
    """Train a run longer, or finish an interrupted run.

    A run's id stands for its settings, the number of steps included, so the longer run has an id of its own; the run
    itself does not change. Training continues from its last checkpoint with the state of the optimiser. On a CPU, the
    longer run is, bit for bit, the one that `fit` makes from the start with the same settings and `steps`: schedules
    (`warm_up`, the capacity of `annealed`) count steps from the start and do not depend on the length of training.
    The settings include `log_every`, `evaluate_every` and `monitor_every`, which stay as they are. Only the history
    may differ: where the length of the run is no multiple of `log_every`, it has one more row, at that step.

    Args:
        run: A run, its folder, or the beginning of its id.
        steps: Length of training, including the steps that are done. Default: that of the run, if it was interrupted.
        data: The data that the run was trained on, if they were in memory of another process.
        device: As in `fit`.
        runs: Folder of runs to find an id in. Default: 'runs'.
        progress, checkpoint_seconds, on_row, tracker: As in `fit`.

    Returns:
        The trained run, next to the original.
    """
    found = load(run, runs)
    found.check_factory()
    store, longer = Store(found.path.parent), _longer(found, steps)
    options = FitOptions(
        device=device,
        runs=store.folder,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        on_row=on_row,
        tracker=tracker,
    )
    if store.is_complete(longer.id):
        return Run.open(store.path(longer.id), found.trained_on)
    opened = _same_data(found, data)
    path = store.path(longer.id)
    if path != found.path:
        _copy_state(found, path, longer)
    start = None
    if longer.start is not None and not (path / STATE_FILE).exists():
        start = store.find(longer.start)
    train_group(store, [longer], opened, options, Follower(on_row, tracker), start)
    return Run.open(path, opened if opened.source is None else None)


def _longer(run: Run, steps: int | None) -> Configuration:
    """The configuration with this many steps; an error if the run cannot be trained to there."""
    configuration = run.configuration
    if configuration.pruned is not None:
        raise RunError(
            f"run {run.id} must have been trained to be resumed, but it was pruned from "
            f"run {configuration.pruned.run}. Train it with fit(data, start={run.id!r})."
        )
    if run.status == FAILED:
        raise RunError(
            f"run {run.id} must have finite weights to be resumed, but it diverged (see {run.path / FAILURE_FILE}). "
            "Train with a lower learning rate."
        )
    if not (run.path / STATE_FILE).exists() and (ensemble := ensemble_of(run.path)) is not None:
        raise RunError(
            f"run {run.id} was interrupted while it trained together with others, whose checkpoint is in "
            f"{ensemble[0]}. Repeat the call or command that began them: it resumes all of them."
        )
    done = configuration.plan.steps
    wanted = done if steps is None else whole_number("steps", steps, 1)
    if wanted < done:
        raise ConfigurationError(
            f"steps must be at least {done}, the length of run {run.id}, as it includes the steps that are done; got "
            f"{wanted}."
        )
    return replace(configuration, plan=replace(configuration.plan, steps=wanted))


def _same_data(run: Run, data: DataLike | None) -> Dataset:
    """The data that the run was trained on; other data are an error."""
    opened = data_of(run, data)
    if opened.fingerprint != run.configuration.data["fingerprint"]:
        raise DataError(
            f"resume needs the data that run {run.id} was trained on, but {opened.name} are others. To train on other "
            f"data from the weights of the run, use fit(data, start={run.id!r})."
        )
    return opened


def _copy_state(run: Run, path: Path, longer: Configuration) -> None:
    """Begin a longer run from the checkpoint and the history of a run, unless it has a checkpoint of its own."""
    if not (run.path / STATE_FILE).exists():
        if run.has_model:
            raise RunError(
                f"{run.path / STATE_FILE} must hold the state of the optimiser to train run {run.id} longer, but there "
                f"is no such file. Restore it from a backup, or train from its weights: fit(data, start={run.id!r})."
            )
        return
    with locked([path]):
        if (path / STATE_FILE).exists():
            return
        state = load_state(run.path / STATE_FILE)
        _ = run.history  # has the checksum in run.json
        rows = [row for row in Journal(run.path).rows() if row["step"] <= state.step]
        kept = [row for row in rows if row["step"] < state.step or longer.plan.has_row(row["step"], row["split"])]
        remove_leftovers(path)
        Run.create(path, longer, Provenance(started_from=Origin("resumed", run.id, state.step)))
        journal = Journal(path)
        journal.replace(kept)
        save_state(path / STATE_FILE, state, {HISTORY_NOTE: journal.checksum})
