"""The contract of a tracker: what it receives when a run begins, with each row, and when the run ends."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, runtime_checkable

from vaescope.errors import ConfigurationError
from vaescope.registry import Part, PartRegistry
from vaescope.runs.record import COMPLETE, Table
from vaescope.runs.recorded_row import RecordedRow
from vaescope.runs.run import Run
from vaescope.runs.type_counts import TypeCounts


@dataclass(frozen=True)
class RunStart:
    """A run that begins or resumes.

    Attributes:
        id: The id of the run, under which the tracker shows it.
        path: The folder of the run.
        settings: All settings of the run, named as in the table of runs.
        step: Number of steps whose rows were sent before, by an earlier call; 0 for a new run.
    """

    id: str
    path: Path
    settings: Table
    step: int


@dataclass(frozen=True)
class RunEnd:
    """A run that ends, or stops to be resumed later.

    Attributes:
        status: 'complete', 'failed' (it diverged) or 'training' (it was interrupted).
        path: The folder of the run.
        step: Number of steps done.
        test_loss: The last loss on held-out items; None before the first.
        types: Number of latents of each type at the end, or at the last probe of a run that did not end; empty for a
            model without types.
    """

    status: str
    path: Path
    step: int
    test_loss: float | None
    types: dict[str, int]

    @classmethod
    def of(cls, run: Run) -> RunEnd:
        """The end of a run as its folder has it."""
        last = {row["split"]: row for row in run.history}
        types = TypeCounts.of(run.record, run.history)
        counts = {} if types is None else types.counts
        step = run.history[-1]["step"] if run.history else 0
        return cls(run.status, run.path, step, last.get("test", {}).get("loss"), counts)

    @property
    def is_complete(self) -> bool:
        """Whether the run was trained to the end."""
        return self.status == COMPLETE

    def facts(self) -> dict[str, str | float]:
        """Status, path, types and test loss by name, without those that are unknown."""
        types = ", ".join(f"{count} {name}" for name, count in self.types.items())
        found = {"status": self.status, "path": str(self.path), "types": types, "test_loss": self.test_loss}
        return {name: value for name, value in found.items() if value not in (None, "")}


class TrackerSession(Protocol):
    """One run in a tracker, from its beginning to its end."""

    def log(self, row: RecordedRow) -> None:
        """Show a row."""
        ...

    def finish(self, end: RunEnd) -> None:
        """Send what is waiting to be sent, and close the run in the tracker."""
        ...


@runtime_checkable
class Tracker(Part, Protocol):
    """Shows the rows of runs elsewhere while they train.

    A run resumes under the same id. After a kill, rows since the last checkpoint are trained and sent again, with the
    same numbers: a tracker must not show them twice.
    """

    def check(self) -> None:
        """Raise an error unless the tracker can be used; called before anything is opened or trained."""

    def start(self, run: RunStart) -> TrackerSession:
        """Begin a run, or continue it if the tracker has it already."""
        ...


TRACKERS: PartRegistry[Tracker] = PartRegistry("tracker", "vaescope.trackers", Tracker)


def required(package: str) -> ModuleType:
    """The package of the tracker with the same name, or an error that says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        # An installed but broken package misses another module; its own error says which.
        if error.name != package:
            raise
        raise ConfigurationError(
            f"tracker {package!r} needs the package {package}, which is not installed. "
            f"Run: pip install 'vaescope[{package}]'"
        ) from error
