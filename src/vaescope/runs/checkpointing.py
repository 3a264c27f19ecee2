"""Training in the folder of a run: from its checkpoint, with its history and new checkpoints, to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from vaescope.errors import ConfigurationError, RunError
from vaescope.progress import ProgressReport
from vaescope.runs.folders import Ownership, remove_leftovers
from vaescope.runs.journal import HISTORY_NOTE, Journal
from vaescope.runs.record import STATE_FILE, Table
from vaescope.training import HistoryRow, Trainer
from vaescope.training.checkpoint import load_state, save_state
from vaescope.training.loop import training_rows


def load_checkpoint(folder: Path, trainer: Trainer) -> None:
    """Load the checkpoint of a folder into the trainer, if there is one."""
    remove_leftovers(folder)
    state_file = folder / STATE_FILE
    if not state_file.exists():
        return
    state = load_state(state_file)
    try:
        trainer.load(state)
    except ConfigurationError as error:
        raise RunError(
            f"{state_file} is not a checkpoint of this run ({error}) Restore it from a backup, or move it elsewhere "
            "to train from the start."
        ) from error


def train_with_checkpoints(
    folder: Path,
    trainer: Trainer,
    report: ProgressReport,
    checkpoint_seconds: float,
    owned: Ownership,
    send: Callable[[Sequence[HistoryRow]], None],
) -> None:
    """Train to the end, with the history and the checkpoints in `folder`, which no other process may have taken over.

    Rows reach the disk before the checkpoint that includes them, so a checkpoint always finds its history. Then they
    are sent; if that fails, training stops as it does with Ctrl-C.
    """
    journal, state_file = Journal(folder, owned), folder / STATE_FILE
    journal.rewind(trainer.state.step)
    saved, recorded = time.monotonic(), trainer.state.step
    rows: list[HistoryRow] = []

    def save() -> None:
        owned.check()
        save_state(state_file, trainer.state, {HISTORY_NOTE: journal.checksum})

    def send_recorded() -> None:
        try:
            send(rows)
        except Exception:
            save()
            raise

    try:
        for rows in training_rows(trainer, report):
            journal.append(flat_row(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
            send_recorded()
            if time.monotonic() - saved >= checkpoint_seconds:
                save()
                saved = time.monotonic()
        save()
    except (KeyboardInterrupt, SystemExit):
        if rows and rows[-1].step == trainer.state.step > recorded:
            # Interrupted while the rows were written: write them again, in full.
            journal.rewind(recorded)
            journal.append(flat_row(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
        # A state without its rows is not saved: the checkpoint before it has its history.
        if trainer.state.step == recorded:
            save()
            send(rows)
        raise


def flat_row(row: HistoryRow, members: int) -> Table:
    """A row of the history as a journal keeps it; `member` is there if there are several."""
    member = {"member": row.member} if members > 1 else {}
    return {"step": row.step, "split": row.split, **member, **row.values}
