"""Train one model or many, keep each as a run, and resume interrupted runs."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path

import torch

from vaescope import __version__
from vaescope.data import DataLike, open_dataset
from vaescope.errors import ConfigurationError, NonFiniteError, RunError
from vaescope.files import write_atomically
from vaescope.likelihoods import Likelihood
from vaescope.nets import Net
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.objectives import OBJECTIVES, Beta, Objective
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.progress import ProgressReport, progress_bar
from vaescope.registry import PartSpec
from vaescope.runs.configuration import Configuration
from vaescope.runs.folders import (
    ENSEMBLES,
    MEMBERS_FILE,
    Ownership,
    delete_ensemble,
    locked,
    make_folder,
    remove_finished_ensembles,
    remove_leftovers,
)
from vaescope.runs.journal import HISTORY_NOTE, Journal, member_rows
from vaescope.runs.options import FitOptions
from vaescope.runs.record import LAST_GOOD_FILE, STATE_FILE, Provenance, Table, hash_of
from vaescope.runs.run import Run
from vaescope.runs.store import DEFAULT_FOLDER, Store
from vaescope.training import HistoryRow, Member, Trainer
from vaescope.training.checkpoint import load_state, save_state
from vaescope.training.ensemble import group_members
from vaescope.training.optimisers import Optimiser
from vaescope.training.trainer import check_members


def fit(
    data: DataLike,
    latents: int = 10,
    *,
    objective: PartSpec[Objective] | None = None,
    learning_rate: float = 1e-4,
    seed: int = 0,
    model: str | Mapping[str, object] = "vae",
    net: PartSpec[Net] | None = None,
    posterior: PartSpec[Posterior] | None = None,
    prior: PartSpec[Prior] | None = None,
    likelihood: PartSpec[Likelihood] | None = None,
    initialisation: str | None = None,
    optimiser: PartSpec[Optimiser] = "adam",
    batch: int = 64,
    steps: int | None = None,
    epochs: float | None = None,
    precision: str = "float32",
    log_every: int | None = None,
    evaluate_every: int | None = None,
    evaluation_items: int = 2048,
    monitor_every: int | None = None,
    monitor_items: int = 512,
    held_out: float | int = 0.1,
    split_seed: int = 0,
    device: str | torch.device | None = None,
    runs: str | Path = DEFAULT_FOLDER,
    progress: bool | None = None,
    checkpoint_seconds: float = 20.0,
) -> Run:
    """Train one model and keep it as a run; a finished run is reused, an interrupted one resumes.

    Args:
        data: A name, a path, an array or a data set.
        latents: Number of latents.
        objective: Default: `Beta()`, the ELBO. As every part, it is a name, a table {"name": ..., option: value}, or an
            instance.
        learning_rate: Learning rate of the optimiser.
        seed: Seed of the initial weights, the batches and the noise.
        model: Default: 'vae'.
        net: Default: 'conv' for images of at least 16 x 16 pixels, else 'mlp'.
        posterior: Default: 'deterministic' for an autoencoder, else 'diagonal'.
        prior: Default: 'conditional' for an identifiable model, else 'standard'.
        likelihood: Default: 'bernoulli' for images, else 'gaussian' with a learned variance.
        initialisation: Default: chosen by the model.
        optimiser: Default: 'adam'.
        batch: Items in a batch.
        steps, epochs: Length of training; give one of them. Default: 5000 steps.
        precision: 'float32', 'float64', 'tf32' or 'bfloat16'.
        log_every, evaluate_every: Steps between rows of the history. Default: about a fiftieth and a tenth of training.
        evaluation_items: Maximum number of held-out items to evaluate.
        monitor_every: Steps between probes of the types of latents, 0 for none. Default: 200, and at most 300 probes.
        monitor_items: Maximum number of items of a probe.
        held_out: Share (float) or number (int) of items held out for evaluation; 0 for none.
        split_seed: Seed that draws the held-out items.
        device: Default: 'cuda' if there is a GPU, else 'cpu'.
        runs: Folder that holds the runs.
        progress: Whether to show a progress bar. Default: on a terminal only.
        checkpoint_seconds: Time between checkpoints.

    Returns:
        The run, with its model, history and settings.
    """
    options = FitOptions(
        model=model,
        net=net,
        posterior=posterior,
        prior=prior,
        likelihood=likelihood,
        initialisation=initialisation,
        optimiser=optimiser,
        batch=batch,
        steps=steps,
        epochs=epochs,
        precision=precision,
        log_every=log_every,
        evaluate_every=evaluate_every,
        evaluation_items=evaluation_items,
        monitor_every=monitor_every,
        monitor_items=monitor_items,
        held_out=held_out,
        split_seed=split_seed,
        device=device,
        runs=runs,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
    )
    member = Member(latents, Beta() if objective is None else OBJECTIVES.resolve(objective), learning_rate, seed)
    return fit_many(data, [member], options)[0]


def fit_many(data: DataLike, members: Sequence[Member], options: FitOptions | None = None) -> list[Run]:
    """Train models that differ in seed, latents, strengths or learning rate; returns one run each, in their order.

    Members train together as one program where that is faster; each ends as if it had been trained alone.

    Args:
        data: A name, a path, an array or a data set.
        members: Latents, objective, learning rate and seed of each model.
        options: The keywords that all of them share with `fit`; default: those of `fit`.
    """
    options = FitOptions() if options is None else options
    if not isinstance(members, Sequence) or not all(isinstance(member, Member) for member in members):
        raise ConfigurationError(f"members must be a list of Member, got {members!r}. Write [Member(latents=10), ...].")
    for member in members:
        if not is_dataclass(member.objective):
            OBJECTIVES.name_of(member.objective)  # says what an objective must be
    check_members(tuple(members))
    device, store = options.chosen_device(), Store(Path(options.runs))
    remove_finished_ensembles(store.folder)
    opened = open_dataset(data)
    configurations = options.configurations(opened, members)
    training, held_out = options.split().of(opened)
    distinct = {configuration.id: configuration for configuration in configurations}
    # In the order of their ids: in whatever order members are given, they take the same slots of the same groups.
    missing = [distinct[identity] for identity in sorted(distinct) if not store.is_complete(identity)]
    for group in _training_groups(store, missing, opened.shape, device):
        first, group_of_members = group[0], [one.member for one in group]
        trainer = Trainer(first.architecture, group_of_members, first.plan, training, held_out, device)
        try:
            _train_group(store, group, trainer, _source(data), options)
        except NonFiniteError as error:
            error.member = configurations.index(group[error.member])
            raise
    if missing:
        remove_finished_ensembles(store.folder)
    return [Run.open(store.path(configuration.id)) for configuration in configurations]


def _source(data: DataLike) -> str | dict[str, object] | None:
    """What the data can be opened from again; None for data in memory."""
    if isinstance(data, Mapping):
        return dict(data)
    return str(data) if isinstance(data, str | Path) else None


def group_configurations(
    configurations: list[Configuration], shape: tuple[int, ...], device: torch.device
) -> list[list[Configuration]]:
    """Configurations that differ only in their members, in the groups that train as one program."""
    if not configurations:
        return []
    members = [configuration.member for configuration in configurations]
    widest = configurations[0].architecture.form(shape, max(member.latents for member in members))
    return [[configurations[position] for position in group] for group in group_members(members, widest, device)]


def _training_groups(
    store: Store, missing: list[Configuration], shape: tuple[int, ...], device: torch.device
) -> list[list[Configuration]]:
    """The groups of missing runs: ensembles resume with the same members, runs with a state alone.

    A run has a state if it was begun alone, or if its ensemble was interrupted while its files were split up.
    """
    groups = group_configurations(missing, shape, device)
    if any(len(group) > 1 and (_group_folder(store, group) / STATE_FILE).exists() for group in groups):
        return groups
    alone = [one for one in missing if (store.path(one.id) / STATE_FILE).exists()]
    return [[one] for one in alone] + group_configurations([one for one in missing if one not in alone], shape, device)


def _group_folder(store: Store, configurations: list[Configuration]) -> Path:
    """Where a group trains: one run in its folder, several in an ensemble folder until they are done."""
    if len(configurations) == 1:
        return store.path(configurations[0].id)
    return store.folder / ENSEMBLES / hash_of(sorted(one.id for one in configurations))


def _train_group(
    store: Store,
    configurations: list[Configuration],
    trainer: Trainer,
    source: str | dict[str, object] | None,
    options: FitOptions,
) -> None:
    """Train the configurations together, then give each run its own files."""
    folder, paths = _group_folder(store, configurations), [store.path(one.id) for one in configurations]
    name = configurations[0].data["name"]
    title = f"{name} x {len(paths)}" if len(paths) > 1 else name
    versions = {"vaescope": __version__, "torch": torch.__version__, "python": platform.python_version()}
    known = Provenance(source=source, versions=versions, device=str(trainer.device))
    with locked(paths) as owned, progress_bar(title, trainer.plan.steps, options.progress) as report:
        # Runs first: the ensemble folder of a complete run would be removed.
        runs = [Run.create(path, one, known) for path, one in zip(paths, configurations, strict=True)]
        make_folder(folder)
        if len(runs) > 1:
            write_atomically(folder / MEMBERS_FILE, json.dumps([run.id for run in runs]).encode())
        try:
            train_with_checkpoints(folder, trainer, report, options.checkpoint_seconds, owned)
        except NonFiniteError as error:
            failed = runs[error.member]
            save_state(failed.path / LAST_GOOD_FILE, trainer.member_state(error.member))
            if len(runs) > 1:
                Journal(failed.path).replace(member_rows(Journal(folder).rows(), error.member))
                delete_ensemble(folder)
            failed.fail({"error": str(error), "term": error.term, "step": error.step, "items": error.items})
            raise
        owned.check()
        if len(runs) > 1:
            _split_ensemble(folder, runs, trainer)
        for member, run in enumerate(runs):
            run.finish(trainer.model(member))


def _split_ensemble(folder: Path, runs: list[Run], trainer: Trainer) -> None:
    """Write each member's history and state into its run, as if it had been trained alone."""
    rows = Journal(folder).rows()
    for member, run in enumerate(runs):
        remove_leftovers(run.path)
        journal = Journal(run.path)
        # The state of an earlier training would not belong to these rows.
        (run.path / STATE_FILE).unlink(missing_ok=True)
        journal.replace(member_rows(rows, member))
        save_state(run.path / STATE_FILE, trainer.member_state(member), {HISTORY_NOTE: journal.checksum})
    delete_ensemble(folder)


