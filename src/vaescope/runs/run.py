"""A run: a folder with its configuration, history, state and model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from vaescope.errors import RunError, VaescopeError
from vaescope.runs.configuration import Configuration
from vaescope.runs.journal import Journal
from vaescope.training.checkpoint import load_tensors, save_tensors, write_atomically

RUN_FILE, MODEL_FILE, STATE_FILE = "run.json", "model.safetensors", "state.safetensors"
FAILURE_FILE, LAST_GOOD_FILE = "failure.json", "last_good.safetensors"
TRAINING, COMPLETE, FAILED = "training", "complete", "failed"


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
        """A new run folder, not trained yet."""
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path)
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
            _ = record["id"], record["status"]
        except (ValueError, KeyError, TypeError, VaescopeError) as error:
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
        """One row for each logged step and split: `step`, `split`, `loss` and every term."""
        return Journal(self.path).rows()

    @cached_property
    def model(self) -> nn.Module:
        """The trained model, on the CPU, ready to encode and decode."""
        if self.status != COMPLETE:
            raise RunError(
                f"run {self.id} must be complete to give a model, its status is {self.status!r}. "
                "Ask for the same fit again: it resumes."
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

    def finish(self, model: nn.Module) -> Run:
        """Keep the trained model and mark the run complete, in this order."""
        save_tensors(self.path / MODEL_FILE, model.state_dict())
        return self._with_status(COMPLETE)

    def fail(self, failure: dict[str, Any]) -> Run:
        """Keep what went wrong and mark the run failed."""
        write_atomically(self.path / FAILURE_FILE, json.dumps(failure, indent=2).encode())
        return self._with_status(FAILED)

    def last(self, split: str) -> dict[str, Any]:
        """The last row of the history of one split ('train' or 'test'), empty before the first."""
        rows = [row for row in self.history if row["split"] == split]
        return rows[-1] if rows else {}

    def _with_status(self, status: str) -> Run:
        self._write({**self.record, "status": status})
        return Run(self.path)

    def _write(self, record: dict[str, Any]) -> None:
        write_atomically(self.path / RUN_FILE, json.dumps(record, indent=2).encode())
