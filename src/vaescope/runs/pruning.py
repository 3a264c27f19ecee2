"""Prune a run: drop the latents that are not in use, and keep the smaller model as a new run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import without_infinities
from vaescope.codes import Representation
from vaescope.data import DataLike, Dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding import encode
from vaescope.errors import LatentError
from vaescope.models import LatentModule
from vaescope.models.pruning import checked_keep, pruned
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import ACTIVE, MIXED
from vaescope.regime import VariableTypes, variable_types
from vaescope.registry import lookup
from vaescope.runs.configuration import Pruning
from vaescope.runs.folders import locked, remove_leftovers
from vaescope.runs.record import Origin, Table
from vaescope.runs.rows import Row
from vaescope.runs.run import Run
from vaescope.runs.store import Store, data_of, named_run, sample_items

MAX_ITEMS, CHUNK_ITEMS = 10_000, 1024
# Value of `keep` -> the types of the latents that are kept.
KEPT_TYPES: dict[str, tuple[str, ...]] = {"active": (ACTIVE,), "used": (ACTIVE, MIXED)}


@dataclass(frozen=True)
class Pruned(NotebookResult):
    """A pruned run, the original run, and how their reconstructions differ.

    Attributes:
        run: The run with fewer latents; the original if there was nothing to drop.
        fill: The mean code of each latent, at which dropped latents are held.
        items: Number of items that were compared.
        mean_difference, max_difference: Absolute, over all numbers of the items decoded from their mean codes.
        rate, original_rate: In nats; from N(0, 1) if the prior is not Gaussian.
    """

    run: Run
    original: Run
    types: VariableTypes
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    fill: Float[Tensor, "latents"]
    items: int
    mean_difference: float
    max_difference: float
    rate: float
    original_rate: float
    parameters: int
    original_parameters: int

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

    def summary(self) -> str:
        """What was kept and how much reconstructions change."""
        latents = len(self.types.types)
        if not self.dropped:
            return f"All {latents} latents of run {self.original.id} are kept; nothing to prune."
        text = (
            f"Run {self.run.id} has {len(self.kept)} of the {latents} latents of run {self.original.id}, and "
            f"{self.parameters:,} instead of {self.original_parameters:,} parameters. Over {self.items:,} items, "
            f"reconstructions differ by {self.mean_difference:.2g} on average and by {self.max_difference:.2g} at most"
        )
        if math.isfinite(self.original_rate):
            text += f"; the rate goes from {self.original_rate:.4g} to {self.rate:.4g} nats"
        if self.types.mixed and self.kept == self.types.active:
            text += f". {len(self.types.mixed)} mixed latents were dropped, too; keep='used' keeps them"
        return f"{text}."

    def plain(self) -> Table:
        """The result in tables, lists, text and numbers."""
        numbers = ("items", "mean_difference", "max_difference", "rate", "original_rate")
        table: Table = without_infinities(
            {
                "run": self.run.id,
                "original": self.original.id,
                "summary": self.summary(),
                "kept": list(self.kept),
                "dropped": list(self.dropped),
                **{name: getattr(self, name) for name in (*numbers, "parameters", "original_parameters")},
                "latents": self.rows(),
            }
        )
        return table


def prune(
    run: Run | str | Path,
    data: DataLike | None = None,
    *,
    keep: str | Sequence[int] = "used",
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Pruned:
    """Drop the latents of a run that are not in use, and keep the smaller model as a new run next to the original.

    Dropped latents are held at their mean code: where codes hardly vary, reconstructions stay the same. A run that was
    pruned in the same way before is reused.

    Args:
        run: A run, its folder, or the beginning of its id.
        data: Items to average codes over. Default: the data of the run.
        keep: "used" drops passive latents, "active" drops mixed ones, too; or the numbers of the latents to keep.
        alpha: Significance level of the types of latents.
        items: Maximum number of items to encode.
        seed: Random seed for sampling and item selection.
        runs: Folder of runs to find an id in.
    """
    original = named_run(run, runs)
    some, model = sample_items(data_of(original, data), items, seed), original.model
    codes = encode(model, some, seed=seed)
    types = variable_types(codes, alpha=alpha)
    kept = _kept(original, types, keep)
    dropped = tuple(latent for latent in range(codes.latents) if latent not in kept)
    fill = codes.mean.double().mean(0)
    small = original if not dropped else _keep_small(original, model, kept, fill, some)
    own = codes if not dropped else encode(small.model, some, seed=seed)
    mean_difference, max_difference = _differences((small.model, own), (model, codes), some)
    return Pruned(
        run=small,
        original=original,
        types=types,
        kept=kept,
        dropped=dropped,
        fill=fill,
        items=len(some),
        mean_difference=mean_difference,
        max_difference=max_difference,
        rate=_rate(variable_types(own, alpha=alpha)),
        original_rate=_rate(types),
        parameters=_size(small.model),
        original_parameters=_size(model),
    )


def _rate(types: VariableTypes) -> float:
    return float(types.statistics.rate.sum())


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _kept(run: Run, types: VariableTypes, keep: str | Sequence[int]) -> tuple[int, ...]:
    """The latents to keep."""
    if not isinstance(keep, str):
        return checked_keep(keep, len(types.types))
    kinds = lookup(KEPT_TYPES, keep, "keep, if it is not a list of numbers,")
    found = tuple(latent for latent, kind in enumerate(types.types) if kind in kinds)
    if not found:
        raise LatentError(
            f"run {run.id} must have at least one latent that is {' or '.join(kinds)}, none of its "
            f"{len(types.types)} latents is. Give numbers of latents to keep, or train with a lower weight of the rate."
        )
    return found


def _keep_small(original: Run, model: LatentModule, kept: tuple[int, ...], fill: Tensor, some: Dataset) -> Run:
    """The run of the smaller model, next to the original; written unless it exists."""
    configuration = original.configuration
    shape = tuple(configuration.data["shape"])
    small, architecture = pruned(model, configuration.architecture, shape, kept, fill)
    own = replace(
        configuration,
        architecture=architecture,
        member=replace(configuration.member, latents=len(kept)),
        pruned=Pruning(original.id, kept, some.fingerprint),
    )
    provenance = replace(original.provenance, started_from=Origin("pruned", original.id), checksums={})
    path = original.path.parent / own.id
    with locked([path]):
        if Store(path.parent).is_complete(own.id):
            return Run.open(path)
        remove_leftovers(path)
        return Run.create(path, own, provenance).finish(small)


@torch.no_grad()
def _differences(
    one: tuple[LatentModule, Representation], other: tuple[LatentModule, Representation], data: Dataset
) -> tuple[float, float]:
    """Mean and maximum absolute difference between what two models decode from their mean codes."""
    conditions = conditions_of(other[0], data)
    total, largest, count = 0.0, 0.0, 0
    for start in range(0, len(data), CHUNK_ITEMS):
        here = slice(start, start + CHUNK_ITEMS)
        condition = None if conditions is None else conditions[here]
        first, second = (model.decode(codes.mean[here], condition).mean for model, codes in (one, other))
        difference = (first - second).abs()
        total, count = total + float(difference.sum(dtype=torch.float64)), count + difference.numel()
        largest = max(largest, float(difference.max()))
    return total / count, largest