def train_with_checkpoints(
    folder: Path, trainer: Trainer, report: ProgressReport, checkpoint_seconds: float, owned: Ownership
) -> None:
    """Train to the end, with the history and the checkpoints in `folder`, which no other process may have taken over.

    Rows reach the disk before the checkpoint that includes them, so a checkpoint always finds its history.
    """
    journal, state_file = Journal(folder, owned), folder / STATE_FILE

    def save() -> None:
        owned.check()
        save_state(state_file, trainer.state, {HISTORY_NOTE: journal.checksum})

    remove_leftovers(folder)
    if state_file.exists():
        _resume(trainer, state_file)
    journal.rewind(trainer.state.step)
    saved, recorded = time.monotonic(), trainer.state.step
    rows: list[HistoryRow] = []
    probes: list[HistoryRow] = []
    try:
        while not trainer.finished:
            rows = trainer.advance()
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
            probes = [row for row in rows if row.split == "probe"] or probes
            report(recorded, _progress_text(rows, probes))
            if time.monotonic() - saved >= checkpoint_seconds:
                save()
                saved = time.monotonic()
    except KeyboardInterrupt:
        if rows and rows[-1].step == trainer.state.step > recorded:
            # Interrupted while the rows were written: write them again, in full.
            journal.rewind(recorded)
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            recorded = trainer.state.step
        # A state without its rows is not saved: the checkpoint before it has its history.
        if trainer.state.step == recorded:
            save()
        raise
    save()


def _resume(trainer: Trainer, state_file: Path) -> None:
    state = load_state(state_file)
    try:
        trainer.load(state)
    except ConfigurationError as error:
        raise RunError(
            f"{state_file} is not a checkpoint of this run ({error}) Restore it from a backup, or move it elsewhere "
            "to train from the start."
        ) from error


def _flat(row: HistoryRow, members: int) -> Table:
    member = {"member": row.member} if members > 1 else {}
    return {"step": row.step, "split": row.split, **member, **row.values}


def _progress_text(rows: list[HistoryRow], probes: list[HistoryRow]) -> str:
    """The loss and the latest counts of latent types, as ranges over the members."""
    losses = sorted(row.values["loss"] for row in rows if row.split == "train")
    words = [f"loss {_range([f'{loss:.2f}' for loss in losses])}"]
    for name in VARIABLE_TYPES if probes else ():
        words.append(f"{name} {_range([str(count) for count in sorted(probe.values[name] for probe in probes)])}")
    return " ".join(words)


def _range(values: list[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
