"""A run: a folder with its configuration, history, state and model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from vaescope.errors import RunError, VaescopeError
from vaescope.markup import element
from vaescope.models import LatentModule
from vaescope.notebook import render_view
from vaescope.objectives.strengths import strengths_in_use
from vaescope.runs.configuration import Configuration
from vaescope.runs.ensemble_folder import ensemble_of
from vaescope.runs.journal import Journal, own_rows
from vaescope.runs.record import (
    COMPLETE,
    FAILED,
    FAILURE_FILE,
    HISTORY_FILE,
    LAST_GOOD_FILE,
    MODEL_FILE,
    RUN_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    TRAINING,
    check_record,
    expected_steps,
    is_whole,
)
from vaescope.runs.rows import summary_row
from vaescope.tables import table
from vaescope.training.checkpoint import load_tensors, save_tensors, write_atomically

__all__ = ["COMPLETE", "FAILED", "LAST_GOOD_FILE", "RUN_FILE", "STATE_FILE", "TRAINING", "Run"]


@dataclass(frozen=True)
class Run:
    """What is on disk, read when asked for."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in a folder; the configuration is read and checked at once."""
        run = cls(Path(path))
        _ = run.configuration
        return run

    @classmethod
    def create(cls, path: Path, configuration: Configuration, notes: dict[str, Any]) -> Run:
        """A run in a folder that is there, not trained yet."""
        run = cls(path)
        (path / SUMMARY_FILE).unlink(missing_ok=True)
        run._write({"id": configuration.id, "status": TRAINING, **notes, "configuration": configuration.plain()})
        return run

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of run.json as it was when first asked for."""
        file = self.path / RUN_FILE
        if not file.is_file():
            raise RunError(f"{self.path} must hold a {RUN_FILE} to be a run, there is none. Check the folder's name.")
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            Configuration.from_plain(record["configuration"])
            check_record(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, VaescopeError) as error:
            raise RunError(
                f"{file} is damaged or from another version ({type(error).__name__}: {error}). Delete the run's folder "
                "to train it again."
            ) from error
        return record

    @property
    def id(self) -> str:
        """The hash of the configuration."""
        return self.record["id"]

    @property
    def status(self) -> str:
        """training (or interrupted), complete, or failed."""
        return self.record["status"]

    @cached_property
    def configuration(self) -> Configuration:
        """Everything the weights depend on."""
        return Configuration.from_plain(self.record["configuration"])

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One row for each logged step and split: `step`, `split`, `loss` and every term; none of a pruned run."""
        rows = Journal(self.path).rows()
        if not rows and self.status == TRAINING and (shared := ensemble_of(self.path)):
            return own_rows(Journal(shared[0]).rows(), shared[1])
        if not is_whole(self.record, rows):
            raise RunError(
                f"{self.path / HISTORY_FILE} must reach step {expected_steps(self.record)}, where the run is complete; "
                f"it ends at {rows[-1]['step'] if rows else 0}. Delete the run's folder to train it again."
            )
        return rows

    @cached_property
    def model(self) -> LatentModule:
        """The trained model, on the CPU, ready to encode and decode."""
        if self.status == FAILED:
            raise RunError(
                f"run {self.id} must be complete to give a model, it diverged: {self.path / FAILURE_FILE} says where. "
                "Lower the learning rate, or delete the run's folder to try it again."
            )
        if self.status != COMPLETE:
            raise RunError(
                f"run {self.id} must be complete to give a model, its status is {self.status!r}. "
                f"{self._again}: it resumes."
            )
        if not self.has_model:
            raise RunError(
                f"{self.path / MODEL_FILE} must hold the weights of a complete run, there is no such file. "
                f"{self._again}: it makes the file anew."
            )
        tensors, _ = load_tensors(self.path / MODEL_FILE)
        configuration = self.configuration
        model = configuration.architecture.build(
            tuple(configuration.data["shape"]), configuration.member.latents, seed=0
        )
        wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in tensors.items()}
        if wanted != found:
            odd = sorted(set(wanted.items()) ^ set(found.items()))[0]
            raise RunError(
                f"{self.path / MODEL_FILE} must hold the weights of the run's own model; {odd[0]!r} of shape {odd[1]} "
                "is on one side only. Delete the run's folder to train it again."
            )
        model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
        return model.eval()

    @property
    def failure(self) -> dict[str, Any] | None:
        """Of a run that failed, what went wrong: the `error` as a sentence, its `term`, `step` and `items`."""
        if self.status != FAILED:
            return None
        file = self.path / FAILURE_FILE
        try:
            failure = json.loads(file.read_text(encoding="utf-8"))
            return {"error": failure.pop("error"), **failure}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{file} must say why the run failed, it does not ({type(error).__name__}: {error}). Delete the run's "
                "folder to train it again."
            ) from error

    @property
    def has_model(self) -> bool:
        """Whether the file of the trained model is there."""
        return (self.path / MODEL_FILE).is_file()

    def finish(self, model: nn.Module) -> Run:
        """Keep the trained model and mark the run complete, in this order; an earlier failure is forgotten."""
        save_tensors(self.path / MODEL_FILE, model.state_dict())
        finished = self._with_status(COMPLETE)
        for name in (FAILURE_FILE, LAST_GOOD_FILE):
            (self.path / name).unlink(missing_ok=True)
        return finished._keep_row()

    def fail(self, failure: dict[str, Any]) -> Run:
        """Keep what went wrong and mark the run failed."""
        write_atomically(self.path / FAILURE_FILE, json.dumps(failure, indent=2).encode())
        return self._with_status(FAILED)._keep_row()

    def _repr_html_(self) -> str:
        configuration = self.configuration
        row = {
            "run": self.id,
            "status": self.status,
            "data": configuration.data["name"],
            "model": configuration.architecture.model,
            "latents": configuration.member.latents,
            "objective": self.record["configuration"]["member"]["objective"]["name"],
            **strengths_in_use(configuration.member.objective),
            "seed": configuration.member.seed,
            "steps": configuration.plan.steps,
        }
        return element("div", table([row], f"Run {self.id}"), render_view(self))

    def last(self, split: str) -> dict[str, Any]:
        """The last row of the history of one split ('train' or 'test'), empty before the first."""
        rows = [row for row in self.history if row["split"] == split]
        return rows[-1] if rows else {}

    @property
    def _again(self) -> str:
        """What to do for the run to be made again."""
        pruned = self.configuration.pruned
        return "Ask for the same fit again" if pruned is None else f"Prune run {pruned.run} again"

    def _keep_row(self) -> Run:
        """Keep what a listing says of the run; one whose history is damaged has no row, so that listings say so."""
        rows = Journal(self.path).rows()
        if is_whole(self.record, rows):
            write_atomically(self.path / SUMMARY_FILE, json.dumps(summary_row(self.record, rows)).encode())
        return self

    def _with_status(self, status: str) -> Run:
        self._write({**self.record, "status": status})
        return Run(self.path)

    def _write(self, record: dict[str, Any]) -> None:
        write_atomically(self.path / RUN_FILE, json.dumps(record, indent=2).encode())
