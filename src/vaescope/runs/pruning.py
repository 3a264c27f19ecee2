"""Prune a model: drop the latents that are not in use. A smaller run is kept as a new run next to the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import without_infinities
from vaescope.data import DataLike, Dataset
from vaescope.encoding import WrappedModel, checked_model, encode, open_for, recognise
from vaescope.encoding.encode import ModelInputs, index_chunks, items_per_call
from vaescope.encoding.kept import check_one_group, keep_latents
from vaescope.encoding.scvi import ScviModel
from vaescope.encoding.untouched import untouched
from vaescope.errors import ConfigurationError, LatentError
from vaescope.models import (
    AnyArchitecture,
    Architecture,
    FactoryArchitecture,
    FactoryModel,
    LatentModule,
    TrainableModel,
)
from vaescope.models.latent_model import LatentModel
from vaescope.models.pruning import checked_keep, pruned
from vaescope.models.recognition import Function
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import ACTIVE, MIXED
from vaescope.regime import VariableTypes, variable_types
from vaescope.registry import lookup
from vaescope.runs.configuration import Pruning
from vaescope.runs.final_types import final_types
from vaescope.runs.folders import locked, remove_leftovers
from vaescope.runs.record import Origin, Table
from vaescope.runs.rows import Row
from vaescope.runs.run import Run
from vaescope.runs.store import MAX_ITEMS, Store, data_of, load, sample_items
from vaescope.terminal import on_command_line

CHUNK_ITEMS = 1024
NOTABLY_SMALLER = 0.9  # share of the parameters; above it, a pruned model is as large as the original
# Value of `keep` -> the types of the latents that are kept.
KEPT_TYPES: dict[str, tuple[str, ...]] = {"active": (ACTIVE,), "used": (ACTIVE, MIXED)}


@dataclass(frozen=True)
class Pruned(NotebookResult):
    """Which latents were kept, and how the reconstructions of the smaller model differ from those of the original.

    Reconstructions are decoded from mean codes.

    Attributes:
        fill: The mean code of each latent, at which dropped latents are held; of spatial codes, over all positions.
        items: Number of items that were compared.
        mean_difference, max_difference: Absolute, between the reconstructions of both models, over all their numbers.
        error, original_error: Mean squared difference between items and their reconstructions.
        rate, original_rate: In nats, per item or position; from N(0, 1) if the prior is not Gaussian.
    """

    types: VariableTypes
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    fill: Float[Tensor, "latents"]
    items: int
    mean_difference: float
    max_difference: float
    error: float
    original_error: float
    rate: float
    original_rate: float

    def rows(self) -> list[Row]:
        """One row for each latent of the original: its type, its new number, or the value that it is held at."""
        numbers = {latent: number for number, latent in enumerate(self.kept)}
        rates = self.types.statistics.rate.tolist()
        return [
            {
                "latent": latent,
                "type": kind,
                "kl": rates[latent],
                "now": numbers.get(latent),
                "held_at": None if latent in numbers else float(self.fill[latent]),
            }
            for latent, kind in enumerate(self.types.types)
        ]

    def _summary(self, original: str, smaller: str, unit: str = "nats") -> str:
        """What was kept and how much reconstructions change; `smaller` begins the sentence, `unit` is of the rate."""
        if not self.dropped:
            return f"All {len(self.types.types)} latents of {original} are kept; nothing to prune."
        text = (
            f"{smaller}. Over {self.items:,} items, reconstructions differ by {self.mean_difference:.2g} on average "
            f"and by {self.max_difference:.2g} at most"
        )
        if math.isfinite(self.original_rate):
            text += f"; the rate goes from {self.original_rate:.4g} to {self.rate:.4g} {unit}"
        if self.types.mixed and self.kept == self.types.active:
            keep = "--keep used" if on_command_line() else "keep='used'"
            text += f". {len(self.types.mixed)} mixed latents were dropped, too; {keep} keeps them"
        return f"{text}."

    def _plain(self, **first: object) -> Table:
        numbers = ("items", "mean_difference", "max_difference", "error", "original_error", "rate", "original_rate")
        table: Table = without_infinities(
            {
                **first,
                "kept": list(self.kept),
                "dropped": list(self.dropped),
                **{name: getattr(self, name) for name in numbers},
                "latents": self.rows(),
            }
        )
        return table


@dataclass(frozen=True, kw_only=True)
class PrunedRun(Pruned):
    """A pruned run, the original run, and how their reconstructions differ; see `Pruned` for the other attributes.

    Attributes:
        run: The run with fewer latents; the original if there was nothing to drop.
    """

    run: Run
    original: Run
    parameters: int
    original_parameters: int

    @property
    def model(self) -> TrainableModel:
        """The model with fewer latents."""
        return self.run.model

    def summary(self) -> str:
        """What was kept and how much reconstructions change."""
        return self._summary(
            f"run {self.original.id}",
            f"Run {self.run.id} has {len(self.kept)} of the {len(self.types.types)} latents of run {self.original.id}"
            + self._smaller,
        )

    @property
    def _smaller(self) -> str:
        """What else is smaller, as the end of a sentence: most parameters belong to the network, which stays."""
        if self.parameters > NOTABLY_SMALLER * self.original_parameters:
            return ": a smaller code, while the network keeps about its size"
        return f", and {self.parameters:,} instead of {self.original_parameters:,} parameters"

    def plain(self) -> Table:
        """The result in tables, lists, text and numbers."""
        sizes = {"parameters": self.parameters, "original_parameters": self.original_parameters}
        return self._plain(run=self.run.id, original=self.original.id, summary=self.summary(), **sizes)


@dataclass(frozen=True, kw_only=True)
class PrunedModel(Pruned):
    """A pruned model of another library, and how its reconstructions differ; see `Pruned` for the other attributes.

    Attributes:
        model: The model with fewer latents, for every function that takes a model. It shares the module of the
            original; only codes are smaller. It is the original if there was nothing to drop.
    """

    model: WrappedModel
    original: WrappedModel

    def summary(self) -> str:
        """What was kept and how much reconstructions change."""
        name, latents = self.original.name, len(self.types.types)
        unit = "nats per position" if self.original.positions else "nats"
        return self._summary(name, f"{len(self.kept)} of the {latents} latents of {name} are kept", unit)

    def plain(self) -> Table:
        """The result in tables, lists, text and numbers."""
        return self._plain(model=self.model.name, original=self.original.name, summary=self.summary())


@overload
def prune(
    subject: Run | str | Path,
    data: DataLike | None = ...,
    *,
    keep: str | Sequence[int] = ...,
    alpha: float = ...,
    items: int = ...,
    seed: int = ...,
    runs: str | Path | None = ...,
) -> PrunedRun: ...
@overload
def prune(
    subject: nn.Module | Function | ScviModel,
    data: DataLike | None = ...,
    *,
    keep: str | Sequence[int] = ...,
    alpha: float = ...,
    items: int = ...,
    seed: int = ...,
) -> PrunedModel: ...
def prune(
    subject: Run | str | Path | nn.Module | Function | ScviModel,
    data: DataLike | None = None,
    *,
    keep: str | Sequence[int] = "used",
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> PrunedRun | PrunedModel:
    """Drop the latents of a model that are not in use.

    Dropped latents are held at their mean code: where codes hardly vary, reconstructions stay the same. Nothing is
    trained.

    The smaller model of a run is a new run next to the original; a run that was pruned in the same way before is
    reused. Of a model of another library, the result's `model` encodes to the latents that are kept, and sets the
    others to their mean before the decoder. It shares the module, which does not change.

    Args:
        subject: A run, its folder, or the beginning of its id; or a model of another library that encodes and decodes,
            see `vaescope.wrap`.
        data: Items to average codes over. Default: the data of the run.
        keep: "used" drops passive latents, "active" drops mixed ones, too; or the numbers of the latents to keep. Of
            spatial codes, latents are channels.
        alpha: Significance level of the types of latents.
        items: Maximum number of items to encode.
        seed: Random seed for sampling and item selection.
        runs: Folder of runs to find an id in.
    """
    if isinstance(subject, Run | str | Path):
        run = load(subject, runs)
        opened, whole = data_of(run, data), run.model
        some = sample_items(opened, items, seed)
        found = _choice(f"run {run.id}", whole, some, keep, alpha, seed)
        small = _keep_small(run, whole, found, some, opened) if found.dropped else run
        return PrunedRun(
            **_measured(found, small.model, whole, some),
            run=small,
            original=run,
            parameters=_size(small.model),
            original_parameters=_size(whole),
        )
    model = _foreign(subject)
    opened = open_for(model, data)
    recognise(model, opened)
    check_one_group(model)
    model.check_decodes()
    some = sample_items(opened, items, seed, model)
    found = _choice(model.name, model, some, keep, alpha, seed)
    smaller = keep_latents(model, found.kept, found.fill) if found.dropped else model
    return PrunedModel(**_measured(found, smaller, model, some), model=smaller, original=model)


@dataclass(frozen=True)
class _Choice:
    """The latents to keep and to drop, and the value at which each is held if it is dropped."""

    types: VariableTypes
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    fill: Float[Tensor, "latents"]


def _choice(
    name: str, model: LatentModel, data: Dataset, keep: str | Sequence[int], alpha: float, seed: int
) -> _Choice:
    codes = encode(model, data, seed=seed)
    types = variable_types(codes, alpha=alpha)
    kept = _kept(name, types, keep)
    dropped = tuple(latent for latent in range(codes.latents) if latent not in kept)
    return _Choice(types, kept, dropped, codes.mean.double().mean(0))


def _measured(found: _Choice, smaller: LatentModel, whole: LatentModel, data: Dataset) -> dict[str, Any]:
    """The attributes of a `Pruned`: the latents, rates and differences between reconstructions."""
    rates = found.types.statistics.rate
    return {
        **vars(found),
        **_differences(smaller, whole, data),
        "items": len(data),
        "rate": float(rates[list(found.kept)].sum()),
        "original_rate": float(rates.sum()),
    }


def _foreign(subject: object) -> WrappedModel:
    """A model of another library, wrapped; an error for anything else."""
    found = checked_model(subject)
    if not isinstance(found, WrappedModel):
        raise ConfigurationError(
            f"prune takes a run, or a model of another library, got a model {type(found).__name__} of this one. Pass "
            "its run, or the module of the run (run.module)."
        )
    return found


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _kept(name: str, types: VariableTypes, keep: str | Sequence[int]) -> tuple[int, ...]:
    """The latents to keep."""
    if not isinstance(keep, str):
        return checked_keep(keep, len(types.types))
    kinds = lookup(KEPT_TYPES, keep, "keep, if it is not a list of numbers,")
    found = tuple(latent for latent, kind in enumerate(types.types) if kind in kinds)
    if not found:
        raise LatentError(
            f"{name} must have at least one latent that is {' or '.join(kinds)}, none of its {len(types.types)} "
            "latents is. Give numbers of latents to keep, or train with a lower weight of the rate."
        )
    return found


def _keep_small(original: Run, model: TrainableModel, found: _Choice, some: Dataset, data: Dataset) -> Run:
    """The run of the smaller model, next to the original; written unless it exists."""
    configuration, kept = original.configuration, found.kept
    shape = tuple(configuration.data["shape"])
    small, architecture = _smaller(model, configuration.architecture, shape, kept, found.fill)
    own = replace(
        configuration,
        architecture=architecture,
        member=replace(configuration.member, latents=len(kept)),
        pruned=Pruning(original.id, kept, some.fingerprint),
    )
    provenance = replace(
        original.provenance,
        started_from=Origin("pruned", original.id),
        checksums={},
        latent_types=None,
        latent_types_items=None,
    )
    own_data = data.fingerprint == configuration.data["fingerprint"]
    path = original.path.parent / own.id
    with locked([path]):
        if Store(path.parent).is_complete(own.id):
            return Run.open(path, original.trained_on)
        remove_leftovers(path)
        types = final_types(small, data) if own_data else None
        finished = Run.create(path, own, provenance).finish(small, types)
        return Run.open(finished.path, original.trained_on)


def _smaller(
    model: TrainableModel,
    architecture: AnyArchitecture,
    shape: tuple[int, ...],
    kept: tuple[int, ...],
    fill: Float[Tensor, "latents"],
) -> tuple[TrainableModel, AnyArchitecture]:
    """The model with only the latents `kept`, and its architecture."""
    if isinstance(model, FactoryModel) and isinstance(architecture, FactoryArchitecture):
        return architecture.pruned(model, shape, kept, fill)
    assert isinstance(model, LatentModule)
    assert isinstance(architecture, Architecture)
    return pruned(model, architecture, shape, kept, fill)


@torch.no_grad()
def _differences(smaller: LatentModel, whole: LatentModel, data: Dataset) -> dict[str, float]:
    """How reconstructions of two models differ from one another, and from the items."""
    inputs = ModelInputs(whole, data)
    size = items_per_call(whole, CHUNK_ITEMS)
    total, largest, count, known, errors = 0.0, 0.0, 0, 0, [0.0, 0.0]
    with untouched(whole), untouched(smaller):
        for index in index_chunks(data, size, "reconstructing", device=inputs.device):
            x, batch, condition = inputs.items(index), inputs.batch(index), inputs.condition(index)
            ours, theirs = (one.decode(one.encode(batch, *condition).mean, *condition).mean for one in (smaller, whole))
            difference = (ours - theirs).abs()
            total, count = total + float(difference.sum(dtype=torch.float64)), count + difference.numel()
            known = known + int((~x.isnan()).sum())
            largest = max(largest, float(difference.max()))
            for place, items in enumerate((ours, theirs)):
                errors[place] += float((items - x.to(items)).square().nansum(dtype=torch.float64))
    return {
        "mean_difference": total / count,
        "max_difference": largest,
        "error": errors[0] / known,
        "original_error": errors[1] / known,
    }
