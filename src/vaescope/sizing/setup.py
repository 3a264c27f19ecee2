"""From what was asked for to a search: settings, where it begins, how many models train together, where it is kept."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaescope.checks import finite_number, whole_number
from vaescope.data import Dataset
from vaescope.dimension import estimate
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import check_latents
from vaescope.objectives import strengths
from vaescope.runs.configuration import hash_of
from vaescope.runs.options import FitOptions, check_likelihood
from vaescope.sizing.axes import LATENTS, Axis
from vaescope.sizing.gaps import GAPS, Gap
from vaescope.sizing.model_pool import Setup
from vaescope.sizing.store import PREFIX
from vaescope.training import OPTIMISERS, Member, Plan
from vaescope.training.groups import group as group_members

# Steps: a pass over few items is too short to tell. Convolutions find their latents soonest; a learned noise, which
# vectors have, takes a while to fall.
LEAST_PERIOD, LEAST_CONVOLVED_PERIOD = 1500, 400
LOOK_STEPS = 100  # between reports of progress
MOST_SEATS = 32  # members that train together
LEAST_SIZES, MOST_SIZES = 5, 10  # sizes that one seed asks for at once
SEEDS_TOGETHER = 3
# Few items make short epochs: smaller batches and a higher rate bring the regime about within a few of them.
SMALL_SET, SMALL_BATCH, BATCH = 25_000, 16, 64
LONG_EPOCH, SLOW_RATE, QUICK_RATE = 1_500, 1e-4, 1e-3


@dataclass(frozen=True)
class Begin:
    """Where a search begins on its axis, at how many latents, and the data's dimension if that is why."""

    position: int
    latents: int
    dimension: float | None = None


def chosen_settings(settings: dict[str, Any]) -> FitOptions:
    for name in ("steps", "epochs"):
        if name in settings:
            raise ConfigurationError(
                f"FONDUE trains period by period until its answer stands, and takes no {name}. Give period or "
                "most_periods."
            )
    chosen = FitOptions.of(settings)
    if chosen.model_name == "autoencoder":
        raise ConfigurationError(
            "FONDUE needs a model with a posterior variance, an autoencoder has none. Search with model 'vae': the "
            "number holds for autoencoders too, as the elbow check with model 'autoencoder' shows."
        )
    return chosen


def shared_setup(
    chosen: FitOptions, training: Dataset, period: int | None, most_periods: int, probe_items: int
) -> Setup:
    """What all models share."""
    architecture, device = chosen.architecture(training), chosen.chosen_device()
    check_likelihood(architecture, training)
    batch = min(chosen.batch, len(training))
    least = LEAST_CONVOLVED_PERIOD if architecture.parts.net.convolutional else LEAST_PERIOD
    steps = max(len(training) // batch, least) if period is None else whole_number("period", period, 1)
    log_every = min(LOOK_STEPS, steps)
    plan = Plan(steps * most_periods, batch, chosen.optimiser, chosen.precision, log_every, log_every, monitor_every=0)
    items = whole_number("probe_items", probe_items, 2)
    return Setup(architecture, plan, steps, training, items, device)


def batch_for(items: int) -> int:
    """Items in a batch when it was not said how many."""
    return SMALL_BATCH if items < SMALL_SET else BATCH


def default_rate(setup: Setup) -> float:
    return QUICK_RATE if setup.epoch < LONG_EPOCH else SLOW_RATE


def chosen_gap(gap: Any) -> Any:
    """The gap by name or table, or the caller's own."""
    found = GAPS.resolve(gap)
    if not callable(found) or isinstance(found, type):
        raise ConfigurationError(
            f"gap must be one of {', '.join(GAPS)}, or a function or object that takes the evidence, got {gap!r}."
        )
    return found


def threshold_of(gap: Gap, threshold: float | None) -> float:
    if threshold is not None:
        return finite_number("threshold", threshold)
    if not hasattr(gap, "threshold"):
        raise ConfigurationError(
            f"a gap of one's own needs a threshold: give {name_of_gap(gap)} an attribute 'threshold', or pass one."
        )
    return finite_number("threshold", gap.threshold)


def largest_of(largest: int | None, shape: tuple[int, ...], over: str) -> int:
    dimensions = math.prod(shape)
    if largest is not None and over != LATENTS:
        raise ConfigurationError(f"largest is a number of latents, and this search is over {over}. Leave it out.")
    return dimensions if largest is None else whole_number("largest", largest, 1, dimensions)


def beginning(axis: Axis, init: float | None, latents: int | None, objective: Any, setup: Setup) -> Begin:
    if axis.name != LATENTS:
        if latents is None:
            raise ConfigurationError(f"a search over {axis.name} needs the number of latents: pass latents.")
        check_latents(latents, setup.data.shape)
        value = strengths(objective)[axis.name] if init is None else finite_number("init", init, above=0)
        return Begin(axis.position(value), int(latents))
    if latents is not None:
        raise ConfigurationError(f"latents are what is searched for; pass init={latents} to begin there.")
    if init is not None:
        return Begin(whole_number("init", init, 1, axis.largest), int(init))
    try:
        found = estimate(setup.probe, device=setup.device)
    except DataError as error:
        raise DataError(
            f"{setup.data.name} has no intrinsic dimension to begin at: {error} Or pass init, where to begin."
        ) from error
    start = axis.position(found.latents_to_start_with)
    return Begin(start, start, found.dimension)


def seeds_and_width(seeds: int | Sequence[int] | None, member: Member, setup: Setup) -> tuple[list[int], int]:
    """The seeds, and how many sizes each may ask for at once: one where models train one after another."""
    with torch.device("meta"):
        form = setup.architecture.build(setup.data.shape, member.latents, seed=None)
    together = len(group_members([member, member], form, setup.device)) == 1
    if seeds is None:
        seeds = SEEDS_TOGETHER if together else 1
    numbers = list(seeds) if isinstance(seeds, Sequence) else list(range(whole_number("seeds", seeds, 1)))
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigurationError(f"seeds must be different whole numbers, at least one, got {numbers}.")
    return numbers, min(MOST_SIZES, max(LEAST_SIZES, MOST_SEATS // len(numbers))) if together else 1


def seats_for(members: int) -> int:
    """As many places as members, or an even share of them where they take turns."""
    return -(-members // -(-members // MOST_SEATS))


def name_of_gap(gap: Any) -> str:
    known = {variant: name for name, variant in GAPS.items()}
    return known[type(gap)] if type(gap) in known else getattr(gap, "__name__", type(gap).__name__)


def folder_of(runs: str | Path | None, setup: Setup, data: dict[str, Any], gap: Any) -> Path | None:
    """Where the search is kept: by all that its readings depend on, but not by seeds, start or threshold.

    A gap of one's own is not kept, because nothing on a disk could tell it from another.
    """
    if runs is None or type(gap) not in GAPS.values():
        return None
    plan = {**dataclasses.asdict(setup.plan), "optimiser": OPTIMISERS.plain(setup.plan.optimiser)}
    table = {
        "data": data["fingerprint"],
        "items": setup.data.fingerprint,
        "architecture": setup.architecture.plain(),
        "plan": {name: plan[name] for name in ("batch", "optimiser", "precision")},
        "period": setup.period,
        "probe_items": setup.probe_items,
        "gap": {name: value for name, value in GAPS.plain(gap).items() if name != "threshold"},
    }
    return Path(runs) / f"{PREFIX}{hash_of(table)}"
