"""Jobs of a sweep: runs that train together as one program."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaescope.data import Dataset, open_dataset
from vaescope.models import check_latents
from vaescope.objectives.strengths import form
from vaescope.runs.configuration import Configuration, hash_of
from vaescope.runs.fitting import has_failed, is_complete
from vaescope.runs.measurements import MeasurementSpec, is_measured
from vaescope.runs.options import FitOptions, check_likelihood
from vaescope.runs.run import Run
from vaescope.runs.store import Store
from vaescope.sweeps.specification import Sweep, Trial
from vaescope.training import Member
from vaescope.training.groups import group


@dataclass(frozen=True)
class Job:
    """Runs that train as one program, measured when they are done; it can be sent to another process or machine.

    `number` is its place among the jobs of the sweep, `places` are those of its runs among all runs.
    """

    number: int
    data: Any
    settings: dict[str, Any]
    members: tuple[Member, ...]
    ids: tuple[str, ...]
    places: tuple[int, ...]
    measure: MeasurementSpec

    @property
    def name(self) -> str:
        """A hash of what is trained."""
        return hash_of(list(self.ids))


def make_jobs(sweep: Sweep, device: torch.device | str = "cpu", opened: dict[str, Dataset] | None = None) -> list[Job]:
    """The runs of a sweep in the groups that they train in, which depend on the sweep and the kind of device alone.

    Equal runs are there once. Whatever engine performs a job, and however often it was stopped, it trains the same
    models in company with the same others: the same numbers come out, bit for bit on a CPU. Data that were opened are
    taken from `opened`, and kept there.
    """
    kind = torch.device(torch.device(device).type)
    groups: dict[Any, list[tuple[int, Trial]]] = {}
    for place, trial in enumerate(sweep.trials()):
        key = _text(trial.data), _text(trial.settings), form(trial.member.objective)
        groups.setdefault(key, []).append((place, trial))
    opened = {} if opened is None else opened
    for source, data in {source: trials[0][1].data for (source, _, _), trials in groups.items()}.items():
        opened[source] = opened[source] if source in opened else open_dataset(data)
        sweep.measure.check(opened[source])
    jobs: list[Job] = []
    known: set[str] = set()
    for (source, _, _), trials in groups.items():
        jobs += _grouped(trials, opened[source], kind, sweep.measure, len(jobs), known)
    return jobs


def _grouped(
    trials: list[tuple[int, Trial]],
    data: Dataset,
    device: torch.device,
    wanted: MeasurementSpec,
    before: int,
    others: set[str],
) -> list[Job]:
    """The jobs of runs that differ in nothing but what members may differ in, without those of `others`, which grow."""
    first = trials[0][1]
    chosen = FitOptions.of(first.settings)
    split, architecture = chosen.split(), chosen.architecture(data)
    check_likelihood(architecture, data)
    plan = chosen.plan(len(split.of(data)[0]))
    known: dict[str, tuple[int, Member]] = {}
    for place, trial in trials:
        check_latents(trial.member.latents, data.shape)
        known.setdefault(Configuration.of(data, split, architecture, plan, trial.member).id, (place, trial.member))
    # Settings that are told apart may come to the same: 'mlp', and a table with that name alone.
    ids = sorted(set(known) - others)
    others.update(ids)
    if not ids:
        return []
    members = [known[identity][1] for identity in ids]
    widest = architecture.build(data.shape, max(member.latents for member in members), seed=None)
    jobs = []
    for number, together in enumerate(group(members, widest, device)):
        own = [ids[one] for one in together]
        places = tuple(known[identity][0] for identity in own)
        chosen_members = tuple(members[one] for one in together)
        jobs.append(Job(before + number, first.data, first.settings, chosen_members, tuple(own), places, wanted))
    return jobs


def is_done(job: Job, runs: Path) -> bool:
    """Whether every run of a job is trained and measured, or has diverged."""
    store = Store(runs)
    return all(
        is_measured(Run.open(store.path(identity)), job.measure)
        if is_complete(store, identity)
        else has_failed(store, identity)
        for identity in job.ids
    )


def _text(value: Any) -> str:
    """The same text for equal tables."""
    return json.dumps(value, sort_keys=True, default=str)
