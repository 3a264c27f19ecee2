"""A sweep: a grid of runs from one description, and the jobs that they train in."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from vaescope.data import Dataset, open_dataset
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.models import check_latents
from vaescope.objectives.strengths import form
from vaescope.runs.configuration import Configuration, hash_of
from vaescope.runs.fitting import has_failed, is_complete
from vaescope.runs.measurements import Measure, is_measured
from vaescope.runs.run import Run
from vaescope.runs.settings import Settings, check_likelihood
from vaescope.runs.store import Store
from vaescope.training import Member
from vaescope.training.groups import group

MEMBER = ("latents", "learning_rate", "seed")
# Where and how runs are trained is the engine's to say, not the sweep's.
ENGINE = ("device", "runs", "progress", "checkpoint_seconds")
SETTINGS = tuple(entry.name for entry in dataclasses.fields(Settings) if entry.name not in ENGINE)
PARTS = ("model", "net", "posterior", "prior", "likelihood", "optimiser")


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its data, its settings, and the member that it is."""

    data: Any
    settings: dict[str, Any]
    member: Member


@dataclass(frozen=True)
class Sweep:
    """Every combination of the grid's values, each in place of what is said beside it.

    Attributes:
        data: A name, a path, or a table with a name and options.
        settings: Those of `fit`, but for where it runs.
        member: latents, learning_rate, seed.
        objective: A table with a name and strengths.
        grid: Place -> values. A place is the name of a setting or of a field of a member, 'objective' or 'data', or an
            option of a part: 'objective.beta', 'net.hidden', 'data.items'.
        measure: What is measured of every run.
    """

    data: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    member: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=lambda: {"name": "beta"})
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    measure: Measure = field(default_factory=Measure)

    def __post_init__(self) -> None:
        for name in self.settings:
            if name not in SETTINGS:
                raise unknown_name("setting", name, SETTINGS)
        for name in self.member:
            if name not in MEMBER:
                raise unknown_name("field of a member", name, MEMBER)
        for place, values in self.grid.items():
            check_place(place)
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise ConfigurationError(f"the grid's {place} must be a list of at least one value, got {values!r}.")

    def trials(self) -> list[Trial]:
        """Every run, the last place of the grid varying fastest."""
        return [
            self._trial(dict(zip(self.grid, chosen, strict=True))) for chosen in itertools.product(*self.grid.values())
        ]

    def _trial(self, chosen: dict[str, Any]) -> Trial:
        parts: dict[str, Any] = {"data": self.data, "objective": dict(self.objective), **self.settings, **self.member}
        # Whole parts first: an option belongs to the part that was chosen.
        for place in sorted(chosen, key=lambda place: "." in place):
            part, _, option = place.partition(".")
            if not option:
                parts[part] = chosen[place]
                continue
            table = parts.get(part)
            if table is None:
                raise ConfigurationError(f"the grid's {place} needs a {part} that it is an option of; name it.")
            parts[part] = {**(table if isinstance(table, Mapping) else {"name": table}), option: chosen[place]}
        own = {name: parts.pop(name) for name in MEMBER if name in parts}
        data, objective = parts.pop("data"), parts.pop("objective")
        return Trial(data, parts, Member(objective=objective, **own))


def check_place(place: str) -> None:
    """A place of the grid must be one that a run has."""
    part, _, option = place.partition(".")
    known = (*MEMBER, *SETTINGS, "objective", "data")
    if part == "model" and option in (*MEMBER, *SETTINGS):
        raise ConfigurationError(f"{option} is no option of the model but a setting of its own: write {option}.")
    if option and part not in (*PARTS, "objective", "data"):
        raise unknown_name("the part of a place in the grid", part, (*PARTS, "objective", "data"))
    if not option and part not in known:
        raise unknown_name("a place in the grid", part, known)


def name_of(data: Any) -> str:
    """What the data of a sweep are called."""
    return str(data["name"] if isinstance(data, Mapping) else data)


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
    measure: Measure

    @property
    def name(self) -> str:
        """A hash of what is trained."""
        return hash_of(list(self.ids))


def jobs_of(sweep: Sweep, device: torch.device | str = "cpu", opened: dict[str, Dataset] | None = None) -> list[Job]:
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
    wanted: Measure,
    before: int,
    others: set[str],
) -> list[Job]:
    """The jobs of runs that differ in nothing but what members may differ in, without those of `others`, which grow."""
    first = trials[0][1]
    chosen = Settings.of(first.settings)
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
