"""TensorBoard: event files in the folder of each run, for `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vaescope.runs.recorded_row import RecordedRow
from vaescope.runs.trackers.tracker import TRACKERS, RunEnd, RunStart, Tracker, required

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

EVENTS = "events.out.tfevents.*"  # how TensorBoard recognises its files
SETTING_TYPES = (bool, int, float, str)  # that its table of settings can show
BAR = "\\|"  # in a cell of a table
COMPARED_METRIC = "test/loss"  # shown next to the settings of each run


@TRACKERS.register("tensorboard", summary="event files next to each run, for `tensorboard --logdir runs`")
@dataclass(frozen=True)
class TensorBoard(Tracker):
    """Event files in the folder of each run."""

    def check(self) -> None:
        """Raise an error unless tensorboard is installed."""
        required("tensorboard")

    def start(self, run: RunStart) -> TensorBoardSession:
        """Write events to the folder of the run; TensorBoard drops earlier ones of steps that are trained again."""
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        is_new = not any(run.path.glob(EVENTS))
        writer = SummaryWriter(str(run.path), purge_step=run.step + 1)
        if is_new:
            writer.add_text("settings", _table(run.settings))
            known = {name: value for name, value in run.settings.items() if isinstance(value, SETTING_TYPES)}
            experiment, session, _ = hparams(known, {COMPARED_METRIC: 0.0})
            assert writer.file_writer is not None  # until it is closed
            for part in (experiment, session):
                writer.file_writer.add_summary(part)
        writer.flush()
        return TensorBoardSession(writer)


@dataclass(frozen=True)
class TensorBoardSession:
    """The event file of a run."""

    writer: SummaryWriter

    def log(self, row: RecordedRow) -> None:
        """Write each number of the row at its step."""
        for name, value in row.numbers.items():
            self.writer.add_scalar(name, value, row.step)
        # A page that is open shows the row, and a kill loses none.
        self.writer.flush()

    def finish(self, end: RunEnd) -> None:
        """Write how the run ended, and close the file."""
        self.writer.add_text("end", _table(end.facts()), end.step)
        self.writer.close()


def _table(values: Mapping[str, object]) -> str:
    """Names and values as a table in Markdown."""
    lines = [f"| {name} | {str(value).replace('|', BAR)} |" for name, value in values.items()]
    return "\n".join(["| name | value |", "| --- | --- |", *lines])
