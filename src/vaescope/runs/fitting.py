"""Train one model or many, keep each as a run, and resume interrupted runs."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path

import torch

from vaescope import __version__
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.data.pixel_scale import UNIT_SCALE
from vaescope.errors import ConfigurationError, NonFiniteError
from vaescope.files import write_atomically
from vaescope.likelihoods import Likelihood
from vaescope.nets import Net
from vaescope.objectives import OBJECTIVES, Beta, Objective
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.progress import progress_bar
from vaescope.registry import PartSpec
from vaescope.runs.checkpointing import load_checkpoint, train_with_checkpoints
from vaescope.runs.configuration import Configuration
from vaescope.runs.final_types import final_types
from vaescope.runs.folders import (
    ENSEMBLES,
    MEMBERS_FILE,
    delete_ensemble,
    locked,
    make_folder,
    remove_finished_ensembles,
    remove_leftovers,
)
from vaescope.runs.following import Follower
from vaescope.runs.journal import HISTORY_NOTE, Journal, member_rows
from vaescope.runs.options import FitOptions, ModelSpec
from vaescope.runs.record import (
    LAST_GOOD_FILE,
    STATE_FILE,
    Compilation,
    Origin,
    Provenance,
    RecordedPixelScale,
    hash_of,
)
from vaescope.runs.recorded_row import OnRow
from vaescope.runs.remembered import held, remember
from vaescope.runs.run import Run
from vaescope.runs.store import DEFAULT_FOLDER, Store
from vaescope.runs.trackers import Tracker
from vaescope.training import HistoryRow, Member, Trainer
from vaescope.training.checkpoint import save_state
from vaescope.training.ensemble import group_members
from vaescope.training.optimisers import Optimiser
from vaescope.training.plan import check_members


def fit(
    data: DataLike,
    latents: int | None = None,
    *,
    objective: PartSpec[Objective] | None = None,
    learning_rate: float = 1e-4,
    seed: int = 0,
    model: ModelSpec | None = None,
    net: PartSpec[Net] | None = None,
    posterior: PartSpec[Posterior] | None = None,
    prior: PartSpec[Prior] | None = None,
    likelihood: PartSpec[Likelihood] | None = None,
    initialisation: str | None = None,
    overcomplete: bool = False,
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
    start: Run | str | Path | None = None,
    device: str | torch.device | None = None,
    compile: bool | None = None,
    runs: str | Path = DEFAULT_FOLDER,
    progress: bool | None = None,
    checkpoint_seconds: float = 20.0,
    on_row: OnRow | None = None,
    tracker: PartSpec[Tracker] | None = None,
) -> Run:
    """Train one model and keep it as a run; a finished run is reused, an interrupted one resumes.

    Args:
        data: A name, a path, an array or a data set. What has options is opened first, as in
            `open_dataset("images", size=64)`, or given as a table {"name": "images", "size": 64}.
        latents: Number of latents. Default: 10, or that of `start`.
        objective: Default: `Beta()`, the ELBO. As every part, it is a name, a table {"name": ..., option: value}, or an
            instance.
        learning_rate: Learning rate of the optimiser.
        seed: Seed of the initial weights, the batches and the noise.
        model: A registered model, or a function from a number of latents to a torch module of your own, which `vs.wrap`
            recognises: its encoder and decoder, trained by this loop. Default: 'vae'.
        net: Default: 'conv' for images of at least 16 x 16 pixels, 'conv1d' for signals, else 'mlp'.
        posterior: Default: 'deterministic' for an autoencoder, else 'diagonal'.
        prior: Default: 'conditional' for an identifiable model, else 'standard'.
        likelihood: Default: 'bernoulli' for images, 'negative_binomial' for counts in an AnnData or a sparse matrix,
            else 'gaussian' with a learned variance.
        initialisation: Default: chosen by the model.
        overcomplete: Whether there may be more latents than the data have dimensions.
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
        start: A run, its folder, or the beginning of its id: training starts from its weights, with a new optimiser
            (and a new critic, if the objective has one). Latents and parts of the model are by default those of this
            run, and must not differ; everything else is as given here. Default: new weights.
        device: 'cpu', 'cuda' or 'mps' (a Mac's GPU, for which there are no tests). Default: 'cuda' if there is a GPU,
            else 'cpu'.
        compile: Whether to compile the training step on a GPU, which takes up to a minute and changes results by
            rounding only. Default: where that pays back within the planned steps (from 30,000 steps of one model, from
            3,000 of 32); the run records the choice and its reason.
        runs: Folder that holds the runs.
        progress: Whether to show progress: a bar on a terminal, lines in a log. Default: True.
        checkpoint_seconds: Time between checkpoints.
        on_row: Receives each row of the history, a `vs.runs.RecordedRow`, as soon as it is recorded. If it raises an
            exception, training stops with a checkpoint, as with Ctrl-C, and the exception reaches the caller. Rows of
            a finished run that is reused are not sent.
        tracker: Where to show the rows while training: 'tensorboard', 'mlflow' or 'wandb'. Default: nowhere.

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
        overcomplete=overcomplete,
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
        start=start,
        device=device,
        compile=compile,
        runs=runs,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        on_row=on_row,
        tracker=tracker,
    )
    latents = options.default_latents() if latents is None else latents
    member = Member(latents, Beta() if objective is None else OBJECTIVES.resolve(objective), learning_rate, seed)
    return fit_many(data, [member], options)[0]


