"""Train to the end with a history and checkpoints on disk, from the last checkpoint if there is one."""

from __future__ import annotations

import time
from pathlib import Path

from vaescope.errors import ConfigurationError, RunError
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.progress import ProgressReport
from vaescope.runs.journal import Journal
from vaescope.runs.locks import remove_leftovers
from vaescope.runs.record import STATE_FILE, Table
from vaescope.training import HistoryRow, Trainer
from vaescope.training.checkpoint import load_state, save_state


def train_with_checkpoints(folder: Path, trainer: Trainer, report: ProgressReport, checkpoint_seconds: float) -> None:
    """Train to the end, with the history and the checkpoints in `folder`.

    Rows reach the disk before the checkpoint that includes them, so a checkpoint always finds its history.
    """
    journal, state_file = Journal(folder), folder / STATE_FILE
    remove_leftovers(folder)
    if state_file.exists():
        _resume(trainer, state_file)
    journal.rewind(trainer.state.step)
    saved, recorded = time.monotonic(), trainer.state.step
    rows: list[HistoryRow] = []
    probes: list[HistoryRow] = []
    try:
        while not trainer.finished:
            rows = trainer.advance()
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
            probes = [row for row in rows if row.split == "probe"] or probes
            report(recorded, _progress_text(rows, probes))
            if time.monotonic() - saved >= checkpoint_seconds:
                save_state(state_file, trainer.state)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if rows and rows[-1].step == trainer.state.step > recorded:
            # Interrupted while the rows were written: write them again, in full.
            journal.rewind(recorded)
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
        # A state without its rows is not saved: the checkpoint before it has its history.
        if trainer.state.step == recorded:
            save_state(state_file, trainer.state)
        raise
    save_state(state_file, trainer.state)


def _resume(trainer: Trainer, state_file: Path) -> None:
    state = load_state(state_file)
    try:
        trainer.load(state)
    except ConfigurationError as error:
        raise RunError(
            f"{state_file} is not a checkpoint of this run ({error}) Restore it from a backup, or move it elsewhere "
            "to train from the start."
        ) from error


def _flat(row: HistoryRow, members: int) -> Table:
    member = {"member": row.member} if members > 1 else {}
    return {"step": row.step, "split": row.split, **member, **row.values}


def _progress_text(rows: list[HistoryRow], probes: list[HistoryRow]) -> str:
    """The loss and the latest counts of latent types, as ranges over the members."""
    losses = sorted(row.values["loss"] for row in rows if row.split == "train")
    words = [f"loss {_range([f'{loss:.2f}' for loss in losses])}"]
    for name in VARIABLE_TYPES if probes else ():
        words.append(f"{name} {_range([str(count) for count in sorted(probe.values[name] for probe in probes)])}")
    return " ".join(words)


def _range(values: list[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
