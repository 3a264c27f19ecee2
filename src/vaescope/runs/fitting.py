"""Train one model or many, keep each as a run, resume what was stopped."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError, NonFiniteError, RunError
from vaescope.models import check_latents
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.objectives import Beta
from vaescope.progress import ProgressReport, progress_bar
from vaescope.runs.configuration import Configuration, hash_of
from vaescope.runs.ensemble_folder import ENSEMBLES, MEMBERS_FILE, remove, remove_finished_ensembles
from vaescope.runs.journal import Journal, own_rows
from vaescope.runs.locks import locked, make_folder, remove_leftovers
from vaescope.runs.options import FitOptions, check_likelihood
from vaescope.runs.run import COMPLETE, FAILED, LAST_GOOD_FILE, RUN_FILE, STATE_FILE, Run
from vaescope.runs.store import Store
from vaescope.training import HistoryRow, Member, Trainer
from vaescope.training.checkpoint import load_state, save_state, write_atomically
from vaescope.training.groups import group as group_members
from vaescope.training.trainer import check_members


def fit(
    data: Any,
    latents: int = 10,
    *,
    objective: Any = None,
    learning_rate: float = 1e-4,
    seed: int = 0,
    **settings: Any,
) -> Run:
    """Train one model and keep it as a run; asked twice, it trains once, and resumes if it was stopped.

    `data` is a name, a path, an array or a data set; `settings` are those of `FitOptions`
    (model, net, likelihood, steps or epochs, batch, precision, device, ...).
    """
    member = Member(latents, Beta() if objective is None else objective, learning_rate, seed)
    return fit_many(data, [member], **settings)[0]


def fit_many(data: Any, members: Sequence[Member], **settings: Any) -> list[Run]:
    """Train members that differ in seed, latents, strengths or learning rate; one run for each, in their order.

    Members train together in one program where that is faster; each ends as if it had been trained alone.
    """
    chosen = FitOptions.of(settings)
    members = _checked(members)
    device, store = chosen.chosen_device(), Store(Path(chosen.runs))
    remove_finished_ensembles(store.folder)
    source = dict(data) if isinstance(data, Mapping) else str(data) if isinstance(data, str | Path) else None
    data = open_dataset(data)
    for member in members:
        check_latents(member.latents, data.shape)
    split, architecture = chosen.split(), chosen.architecture(data)
    check_likelihood(architecture, data)
    training, held_out = split.of(data)
    plan = chosen.plan(len(training))
    configurations = [Configuration.of(data, split, architecture, plan, member) for member in members]
    distinct = {configuration.id: configuration for configuration in configurations}
    # In the order of their ids: however members are asked for, they meet in the same places of the same groups.
    missing = [distinct[identity] for identity in sorted(distinct) if not is_complete(store, identity)]
    for together in _groups(store, missing, data.shape, device):
        trainer = Trainer(architecture, [one.member for one in together], plan, training, held_out, device)
        try:
            _train_group(store, together, trainer, source, chosen)
        except NonFiniteError as error:
            error.member = configurations.index(together[error.member])
            raise
    if missing:
        remove_finished_ensembles(store.folder)
    return [Run.open(store.path(configuration.id)) for configuration in configurations]


def _checked(members: Any) -> tuple[Member, ...]:
    if not isinstance(members, Sequence) or not all(isinstance(member, Member) for member in members):
        raise ConfigurationError(f"members must be a list of Member, got {members!r}. Write [Member(latents=10), ...].")
    check_members(tuple(members))
    return tuple(members)


def is_complete(store: Store, identity: str) -> bool:
    """Whether a run is there, trained to the end."""
    path = store.path(identity)
    if not (path / RUN_FILE).exists():
        return False
    run = Run.open(path)
    return run.status == COMPLETE and run.has_model


def has_failed(store: Store, identity: str) -> bool:
    """Whether a run is there that stopped at a number that is not finite; its folder deleted, it can be tried again."""
    path = store.path(identity)
    return (path / RUN_FILE).exists() and Run.open(path).status == FAILED


def _groups(
    store: Store, missing: list[Configuration], shape: tuple[int, ...], device: torch.device
) -> list[list[Configuration]]:
    """What trains as one program: groups that were begun go on as they were, and runs with a state of their own alone.

    A run has a state of its own when it was begun alone, or when its group was done and stopped while handing out.
    """

    def grouped(configurations: list[Configuration]) -> list[list[Configuration]]:
        if not configurations:
            return []
        members = [configuration.member for configuration in configurations]
        widest = configurations[0].architecture.build(shape, max(member.latents for member in members), seed=0)
        return [[configurations[position] for position in group] for group in group_members(members, widest, device)]

    groups = grouped(missing)
    if any(len(group) > 1 and (_workplace(store, group) / STATE_FILE).exists() for group in groups):
        return groups
    alone = [one for one in missing if (store.path(one.id) / STATE_FILE).exists()]
    return [[one] for one in alone] + grouped([one for one in missing if one not in alone])


def _workplace(store: Store, configurations: list[Configuration]) -> Path:
    """Where a group trains: one run in its own folder, several in a shared one until they are done."""
    if len(configurations) == 1:
        return store.path(configurations[0].id)
    return store.folder / ENSEMBLES / hash_of(sorted(one.id for one in configurations))


def _train_group(
    store: Store,
    configurations: list[Configuration],
    trainer: Trainer,
    source: str | dict[str, Any] | None,
    settings: FitOptions,
) -> None:
    """Train the configurations together, then give each run what is its own."""
    notes = {"source": source, "versions": _versions(), "device": str(trainer.device)}
    workplace, paths = _workplace(store, configurations), [store.path(one.id) for one in configurations]
    name = configurations[0].data["name"]
    title = f"{name} x {len(paths)}" if len(paths) > 1 else name
    with locked(paths), progress_bar(title, trainer.plan.steps, settings.progress) as report:
        # Runs first: a workplace of a run that is complete would be cleared up.
        runs = [Run.create(path, one, notes) for path, one in zip(paths, configurations, strict=True)]
        make_folder(workplace)
        if len(runs) > 1:
            write_atomically(workplace / MEMBERS_FILE, json.dumps([run.id for run in runs]).encode())
        try:
            train_in(workplace, trainer, report, settings.checkpoint_seconds)
        except NonFiniteError as error:
            failed = runs[error.member]
            save_state(failed.path / LAST_GOOD_FILE, trainer.member_state(error.member))
            if len(runs) > 1:
                Journal(failed.path).replace(own_rows(Journal(workplace).rows(), error.member))
                remove(workplace)
            failed.fail({"error": str(error), "term": error.term, "step": error.step, "items": error.items})
            raise
        if len(runs) > 1:
            _hand_out(workplace, runs, trainer)
        for member, run in enumerate(runs):
            run.finish(trainer.model(member))


def train_in(folder: Path, trainer: Trainer, report: ProgressReport, checkpoint_seconds: float) -> None:
    """Train to the end with history and checkpoints in `folder`, from the checkpoint that is there, if any.

    Rows reach the disk before the checkpoint that includes them, so a checkpoint always finds its history.
    """
    journal, state_file = Journal(folder), folder / STATE_FILE
    remove_leftovers(folder)
    if state_file.exists():
        _take_up(trainer, state_file)
    journal.rewind(trainer.state.step)
    saved, recorded = time.monotonic(), trainer.state.step
    rows: list[HistoryRow] = []
    looks: list[HistoryRow] = []
    try:
        while not trainer.finished:
            rows = trainer.advance()
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
            looks = [row for row in rows if row.split == "probe"] or looks
            report(recorded, _words(rows, looks))
            if time.monotonic() - saved >= checkpoint_seconds:
                save_state(state_file, trainer.state)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if rows and rows[-1].step == trainer.state.step > recorded:
            # Stopped while they were written: whole, once more.
            journal.rewind(recorded)
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
        # Without rows, only the checkpoint before has its history.
        if trainer.state.step == recorded:
            save_state(state_file, trainer.state)
        raise
    save_state(state_file, trainer.state)


def _take_up(trainer: Trainer, state_file: Path) -> None:
    state = load_state(state_file)
    try:
        trainer.load(state)
    except ConfigurationError as error:
        raise RunError(f"{state_file} is not of this run ({error}) Delete it: training starts again.") from error


def _hand_out(workplace: Path, runs: list[Run], trainer: Trainer) -> None:
    """Give each member's run its own history and state, as if it had been trained alone, and clear the workplace."""
    rows = Journal(workplace).rows()
    for member, run in enumerate(runs):
        remove_leftovers(run.path)
        Journal(run.path).replace(own_rows(rows, member))
        save_state(run.path / STATE_FILE, trainer.member_state(member))
    remove(workplace)


def _flat(row: HistoryRow, members: int) -> dict[str, Any]:
    whose = {"member": row.member} if members > 1 else {}
    return {"step": row.step, "split": row.split, **whose, **row.values}


def _words(rows: list[HistoryRow], looks: list[HistoryRow]) -> str:
    """Where training stands: the loss and the types of latents when last looked at, or their ranges over members."""
    losses = sorted(row.values["loss"] for row in rows if row.split == "train")
    words = [f"loss {_range([f'{loss:.2f}' for loss in losses])}"]
    for name in VARIABLE_TYPES if looks else ():
        words.append(f"{name} {_range([str(count) for count in sorted(look.values[name] for look in looks)])}")
    return " ".join(words)


def _range(values: list[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _versions() -> dict[str, str]:
    from vaescope import __version__

    return {"vaescope": __version__, "torch": torch.__version__, "python": platform.python_version()}
