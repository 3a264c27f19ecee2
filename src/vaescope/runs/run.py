"""A run: a folder with its configuration, history, state and model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike
from vaescope.data import DataLike
from vaescope.data.pixel_scale import UNIT_SCALE, PixelScale
from vaescope.encoding import Reconstructor, Traversals
from vaescope.encoding.generate import INTERPOLATION_STEPS, SAMPLE_ITEMS
from vaescope.errors import MissingVariantError, RunError
from vaescope.files import write_atomically
from vaescope.markup import element
from vaescope.models import FactoryArchitecture, TrainableModel
from vaescope.notebook import render_view
from vaescope.objectives import strengths_in_use
from vaescope.runs import using
from vaescope.runs.configuration import Configuration, missing_variants
from vaescope.runs.folders import ensemble_of
from vaescope.runs.history import History
from vaescope.runs.journal import Journal, member_rows
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
    Provenance,
    RunRecord,
    Table,
)
from vaescope.runs.rows import Row, kept_row, summary_row
from vaescope.runs.sealed import RESTORE, naming, read_sealed, sealed
from vaescope.runs.type_counts import FinalTypes
from vaescope.tables import table
from vaescope.training.checkpoint import load_tensors, save_tensors


@dataclass(frozen=True)
class Run:
    """What is on disk, read on first use, and the use of the trained model.

    Attributes:
        path: The folder of the run.
        trained_on: The data in memory that this process trained the run on; None for other runs.
    """

    path: Path
    trained_on: DataLike | None = field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, path: str | Path, trained_on: DataLike | None = None) -> Run:
        """The run in a folder; its configuration is read and checked at once."""
        run = cls(Path(path), trained_on)
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
            if (path / STATE_FILE).is_file() and provenance.started_from is None:
                provenance = replace(provenance, started_from=before.started_from)
        unknown = {} if earlier is None else earlier.unknown
        return run._write(RunRecord(configuration.id, TRAINING, configuration.plain(), provenance, unknown))

    @property
    def record(self) -> RunRecord:
        """The content of run.json when it was first read."""
        return self._content[0]

    @property
    def configuration(self) -> Configuration:
        """Everything that the weights depend on."""
        return self._content[1]

    @cached_property
    def _content(self) -> tuple[RunRecord, Configuration]:
        """The content of run.json when it was first read, and the configuration in it, checked."""
        file = self.path / RUN_FILE
        try:
            record = RunRecord.read(file)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RunError(
                f"{self.path} must hold a {RUN_FILE} to be a run, but there is none. Check the folder's name."
            ) from error
        with naming(file):
            missing = missing_variants(record.configuration)
            if not missing:
                return record, Configuration.from_plain(record.configuration)
        raise _missing_variant(record, *next(iter(missing.items())))

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
    def history(self) -> History:
        """One row for each logged step and split: `step`, `split`, `loss` and every term; empty for a pruned run."""
        rows = Journal(self.path).rows(self.provenance.checksums.get(HISTORY_FILE))
        if not rows and self.status == TRAINING and (ensemble := ensemble_of(self.path)):
            return History(member_rows(Journal(ensemble[0]).rows(), ensemble[1]))
        self.record.check_history(self.path / HISTORY_FILE, rows)
        return History(rows)

    @cached_property
    def model(self) -> TrainableModel:
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
                f"{self.path / MODEL_FILE} must hold the weights of a complete run, but there is no such file. "
                f"{self._how_to_redo}: it writes the file again."
            )
        self.check_factory()
        tensors, _ = load_tensors(self.path / MODEL_FILE, self.provenance.checksums.get(MODEL_FILE))
        configuration = self.configuration
        architecture, shape = configuration.architecture, tuple(configuration.data["shape"])
        form = architecture.form(shape, configuration.member.latents)
        expected = {name: tuple(value.shape) for name, value in form.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in tensors.items()}
        if expected != found:
            name, size = min(set(expected.items()) ^ set(found.items()))
            if isinstance(architecture, FactoryArchitecture):
                raise RunError(
                    f"the factory must build the model that run {self.id} was trained with; the tensor {name!r} of "
                    f"shape {size} is only in one of them. Pass the factory as it was then."
                )
            raise RunError(
                f"{self.path / MODEL_FILE} must hold the weights of the run's model; {name!r} of shape {size} is "
                f"either missing or not part of it. {RESTORE}"
            )
        model = configuration.build(tensors)
        model.pixel_scale = self.pixel_scale
        return model

    def check_factory(self) -> None:
        """Raise an error if the model was built by a factory that this process was not given."""
        architecture = self.configuration.architecture
        if isinstance(architecture, FactoryArchitecture) and not architecture.is_known:
            factory = architecture.factory
            raise RunError(
                f"the model of run {self.id} was built by {factory.words}, which a run does not hold. Open it with "
                f"vs.load({self.id!r}, model={factory.argument}), or on the command line with --model "
                f"{factory.name or 'package.module:name'}."
            )

    @property
    def pixel_scale(self) -> PixelScale:
        """The scale of the images, in which the methods of a run take and give them."""
        known = self.provenance.pixel_scale
        return UNIT_SCALE if known is None else PixelScale(known.black, known.white, known.integer_white)

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
            raise RunError(f"{file} must say why the run failed, but there is no such file. {RESTORE}") from error

    @property
    def has_model(self) -> bool:
        """Whether the file of the trained model exists."""
        return (self.path / MODEL_FILE).is_file()

    def finish(self, model: nn.Module, types: FinalTypes | None = None) -> Run:
        """Save the trained model, then mark the run complete with its types; an earlier failure is removed."""
        # Modules may share tensors, which a file holds once for each name.
        tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        checksum = save_tensors(self.path / MODEL_FILE, tensors)
        finished = self._end(COMPLETE, {MODEL_FILE: checksum}, types)
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

    @cached_property
    def module(self) -> Reconstructor:
        """A copy of the model for other code: `module(x)` reconstructs items (see `encoding.Reconstructor`)."""
        return Reconstructor(self.model)

    def encode(
        self,
        x: DataLike | None = None,
        *,
        labels: ArrayLike | None = None,
        factors: ArrayLike | None = None,
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> Representation:
        """The codes of items: mean, variance and a sample, items x latents.

        Args:
            x: One item, several, or anything that `open_dataset` takes, with pixels as in the data that the run was
                trained on: in their `range` if they have one, else floats in [0, 1] or integers as they had. Default:
                the data that the run was trained on.
            labels, factors: What a conditional model is given about an array: one row for each item, or one for all. A
                data set has its own.
            seed: Random seed for sampling.
            device: Where the model runs. Default: the CPU.
        """
        return using.encode_items(self, x, labels, factors, seed, device)

    def reconstruct(
        self,
        x: DataLike,
        *,
        labels: ArrayLike | None = None,
        factors: ArrayLike | None = None,
        device: str | torch.device | None = None,
    ) -> Float[Tensor, "items ..."]:
        """The items as the model decodes them from their mean codes.

        The arguments are those of `encode`. Pixels are floats in the `range` of the data, or in [0, 1].
        """
        return using.reconstruct_items(self, x, labels, factors, device)

    def sample(
        self,
        count: int = SAMPLE_ITEMS,
        *,
        seed: int = 0,
        labels: ArrayLike | None = None,
        factors: ArrayLike | None = None,
    ) -> Float[Tensor, "count ..."]:
        """Items decoded from codes that are drawn from the prior.

        Args:
            count: The number of items.
            seed: Random seed; item i depends on `seed` and i alone.
            labels, factors: What a conditional model is given: one row for each item, or one for all.
        """
        return using.sample_items(self, count, seed, labels, factors)

    def interpolate(
        self,
        a: DataLike,
        b: DataLike,
        steps: int = INTERPOLATION_STEPS,
        *,
        labels: ArrayLike | None = None,
        factors: ArrayLike | None = None,
    ) -> Float[Tensor, "steps ..."]:
        """Items decoded along the line from the mean code of one item to that of another, both included.

        Args:
            a, b: Two items, or data sets of one item.
            steps: The number of items.
            labels, factors: What a conditional model is given about arrays: one row for each end, or one for both.
        """
        return using.interpolate_items(self, a, b, steps, labels, factors)

    def traverse(
        self,
        x: DataLike | None = None,
        latents: Sequence[int] | None = None,
        *,
        example: int = 0,
        labels: ArrayLike | None = None,
        factors: ArrayLike | None = None,
    ) -> Traversals:
        """Items decoded while one latent varies and the others stay at the mean code of an item.

        Args:
            x: The item, or several of which `example` is one. Default: the data that the run was trained on. The usual
                range of a latent is that over `x`, or over the data of the run if `x` is one item.
            latents: The latents to vary. Default: all.
            example: The number of the item.
            labels, factors: As in `encode`.
        """
        return using.traverse_items(self, x, latents, example, labels, factors)

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

    def _end(self, status: str, checksums: dict[str, str], types: FinalTypes | None = None) -> Run:
        """Keep the run's status, and its row for listings; one with too short a history has none: listings name it."""
        journal = Journal(self.path)
        rows = journal.rows()
        found, items = (None, None) if types is None else (types.types, types.items)
        checksums = {**checksums, HISTORY_FILE: journal.checksum}
        provenance = replace(self.provenance, checksums=checksums, latent_types=found, latent_types_items=items)
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
