"""Train one model or many, keep each as a run, resume what was stopped."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from vaescope.data import open_dataset
from vaescope.errors import NonFiniteError, RunError
from vaescope.models import check_latents
from vaescope.objectives import Beta
from vaescope.progress import Report, progress_bar
from vaescope.runs.configuration import Configuration, hash_of
from vaescope.runs.journal import Journal
from vaescope.runs.run import COMPLETE, LAST_GOOD_FILE, STATE_FILE, Run
from vaescope.runs.settings import Settings, check_likelihood
from vaescope.runs.store import Store
from vaescope.training import Member, Row, Trainer
from vaescope.training.checkpoint import load_state, save_state
from vaescope.training.groups import group
from vaescope.training.trainer import check_members

ENSEMBLES = ".ensembles"


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

    `data` is a name, a path, an array or a data set; `settings` are those of `Settings`
    (model, net, likelihood, steps or epochs, batch, precision, device, ...).
    """
    member = Member(latents, Beta() if objective is None else objective, learning_rate, seed)
    return fit_many(data, [member], **settings)[0]


def fit_many(data: Any, members: Sequence[Member], **settings: Any) -> list[Run]:
    """Train members that differ in seed, latents, strengths or learning rate; one run for each, in their order.

    Members train together in one program where that is faster; each ends as if it had been trained alone.
    """
    chosen = Settings.of(settings)
    check_members(tuple(members))
    device, store = chosen.chosen_device(), Store(Path(chosen.runs))
    source = str(data) if isinstance(data, str | Path) else None
    data = open_dataset(data)
    for member in members:
        check_latents(member.latents, data.shape)
    split, architecture = chosen.split(), chosen.architecture(data)
    check_likelihood(architecture, data)
    training, held_out = split.of(data)
    plan = chosen.plan(len(training))
    configurations = [Configuration.of(data, split, architecture, plan, member) for member in members]
    distinct = {configuration.id: configuration for configuration in configurations}
    missing = [wanted for identity, wanted in distinct.items() if not _is_complete(store, identity)]
    if missing:
        widest = architecture.build(data.shape, max(c.member.latents for c in missing), seed=0)
        for positions in group([configuration.member for configuration in missing], widest, device):
            together = [missing[position] for position in positions]
            trainer = Trainer(
                architecture,
                [configuration.member for configuration in together],
                plan,
                training,
                held_out,
                device,
            )
            _train_group(store, together, trainer, source, chosen)
    return [Run.open(store.path(configuration.id)) for configuration in configurations]


def _is_complete(store: Store, identity: str) -> bool:
    path = store.path(identity)
    return path.exists() and Run.open(path).status == COMPLETE


def _train_group(
    store: Store,
    configurations: list[Configuration],
    trainer: Trainer,
    source: str | None,
    settings: Settings,
) -> None:
    """Train the configurations together: one in its own folder, several in a shared one until they are done."""
    notes = {"source": source, "versions": _versions(), "device": str(trainer.device)}
    runs = [Run.create(store.path(one.id), one, notes) for one in configurations]
    if len(runs) == 1:
        workplace = runs[0].path
    else:
        workplace = store.folder / ENSEMBLES / hash_of(sorted(one.id for one in configurations))
        workplace.mkdir(parents=True, exist_ok=True)
    title = f"{configurations[0].data['name']} x {len(runs)}" if len(runs) > 1 else configurations[0].data["name"]
    with _locked(workplace), progress_bar(title, trainer.plan.steps, settings.progress) as report:
        try:
            train_in(workplace, trainer, report, settings.checkpoint_seconds)
        except NonFiniteError as error:
            runs[error.member].fail({"error": str(error), "term": error.term, "step": error.step, "items": error.items})
            raise
        if len(runs) > 1:
            _hand_out(workplace, runs, trainer)
        for member, run in enumerate(runs):
            run.finish(trainer.model(member))
    if len(runs) > 1:
        shutil.rmtree(workplace)


def train_in(folder: Path, trainer: Trainer, report: Report, checkpoint_seconds: float) -> None:
    """Train to the end with history and checkpoints in `folder`, from the checkpoint that is there, if any.

    Rows reach the disk before the checkpoint that includes them, so a checkpoint always finds its history.
    """
    journal, state_file = Journal(folder), folder / STATE_FILE
    if state_file.exists():
        trainer.load(load_state(state_file))
    journal.rewind(trainer.state.step)
    saved = time.monotonic()
    try:
        while not trainer.finished:
            rows = trainer.advance()
            journal.append(_flat(row, len(trainer.members)) for row in rows)
            report(trainer.state.step, _words(rows))
            if time.monotonic() - saved >= checkpoint_seconds:
                save_state(state_file, trainer.state)
                saved = time.monotonic()
    except NonFiniteError:
        save_state(folder / LAST_GOOD_FILE, trainer.state)
        raise
    except KeyboardInterrupt:
        save_state(state_file, trainer.state)
        raise
    save_state(state_file, trainer.state)


def _hand_out(workplace: Path, runs: list[Run], trainer: Trainer) -> None:
    """Give each member's run its own history and state, as if it had been trained alone."""
    rows = Journal(workplace).rows()
    for member, run in enumerate(runs):
        own = [{key: value for key, value in row.items() if key != "member"} for row in rows if row["member"] == member]
        Journal(run.path).replace(own)
        save_state(run.path / STATE_FILE, trainer.member_state(member))


def _flat(row: Row, members: int) -> dict[str, Any]:
    whose = {"member": row.member} if members > 1 else {}
    return {"step": row.step, "split": row.split, **whose, **row.values}


def _words(rows: list[Row]) -> str:
    """A few words on where training stands: the loss, or its range over members."""
    losses = [row.values["loss"] for row in rows if row.split == "train"]
    low, high = min(losses), max(losses)
    return f"loss {low:.2f}" if len(losses) == 1 else f"loss {low:.2f} to {high:.2f}"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process trains in a folder; the lock goes with the process, however that ends."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunError(f"{folder} is being trained by another process. Wait for it, or stop it first.") from error
    try:
        yield
    finally:
        lock.release()


def _versions() -> dict[str, str]:
    from vaescope import __version__

    return {"vaescope": __version__, "torch": torch.__version__, "python": platform.python_version()}
