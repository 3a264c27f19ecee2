"""All studies by name, what is missing of them, and doing it, within a time if one is given."""

from __future__ import annotations

import _thread
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Unpack

import torch

from vaescope.checks import finite_number
from vaescope.data import Dataset
from vaescope.errors import ConfigurationError
from vaescope.registry import lookup
from vaescope.runs import COMPLETE, Run, Store
from vaescope.studies import bonheme, clapham, mathieu, pastrana, rolinek
from vaescope.studies.context import MissingResults, StudyContext
from vaescope.studies.pieces import Piece, StepTimes, StudyPlan, TaskPiece, TrainPiece, parse_share, part_of, plan_study
from vaescope.studies.published import published_cells
from vaescope.studies.results import Json, Result, ResultStore
from vaescope.studies.settings import SettingsOptions, StudySettings
from vaescope.studies.study import Findings, Reproduction, Study
from vaescope.sweeps import EngineOptions, get_engine, is_done, single_thread

STUDIES: dict[str, Study] = {
    study.name: study for document in (bonheme, clapham, mathieu, pastrana, rolinek) for study in document.STUDIES
}


class StudyUnfinished(Exception):
    """The time was used up, or the rest belongs to other machines; what was measured is kept."""

    def __init__(self, plan: StudyPlan, reason: str) -> None:
        super().__init__(f"{plan.summary()}. {reason}")
        self.plan = plan


class OutOfTime(Exception):
    """The minutes are over while a piece is being done; its checkpoint is written."""


def reproduce(
    name: str,
    scale: str = "quick",
    *,
    minutes: float | None = None,
    piece: str | None = None,
    **settings: Unpack[SettingsOptions],
) -> Reproduction:
    """Train what is missing of a study, measure it, and compare our numbers with the published ones.

    Results are kept as they are measured: the same call continues after a stop.

    Args:
        name: A study of `STUDIES`.
        scale: 'quick' or 'paper'.
        minutes: Time limit. Whole pieces are done until the next would not fit, then `StudyUnfinished` is raised.
        piece: The share of the pieces that is done here, such as '3/8'. Default: all.
        settings: Those of `StudySettings`: seeds, share, data, runs, results, device, engine, engine_options, progress.
    """
    study, chosen = lookup(STUDIES, name, "study"), StudySettings(scale, **settings)
    findings, words = find(study, chosen, minutes=minutes, share=None if piece is None else parse_share(piece))
    if not findings.cells:
        why = "data must name some that" if chosen.data else "some of the data must be there that"
        raise ConfigurationError(f"{why} {name} is about. {' '.join(findings.notes)}")
    return Reproduction(study, chosen, findings, published_cells(name), words)


def plan(
    name: str, scale: str = "quick", *, piece: str | None = None, **settings: Unpack[SettingsOptions]
) -> StudyPlan:
    """The pieces of a study that are done and those that are missing, with an estimate of their minutes.

    The arguments are those of `reproduce`. Nothing is trained.
    """
    study = lookup(STUDIES, name, "study")
    return plan_pieces(study, StudySettings(scale, **settings), None if piece is None else parse_share(piece))


def find(
    study: Study,
    settings: StudySettings,
    *,
    minutes: float | None = None,
    share: tuple[int, int] | None = None,
) -> tuple[Findings, str]:
    """The findings of a study after what is missing was trained and measured, and its scale in words.

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
                notes = tuple(dict.fromkeys((*context.notes, *findings.notes)))
                return replace(findings, notes=notes), context.scale_words()
            if not plan.missing:
                if not plan.left:
                    raise AssertionError(f"{study.name} reads a value that it did not ask for")
                raise StudyUnfinished(plan, "The rest belongs to other shares; merge their results with --results.")
            in_time = _perform(plan, context, deadline, first=first)
            first = False
        if not in_time:
            raise StudyUnfinished(plan_study(study.name, context, share), "The same command continues.")


def plan_pieces(study: Study, settings: StudySettings, share: tuple[int, int] | None = None) -> StudyPlan:
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


def _perform(plan: StudyPlan, context: StudyContext, deadline: float | None, *, first: bool) -> bool:
    """Do the missing pieces of this machine while they fit; whether all of them were done.

    The first piece of a command is begun in any case: one that is longer than the minutes resumes from its checkpoint.
    """
    on_cpu = torch.device(context.verified_device()).type == "cpu"
    side_by_side = on_cpu and context.settings.engine_options.get("workers") != 1
    together = None if deadline is None else (os.cpu_count() or 1) if side_by_side else 1
    waiting = list(plan.missing)
    times = StepTimes(Path(context.settings.runs))
    while waiting:
        # The first piece, or the trainings that come first: an engine does them side by side.
        trainings = takewhile(lambda piece: isinstance(piece.work, TrainPiece), waiting)
        batch = list(islice(trainings, together)) or waiting[:1]
        began = time.monotonic()
        if deadline is not None and not first and max(piece.seconds for piece in batch) > deadline - began:
            return False
        first = False
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


def _perform_batch(pieces: Sequence[Piece], context: StudyContext) -> None:
    work = pieces[0].work
    if isinstance(work, TaskPiece):
        for key, result in work.task.perform(work.missing):
            if context.store.find(key) is None:
                context.store.add(key, replace(result, made={**_made(context), **result.made}))
    else:
        _train([piece.work for piece in pieces if isinstance(piece.work, TrainPiece)], context)


def _train(works: Sequence[TrainPiece], context: StudyContext) -> None:
    """Train and measure models; values are kept as soon as the models of a piece are done."""
    settings = context.settings
    folder = Path(settings.runs)
    jobs = [replace(part_of(work.job, work.missing), number=number) for number, work in enumerate(works)]
    finished = [job for job in jobs if is_done(job, folder)]
    missing = [job for job in jobs if job not in finished]
    train = get_engine(settings.engine)
    options = EngineOptions(folder, context.device, **settings.engine_options)
    done = train(missing, options) if missing else iter(())
    for job in chain(finished, done):
        _measure(works[job.number], job.ids, context)


def _measure(work: TrainPiece, ids: Sequence[str], context: StudyContext) -> None:
    data = context.dataset(work.job.data)
    runs: dict[str, Run] = {}
    for request in work.requests:
        identity, measurement = request.run.id, request.measurement
        if identity not in ids or context.store.find(request.key) is not None:
            continue
        if identity not in runs:
            runs[identity] = Run.open(Store(Path(context.settings.runs)).path(identity))
        run = runs[identity]
        if run.status == COMPLETE:
            value: Json = measurement.function(run, data, context.device, **measurement.options)
            result = Result(value, made=_made(context))
        else:
            why = (run.failure or {}).get("error", "it did not finish")
            result = Result(None, str(why), _made(context))
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
