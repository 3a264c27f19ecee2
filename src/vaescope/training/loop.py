"""The loop around `Trainer.advance`: yields rows of the history and reports progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.progress import ProgressReport
from vaescope.training.trainer import HistoryRow, Trainer


def training_rows(trainer: Trainer, report: ProgressReport) -> Iterator[list[HistoryRow]]:
    """Train to the end; yields the new rows of the history at each of its steps, then reports progress."""
    probes: list[HistoryRow] = []
    report(trainer.state.step)
    while not trainer.finished:
        rows = trainer.advance()
        yield rows
        probes = [row for row in rows if row.split == "probe"] or probes
        report(trainer.state.step, _progress_text(rows, probes))


def _progress_text(rows: Sequence[HistoryRow], probes: Sequence[HistoryRow]) -> str:
    """The loss and the latest counts of latent types, as ranges over the members."""
    losses = sorted(row.values["loss"] for row in rows if row.split == "train")
    words = [f"loss {_range([f'{loss:.4g}' for loss in losses])}"]
    for name in VARIABLE_TYPES if probes else ():
        words.append(f"{_range([str(count) for count in sorted(probe.values[name] for probe in probes)])} {name}")
    return ", ".join(words)


def _range(values: Sequence[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
