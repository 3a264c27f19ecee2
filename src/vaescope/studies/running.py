"""Do the missing pieces of a study, within a time if one is given, and put its findings together."""

from __future__ import annotations

import _thread
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from vaescope.checks import finite_number
from vaescope.data import Dataset
from vaescope.errors import ConfigurationError
from vaescope.runs import COMPLETE, Run, Store
from vaescope.studies.context import Logbook, StudyContext, StudySettings
from vaescope.studies.pieces import ComparePiece, Piece, StepTimes, StudyPlan, TaskPiece, TrainPiece, plan_study
from vaescope.studies.requests import MeasureRequest, MissingResults
from vaescope.studies.results import Json, Result, ResultStore
from vaescope.studies.study import Findings, Study
from vaescope.sweeps import get_engine, is_done, single_thread


class StudyUnfinished(Exception):
    """The time was used up, or the rest belongs to other machines; what was measured is kept."""

    def __init__(self, plan: StudyPlan, reason: str) -> None:
        super().__init__(f"{plan.summary()}. {reason}")
        self.plan = plan


class OutOfTime(Exception):
    """The minutes are over while a piece is being done; its checkpoint is written."""


def find(
    study: Study,
    settings: StudySettings,
    *,
    minutes: float | None = None,
    share: tuple[int, int] | None = None,
) -> tuple[Findings, Logbook]:
    """The findings of a study and its logbook, after what is missing was trained and measured.

    Args:
        minutes: Whole pieces are done until the next one would not fit; `StudyUnfinished` tells what is left.
        share: (i, n): only the i-th of n shares of the pieces is done here.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * finite_number("minutes", minutes, above=0)
    store, first = _open_store(settings), True
    opened: dict[str, Dataset] = {}
    while True:
        context = StudyContext(settings, store, opened)
        # Small nets gain nothing from more threads, and lose much to them.
        with single_thread(context.device):
            try:
                findings = study.work(context)
            except MissingResults:
                plan = plan_study(study.name, context, share)
            else:
                context.check_names(study.name)
                return _with_notes(findings, context.log), context.log
            if not plan.missing:
                _refuse_endless(plan)
                raise StudyUnfinished(plan, "The rest belongs to other shares; merge their results with --results.")
            in_time = _perform(plan, context, deadline, first=first)
            first = False
        if not in_time:
            raise StudyUnfinished(plan_study(study.name, context, share), "The same command continues.")


def plan(study: Study, settings: StudySettings, share: tuple[int, int] | None = None) -> StudyPlan:
    """The pieces of a study, done or missing; nothing is trained."""
    context = StudyContext(settings, _open_store(settings))
    with suppress(MissingResults):
        study.work(context)
    return plan_study(study.name, context, share)


def _open_store(settings: StudySettings) -> ResultStore:
    store = ResultStore(settings.results_folder)
    store.clean()
    for other in settings.results[1:]:
        store.merge(Path(other))
    return store


def _refuse_endless(plan: StudyPlan) -> None:
    if not plan.missing_elsewhere:
        raise AssertionError(f"{plan.study} reads a value that it did not ask for")


def _with_notes(findings: Findings, log: Logbook) -> Findings:
    return replace(findings, notes=tuple(dict.fromkeys((*log.notes, *findings.notes))))


def _perform(plan: StudyPlan, context: StudyContext, deadline: float | None, *, first: bool) -> bool:
    """Do the missing pieces of this machine while they fit; whether all of them were done.

    The first piece of a command is begun in any case: one that is longer than the minutes resumes from its checkpoint.
    """
    context.verified_device()
    together = None if deadline is None else (os.cpu_count() or 1) if _side_by_side(context) else 1
    waiting = list(plan.missing)
    times = StepTimes(Path(context.settings.runs))
    while waiting:
        batch = _batch(waiting, together)
        if deadline is not None and not first and not _fits(batch, deadline):
            return False
        first, began = False, time.monotonic()
        try:
            with _stopped_at(deadline):
                _perform_batch(batch, context)
        except OutOfTime:
            return False
        seconds, whole = time.monotonic() - began, sum(piece.remaining for piece in batch)
        for piece in batch:
            times.add(piece.speed, seconds * piece.remaining / whole, piece.remaining)
        waiting = waiting[len(batch) :]
    return True


def _side_by_side(context: StudyContext) -> bool:
    """Whether several pieces train at the same time."""
    return torch.device(context.device).type == "cpu" and context.settings.engine_options.get("workers") != 1


def _batch(pieces: Sequence[Piece], most: int | None) -> list[Piece]:
    """The first piece, with the trainings that directly follow if it is one: an engine does them side by side."""
    count = 1
    if isinstance(pieces[0].work, TrainPiece):
        while count < len(pieces) and isinstance(pieces[count].work, TrainPiece) and (most is None or count < most):
            count += 1
    return list(pieces[:count])


def _fits(pieces: Sequence[Piece], deadline: float) -> bool:
    """Whether pieces that are done side by side end in time."""
    return max(piece.seconds for piece in pieces) <= deadline - time.monotonic()


def _perform_batch(pieces: Sequence[Piece], context: StudyContext) -> None:
    work = pieces[0].work
    if isinstance(work, TaskPiece):
        for key, result in work.task.perform(work.missing):
            if context.store.find(key) is None:
                context.store.add(key, replace(result, made={**_made(context), **result.made}))
    elif isinstance(work, ComparePiece):
        _compare(work, context)
    else:
        _train([piece.work for piece in pieces if isinstance(piece.work, TrainPiece)], context)


def _train(works: Sequence[TrainPiece], context: StudyContext) -> None:
    """Train and measure models; values are kept as soon as the models of a piece are done."""
    settings = context.settings
    folder = Path(settings.runs)
    jobs = [replace(work.remaining_job(), number=number) for number, work in enumerate(works)]
    finished = [job for job in jobs if is_done(job, folder)]
    missing = [job for job in jobs if job not in finished]
    train = get_engine(settings.engine)
    done = train(missing, folder, device=context.device, **settings.engine_options) if missing else iter(())
    for job in chain(finished, done):
        _measure(works[job.number], job.ids, context)


def _measure(work: TrainPiece, ids: Sequence[str], context: StudyContext) -> None:
    requests: dict[str, list[MeasureRequest]] = {}
    for request in work.requests:
        if request.run.id in ids and context.store.find(request.key) is None:
            requests.setdefault(request.run.id, []).append(request)
    data = context.dataset(work.job.data)
    for identity, own in requests.items():
        run = Run.open(Store(Path(context.settings.runs)).path(identity))
        for request in own:
            if run.status == COMPLETE:
                result = Result(request.measurement.of(run, data, context.device), made=_made(context))
            else:
                why = (run.failure or {}).get("error", "it did not finish")
                result = Result(None, str(why), _made(context))
            context.store.add(request.key, result)


def _compare(work: ComparePiece, context: StudyContext) -> None:
    request, store = work.request, Store(Path(context.settings.runs))
    runs = {run.id: Run.open(store.path(run.id)) for run in request.runs}
    failed = [run for run in runs.values() if run.status != COMPLETE]
    if failed:
        result = Result(None, f"run {failed[0].id} diverged", _made(context))
    else:
        groups = [[runs[run.id] for run in group] for group in request.groups]
        data = context.dataset(request.runs[0].job.data)
        comparison = request.comparison
        result = Result(comparison.function(groups, data, context.device, **comparison.options), made=_made(context))
    context.store.add(request.key, result)


def _made(context: StudyContext) -> dict[str, Json]:
    from vaescope import __version__

    kind = torch.device(context.device).type
    name = torch.cuda.get_device_name(context.device) if kind == "cuda" else platform.machine()
    return {"vaescope": __version__, "torch": torch.__version__, "device": name}


@contextmanager
def _stopped_at(deadline: float | None) -> Iterator[None]:
    """Interrupt the work when the time is over, as Ctrl-C would: training then writes its checkpoint."""
    if deadline is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    lock, state = threading.Lock(), {"over": False, "fired": False}

    def fire() -> None:
        with lock:
            if not state["over"]:
                state["fired"] = True
                _thread.interrupt_main()

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), fire)
    timer.daemon = True
    try:
        try:
            timer.start()
            yield
        finally:
            timer.cancel()
            with lock:
                state["over"] = True
    except KeyboardInterrupt as error:
        if state["fired"]:
            raise OutOfTime from error
        raise


def check_findings(name: str, settings: StudySettings, findings: Findings) -> None:
    """A study without a single number says why."""
    if not findings.cells:
        why = "data must name some that" if settings.data else "some of the data must be there that"
        raise ConfigurationError(f"{why} {name} is about. {' '.join(findings.notes)}")
