"""Rows on their way to `on_row` and to a tracker: each is sent once, as soon as it is recorded."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from vaescope.errors import ConfigurationError, TrackerError, VaescopeError, quoted
from vaescope.registry import PartSpec
from vaescope.runs.record import Table
from vaescope.runs.recorded_row import OnRow, RecordedRow
from vaescope.runs.rows import summary_row
from vaescope.runs.run import Run
from vaescope.runs.trackers import TRACKERS, RunEnd, RunStart, Tracker, TrackerSession
from vaescope.training import Member
from vaescope.training.monitor import HistoryValue

OUTCOMES = ("id", "status", "step")  # columns of the table of runs that are not settings


@dataclass
class _Followed:
    """A run whose rows are sent, the last step that was sent of each split, and its session while it is open."""

    run: Run
    member: Member
    settings: Table
    first: int
    sent: dict[str, int] = field(default_factory=dict)
    session: TrackerSession | None = None


class Follower:
    """Sends the rows of runs to `on_row` and to a tracker, in the process that calls `fit` or `run_sweep`.

    Args:
        on_row: Receives each row; default: none.
        tracker: A name, a table {"name": ..., option: value}, or an instance; default: none.
    """

    def __init__(self, on_row: OnRow | None = None, tracker: PartSpec[Tracker] | None = None) -> None:
        if on_row is not None and not callable(on_row):
            raise ConfigurationError(f"on_row must be a function of a row, got {quoted(on_row)}.")
        self.on_row = on_row
        self.tracker = None if tracker is None else TRACKERS.resolve(tracker)
        self._runs: dict[str, _Followed] = {}
        self._stopped = False
        if self.tracker is not None:
            if not isinstance(self.tracker, Tracker):
                raise ConfigurationError(f"tracker must be one of {', '.join(TRACKERS)}, got {quoted(tracker)}.")
            self.tracker.check()

    @property
    def active(self) -> bool:
        """Whether anything receives rows."""
        return self.on_row is not None or self.tracker is not None

    @contextmanager
    def following(self, runs: Sequence[Run], step: int) -> Iterator[None]:
        """Follow runs that train inside this block from a step on."""
        with self.closing():
            for run in runs:
                self.begin(run, step)
            yield
            for run in runs:
                self.end(run.id)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """End every session when an exception leaves the block; what then goes wrong with one is a warning."""
        try:
            yield
        except BaseException:
            for identity in self._runs:
                try:
                    self.end(identity)
                except VaescopeError as error:
                    warnings.warn(str(error), stacklevel=3)
            raise

    def begin(self, run: Run, step: int) -> None:
        """Follow a run whose rows up to this step were sent by an earlier call."""
        if not self.active or self._stopped:
            return
        if run.id not in self._runs:
            row = summary_row(run.record, [])
            settings = {name: value for name, value in row.items() if name not in OUTCOMES}
            self._runs[run.id] = _Followed(run, run.configuration.member, settings, step)
        known = self._runs[run.id]
        if self.tracker is not None and known.session is None:
            # This call has sent rows of a run that starts again because one that trained with it diverged.
            done = max([known.first, *known.sent.values()])
            with self._tracking("start", run):
                known.session = self.tracker.start(RunStart(run.id, run.path, dict(known.settings), done))

    def follows(self, identity: str) -> bool:
        """Whether a run has begun."""
        return identity in self._runs

    def send(self, identity: str, step: int, split: str, values: Mapping[str, HistoryValue]) -> None:
        """Send a row of a run that has begun, unless it was sent before, or a receiver has failed."""
        known = self._runs.get(identity)
        if known is None or self._stopped or step <= known.sent.get(split, known.first):
            return
        known.sent[split] = step
        row = RecordedRow(identity, known.member, dict(known.settings), step, split, dict(values))
        try:
            if self.on_row is not None:
                self.on_row(row)
            if known.session is not None:
                with self._tracking(f"log step {step} of", known.run):
                    known.session.log(row)
        except BaseException as error:
            self._stopped = not isinstance(error, KeyboardInterrupt)
            raise

    def end(self, identity: str) -> None:
        """Close the session of a run, if it has one."""
        known = self._runs.get(identity)
        if known is None or known.session is None:
            return
        session, known.session = known.session, None
        with self._tracking("close", known.run):
            session.finish(RunEnd.of(Run.open(known.run.path)))

    @contextmanager
    def _tracking(self, task: str, run: Run) -> Iterator[None]:
        """Turn an error of a tracker's package into one of vaescope that names the run."""
        try:
            yield
        except VaescopeError:
            self._stopped = True
            raise
        except Exception as error:
            self._stopped = True
            words = f"{type(error).__name__}: {error}".rstrip(". \n")
            raise TrackerError(
                f"the tracker {type(self.tracker).__name__} must be able to {task} run {run.id}, but it failed "
                f"({words}). The run is kept. Repeat the call to resume it, with or without the tracker."
            ) from error
