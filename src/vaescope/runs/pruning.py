"""Prune a run: keep the latents that are in use, and the model that has no others as a run of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import without_infinities
from vaescope.codes import Representation
from vaescope.data import DataLike, Dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, LatentError
from vaescope.models import LatentModule
from vaescope.models.pruning import checked_keep, pruned
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import ACTIVE, MIXED
from vaescope.regime import VariableTypes, variable_types
from vaescope.registry import lookup
from vaescope.runs.configuration import Pruning
from vaescope.runs.locks import locked, remove_leftovers
from vaescope.runs.record import COMPLETE, RUN_FILE, Origin
from vaescope.runs.resolve import data_of, run_of, sample_items
from vaescope.runs.run import Run

ITEMS, CHUNK = 10_000, 1024
# What to keep -> the types of the latents that it is.
KEEP: dict[str, tuple[str, ...]] = {"active": (ACTIVE,), "used": (ACTIVE, MIXED)}


@dataclass(frozen=True)
class Pruned(NotebookResult):
    """The run with fewer latents beside the one it was made from, and how their reconstructions differ.

    `fill` has what each latent was, on average, and the dropped ones are held at. `mean_difference` and
    `max_difference` are absolute, over all numbers of all items decoded from their mean codes. Rates are in nats, from
    N(0, 1) where the prior is no Gaussian. Where there was nothing to drop, `run` is the original.
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

    def rows(self) -> list[dict[str, Any]]:
        """One row for each latent of the original: its type, its number now, or the value it is held at."""
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
        """What was kept, and what it costs, in a few sentences."""
        latents = len(self.types.types)
        if not self.dropped:
            return f"Nothing to drop: run {self.original.id} is to keep all of its {latents} latents."
        text = (
            f"Run {self.run.id} has {len(self.kept)} of the {latents} latents of run {self.original.id}, and "
            f"{self.parameters:,} instead of {self.original_parameters:,} parameters. Over {self.items:,} items, "
            f"reconstructions differ by {self.mean_difference:.2g} on average and by {self.max_difference:.2g} at most"
        )
        if math.isfinite(self.original_rate):
            text += f"; the rate goes from {self.original_rate:.4g} to {self.rate:.4g} nats"
        if self.types.mixed and self.kept == self.types.active:
            mixed = f"{len(self.types.mixed)} mixed, in use a little or for some items"
            text += f". Those dropped include {mixed}: 'used' keeps them"
        return f"{text}."

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        numbers = ("items", "mean_difference", "max_difference", "rate", "original_rate")
        return without_infinities(
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


def prune(
    run: Any,
    data: DataLike | None = None,
    *,
    keep: str | Sequence[int] = "used",
    alpha: float = ALPHA,
    items: int = ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Pruned:
    """Drop the latents of a run that are not in use, and keep the smaller model as a run beside it.

    `keep` is "used" (drops the passive latents), "active" (drops the mixed ones, too), or the numbers of the
    latents to keep. The others are held at their mean code over the items, at most `items` of the run's data or of
    `data`: where their codes hardly move, reconstructions stay the same. Asked twice, it writes once.
    """
    original = run_of(run, runs)
    if original is None:
        raise ConfigurationError(f"prune takes a run (its folder, or the beginning of its id), got {run!r}.")
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
    """The numbers of the latents to keep."""
    if not isinstance(keep, str):
        return checked_keep(keep, len(types.types))
    kinds = lookup(KEEP, keep, "keep, unless it is a list of numbers,")
    found = tuple(latent for latent, kind in enumerate(types.types) if kind in kinds)
    if not found:
        raise LatentError(
            f"at least one latent of run {run.id} must be {' or '.join(kinds)} to be kept, none of its "
            f"{len(types.types)} is. Keep some by their numbers, or train with a lower weight of the rate."
        )
    return found


def _keep_small(original: Run, model: LatentModule, kept: tuple[int, ...], fill: Tensor, some: Dataset) -> Run:
    """The run of the smaller model, beside the original; written unless it is there."""
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
        if (path / RUN_FILE).exists():
            there = Run.open(path)
            if there.status == COMPLETE and there.has_model:
                return there
        remove_leftovers(path)
        return Run.create(path, own, provenance).finish(small)


@torch.no_grad()
def _differences(
    one: tuple[Any, Representation], other: tuple[Any, Representation], data: Dataset
) -> tuple[float, float]:
    """The mean and the largest absolute difference between what two models decode from their mean codes."""
    told = conditions_of(other[0], data)
    total, largest, count = 0.0, 0.0, 0
    for start in range(0, len(data), CHUNK):
        here = slice(start, start + CHUNK)
        condition = None if told is None else told[here]
        first, second = (model.decode(codes.mean[here], condition).mean for model, codes in (one, other))
        difference = (first - second).abs()
        total, count = total + float(difference.sum(dtype=torch.float64)), count + difference.numel()
        largest = max(largest, float(difference.max()))
    return total / count, largest
