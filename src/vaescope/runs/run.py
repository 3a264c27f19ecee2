"""A run: a folder with its configuration, history, state and model."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from torch import nn

from vaescope.errors import MissingVariantError, RunError
from vaescope.files import write_atomically
from vaescope.markup import element
from vaescope.models import LatentModule
from vaescope.notebook import render_view
from vaescope.objectives import strengths_in_use
from vaescope.runs.configuration import Configuration, missing_variants
from vaescope.runs.folders import ensemble_of
from vaescope.runs.journal import Journal, member_rows
from vaescope.runs.record import (
    COMPLETE,
    FAILED,
    FAILURE_FILE,
    HISTORY_FILE,
    LAST_GOOD_FILE,
    MODEL_FILE,
    RUN_FILE,
    SUMMARY_FILE,
    TRAINING,
    Provenance,
    RunRecord,
    Table,
)
from vaescope.runs.rows import Row, kept_row, summary_row
from vaescope.runs.sealed import RESTORE, naming, read_sealed, sealed
from vaescope.tables import table
from vaescope.training.checkpoint import load_tensors, save_tensors


@dataclass(frozen=True)
class Run:
    """What is on disk, read on first use."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in a folder; its configuration is read and checked at once."""
        run = cls(Path(path))
        _ = run.configuration
        return run

    @classmethod
    def create(cls, path: Path, configuration: Configuration, provenance: Provenance | None = None) -> Run:
        """A run in an existing folder, not trained yet; plug-ins are added to its provenance.

        If the run exists, as when it resumes, what a newer version recorded about it is kept.
        """
        run = cls(path)
        (path / SUMMARY_FILE).unlink(missing_ok=True)
        earlier = run.record if (path / RUN_FILE).is_file() else None
        provenance = replace(provenance or Provenance(), plugins=configuration.plugins())
        if earlier is not None:
            # Files that an earlier version left there have no checksums.
            before = earlier.provenance
            provenance = replace(provenance, version=before.version, unknown=before.unknown)
        unknown = {} if earlier is None else earlier.unknown
        return run._write(RunRecord(configuration.id, TRAINING, configuration.plain(), provenance, unknown))

    @cached_property
    def record(self) -> RunRecord:
        """The content of run.json when it was first read."""
        file = self.path / RUN_FILE
        try:
            record = RunRecord.read(file)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RunError(
                f"{self.path} must hold a {RUN_FILE} to be a run, there is none. Check the folder's name."
            ) from error
        with naming(file):
            missing = missing_variants(record.configuration)
            if not missing:
                Configuration.from_plain(record.configuration)
        if missing:
            raise _missing_variant(record, *next(iter(missing.items())))
        return record

    @property
    def id(self) -> str:
        """The hash of the configuration."""
        return self.record.id

    @property
    def status(self) -> str:
        """'training' (also if interrupted), 'complete' or 'failed'."""
        return self.record.status

    @property
    def provenance(self) -> Provenance:
        """How the run came about: its data source, versions, device, plug-ins."""
        return self.record.provenance

    @cached_property
    def configuration(self) -> Configuration:
        """Everything that the weights depend on."""
        return Configuration.from_plain(self.record.configuration)

    @cached_property
    def history(self) -> list[Row]:
        """One row for each logged step and split: `step`, `split`, `loss` and every term; empty for a pruned run."""
        rows = Journal(self.path).rows(self.provenance.checksums.get(HISTORY_FILE))
        if not rows and self.status == TRAINING and (ensemble := ensemble_of(self.path)):
            return member_rows(Journal(ensemble[0]).rows(), ensemble[1])
        self.record.check_history(self.path / HISTORY_FILE, rows)
        return rows

    @cached_property
    def model(self) -> LatentModule:
        """The trained model, on the CPU, in evaluation mode."""
        if self.status == FAILED:
            raise RunError(
                f"run {self.id} must be complete to have a model, but it diverged (see {self.path / FAILURE_FILE}). "
                "Train with a lower learning rate."
            )
        if self.status != COMPLETE:
            raise RunError(
                f"run {self.id} must be complete to have a model, its status is {self.status!r}. "
                f"{self._how_to_redo}: it resumes."
            )
        if not self.has_model:
            raise RunError(
                f"{self.path / MODEL_FILE} must hold the weights of a complete run, there is no such file. "
                f"{self._how_to_redo}: it writes the file again."
            )
        tensors, _ = load_tensors(self.path / MODEL_FILE, self.provenance.checksums.get(MODEL_FILE))
        configuration = self.configuration
        architecture, shape = configuration.architecture, tuple(configuration.data["shape"])
        form = architecture.form(shape, configuration.member.latents)
        expected = {name: tuple(value.shape) for name, value in form.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in tensors.items()}
        if expected != found:
            name, size = min(set(expected.items()) ^ set(found.items()))
            raise RunError(
                f"{self.path / MODEL_FILE} must hold the weights of the run's model; {name!r} of shape {size} is "
                f"either missing or not part of it. {RESTORE}"
            )
        model = architecture.build(shape, configuration.member.latents, seed=0)
        model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
        return model.eval()

    @property
    def failure(self) -> Table | None:
        """Why a failed run failed: the `error` as a sentence, its `term`, `step` and `items`; None for other runs."""
        if self.status != FAILED:
            return None
        file = self.path / FAILURE_FILE
        try:
            with naming(file):
                failure, has_checksum = read_sealed(file)
                self.record.check_sealed(has_checksum)
                return {"error": failure.pop("error"), **failure}
        except FileNotFoundError as error:
            raise RunError(f"{file} must say why the run failed, there is no such file. {RESTORE}") from error

    @property
    def has_model(self) -> bool:
        """Whether the file of the trained model exists."""
        return (self.path / MODEL_FILE).is_file()

    def finish(self, model: nn.Module) -> Run:
        """Save the trained model, then mark the run complete; an earlier failure is removed."""
        checksum = save_tensors(self.path / MODEL_FILE, model.state_dict())
        finished = self._end(COMPLETE, {MODEL_FILE: checksum})
        for name in (FAILURE_FILE, LAST_GOOD_FILE):
            (self.path / name).unlink(missing_ok=True)
        return finished

    def fail(self, failure: Table) -> Run:
        """Save what went wrong and mark the run failed."""
        write_atomically(self.path / FAILURE_FILE, json.dumps(sealed(failure), indent=2).encode())
        return self._end(FAILED, {})

    def last(self, split: str) -> Row:
        """The last row of the history of one split ('train' or 'test'), empty before the first."""
        rows = [row for row in self.history if row["split"] == split]
        return rows[-1] if rows else {}

    def _repr_html_(self) -> str:
        configuration = self.configuration
        row = {
            "run": self.id,
            "status": self.status,
            "data": configuration.data["name"],
            "model": configuration.architecture.model,
            "latents": configuration.member.latents,
            "objective": self.record.configuration["member"]["objective"]["name"],
            **strengths_in_use(configuration.member.objective),
            "seed": configuration.member.seed,
            "steps": configuration.plan.steps,
        }
        return element("div", table([row], f"Run {self.id}"), render_view(self))

    @property
    def _how_to_redo(self) -> str:
        pruned = self.configuration.pruned
        return "Call fit again with the same arguments" if pruned is None else f"Prune run {pruned.run} again"

    def _end(self, status: str, checksums: dict[str, str]) -> Run:
        """Keep the run's status, and its row for listings; one with too short a history has none: listings name it."""
        journal = Journal(self.path)
        rows = journal.rows()
        provenance = replace(self.provenance, checksums={**checksums, HISTORY_FILE: journal.checksum})
        ended = self._write(replace(self.record, status=status, provenance=provenance))
        if ended.record.has_full_history(rows):
            content = json.dumps(sealed(kept_row(summary_row(ended.record, rows)))).encode()
            write_atomically(self.path / SUMMARY_FILE, content)
        return ended

    def _write(self, record: RunRecord) -> Run:
        write_atomically(self.path / RUN_FILE, json.dumps(sealed(record.table()), indent=2).encode())
        return Run(self.path)


def _missing_variant(record: RunRecord, kind: str, name: str) -> MissingVariantError:
    """Which package to install for a variant that no registry knows."""
    what = f"run {record.id} uses the {kind} {name!r}"
    plugin = next((one for one in record.provenance.plugins if (one.kind, one.variant) == (kind, name)), None)
    if plugin is None:
        made_by = record.provenance.versions.get("vaescope", "another version")
        return MissingVariantError(
            f"{what}, which no installed package registers. The run was made by vaescope {made_by}: install that "
            "version, or the plug-in package that registers the variant."
        )
    if plugin.package is None:
        return MissingVariantError(
            f"{what}, which the module {plugin.module!r} registered. Import that module before opening the run."
        )
    version = f"=={plugin.version}" if plugin.version else ""
    return MissingVariantError(
        f"{what} of the package {plugin.package}{f' {plugin.version}' if plugin.version else ''}, which is not "
        f"installed. Run: pip install {plugin.package}{version}"
    )
