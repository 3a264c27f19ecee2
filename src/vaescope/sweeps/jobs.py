"""Jobs of a sweep: runs that train together as one program."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.objectives import form
from vaescope.runs.fitting import has_failed, is_complete
from vaescope.runs.measurements import MeasurementSpec, is_measured
from vaescope.runs.options import FitOptions
from vaescope.runs.record import hash_of
from vaescope.runs.run import Run
from vaescope.runs.store import Store
from vaescope.sweeps.specification import Sweep, Trial
from vaescope.training import Member
from vaescope.training.ensemble import group_members


@dataclass(frozen=True)
class Job:
    """Runs that train as one program and are measured afterwards; a job can be sent to another process or machine.

    `number` is the job's position in the sweep, `positions` are those of its runs among all runs of the sweep.
    """

    number: int
    data: DataLike
    options: FitOptions
    members: tuple[Member, ...]
    ids: tuple[str, ...]
    positions: tuple[int, ...]
    measure: MeasurementSpec

    @property
    def name(self) -> str:
        """A hash of what is trained."""
        return hash_of(list(self.ids))


def make_jobs(sweep: Sweep, device: torch.device | str = "cpu", opened: dict[str, Dataset] | None = None) -> list[Job]:
    """The runs of a sweep in the groups that they train in, which depend only on the sweep and the kind of device.

    Equal runs occur once. Whatever engine runs a job, and however often it is interrupted, it trains the same models
    in the same groups, so the results are the same, bit for bit on a CPU. Data sets are looked up in `opened`, by their
    source as JSON, and added to it.
    """
    kind = torch.device(torch.device(device).type)
    groups: dict[tuple[object, ...], list[tuple[int, Trial]]] = {}
    for position, trial in enumerate(sweep.trials()):
        key = _text(trial.data), _text(trial.settings), form(trial.member.objective)
        groups.setdefault(key, []).append((position, trial))
    opened = {} if opened is None else opened
    checked: set[str] = set()
    for trials in groups.values():
        source = _text(trials[0][1].data)
        if source not in opened:
            opened[source] = open_dataset(trials[0][1].data)
        if source not in checked:
            sweep.measure.check(opened[source])
            checked.add(source)
    jobs: list[Job] = []
    seen: set[str] = set()
    for trials in groups.values():
        jobs += _group_trials(trials, opened[_text(trials[0][1].data)], kind, sweep.measure, len(jobs), seen)
    return jobs


def _group_trials(
    trials: list[tuple[int, Trial]],
    data: Dataset,
    device: torch.device,
    measure: MeasurementSpec,
    first_number: int,
    seen: set[str],
) -> list[Job]:
    """The jobs of runs that differ only in what members may differ in, without runs that were `seen`, which grows."""
    first = trials[0][1]
    options = FitOptions.of(first.settings)
    configurations = options.configurations(data, [trial.member for _, trial in trials])
    known: dict[str, tuple[int, Member]] = {}
    for configuration, (position, trial) in zip(configurations, trials, strict=True):
        known.setdefault(configuration.id, (position, trial.member))
    # Settings that are written differently may mean the same: 'mlp', and a table with only that name.
    ids = sorted(set(known) - seen)
    seen.update(ids)
    if not ids:
        return []
    members = [known[identity][1] for identity in ids]
    architecture = configurations[0].architecture
    widest = architecture.build(data.shape, max(member.latents for member in members), seed=None)
    return [
        Job(
            first_number + number,
            first.data,
            options,
            tuple(members[one] for one in together),
            tuple(ids[one] for one in together),
            tuple(known[ids[one]][0] for one in together),
            measure,
        )
        for number, together in enumerate(group_members(members, widest, device))
    ]


def is_done(job: Job, runs: Path) -> bool:
    """Whether every run of a job is trained and measured, or has diverged."""
    store = Store(runs)
    return all(
        is_measured(Run.open(store.path(identity)), job.measure)
        if is_complete(store, identity)
        else has_failed(store, identity)
        for identity in job.ids
    )


def _text(value: object) -> str:
    """The same text for equal tables."""
    return json.dumps(value, sort_keys=True, default=str)