def fit_many(data: DataLike, members: Sequence[Member], options: FitOptions | None = None) -> list[Run]:
    """Train models that differ in seed, latents, strengths or learning rate; returns one run each, in their order.

    Members train together as one program where that is faster; each ends as if it had been trained alone.

    Args:
        data: A name, a path, an array or a data set. What has options is opened first, as in
            `open_dataset("images", size=64)`, or given as a table {"name": "images", "size": 64}.
        members: Latents, objective, learning rate and seed of each model.
        options: The keywords that all of them share with `fit`; default: those of `fit`.
    """
    options = FitOptions() if options is None else options
    return fit_followed(data, members, options, Follower(options.on_row, options.tracker))


def fit_followed(data: DataLike, members: Sequence[Member], options: FitOptions, follower: Follower) -> list[Run]:
    """`fit_many`, with the rows sent to a follower in place of those that the options name."""
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
    start = options.start_run()
    distinct = {configuration.id: configuration for configuration in configurations}
    # In the order of their ids: in whatever order members are given, they take the same slots of the same groups.
    missing = [distinct[identity] for identity in sorted(distinct) if not store.is_complete(identity)]
    for group in _training_groups(store, missing, opened.shape, device):
        try:
            train_group(store, group, opened, options, follower, start)
        except NonFiniteError as error:
            error.member = configurations.index(group[error.member])
            raise
    if missing:
        remove_finished_ensembles(store.folder)
    remember(data, opened)
    trained_on = held(data, opened) if opened.source is None else None
    return [Run.open(store.path(configuration.id), trained_on) for configuration in configurations]


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


def train_group(
    store: Store,
    configurations: list[Configuration],
    data: Dataset,
    options: FitOptions,
    follower: Follower,
    start: Run | None = None,
) -> None:
    """Train the configurations together on data, then give each run its own files.

    Args:
        options: Where to train, and what to show; the settings of training are those of the configurations.
        start: The run from whose weights to start.
    """
    first, members = configurations[0], [one.member for one in configurations]
    model = None if start is None else start.model
    training, held_out = first.split.of(data)
    device = options.chosen_device()
    trainer = Trainer(
        first.architecture, members, first.plan, training, held_out, device, start=model, compile=options.compile
    )
    folder, paths = _group_folder(store, configurations), [store.path(one.id) for one in configurations]
    name = first.data["name"]
    title = f"training {len(paths)} models on {name}" if len(paths) > 1 else f"training on {name}"
    versions = {"vaescope": __version__, "torch": torch.__version__, "python": platform.python_version()}
    origin = None if start is None else Origin("warm start", start.id)
    known = Provenance(
        source=data.source,
        versions=versions,
        device=str(trainer.device),
        compilation=Compilation(trainer.compilation.compiled, trainer.compilation.reason),
        started_from=origin,
        pixel_scale=None if data.pixel_scale == UNIT_SCALE else RecordedPixelScale(**vars(data.pixel_scale)),
    )
    with locked(paths) as owned, progress_bar(title, trainer.plan.steps, options.progress, unit="steps") as report:
        # Runs first: the ensemble folder of a complete run would be removed.
        runs = [Run.create(path, one, known) for path, one in zip(paths, configurations, strict=True)]
        make_folder(folder)
        if len(runs) > 1:
            write_atomically(folder / MEMBERS_FILE, json.dumps([run.id for run in runs]).encode())
        load_checkpoint(folder, trainer)
        with follower.following(runs, trainer.state.step):
            try:
                send = partial(_send, follower, [run.id for run in runs])
                train_with_checkpoints(folder, trainer, report, options.checkpoint_seconds, owned, send)
            except NonFiniteError as error:
                _keep_failure(folder, runs, trainer, error)
                raise
            owned.check()
            if len(runs) > 1:
                _split_ensemble(folder, runs, trainer)
            for member, run in enumerate(runs):
                model = trainer.model(member)
                run.finish(model, final_types(model, data, trainer.device, first.plan.batch))


def _send(follower: Follower, ids: Sequence[str], rows: Sequence[HistoryRow]) -> None:
    """Send rows of members under the ids of their runs."""
    for row in rows:
        follower.send(ids[row.member], row.step, row.split, row.values)


def _keep_failure(folder: Path, runs: Sequence[Run], trainer: Trainer, error: NonFiniteError) -> None:
    """Mark the run that diverged as failed, with its last good state; an ensemble cannot go on."""
    failed = runs[error.member]
    save_state(failed.path / LAST_GOOD_FILE, trainer.member_state(error.member))
    if len(runs) > 1:
        Journal(failed.path).replace(member_rows(Journal(folder).rows(), error.member))
        delete_ensemble(folder)
    failed.fail({"error": str(error), "term": error.term, "step": error.step, "items": error.items})


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
