"""From arguments to a search: questions, options, where a search starts, and how many models train together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard, runtime_checkable

import torch

from vaescope.checks import finite_number, whole_number
from vaescope.data import Dataset
from vaescope.errors import ConfigurationError, DataError
from vaescope.likelihoods import Likelihood
from vaescope.models import check_latents
from vaescope.nets import Net
from vaescope.objectives import Objective, strengths
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.registry import PartSpec
from vaescope.runs.options import FitOptions, check_likelihood
from vaescope.runs.record import hash_of
from vaescope.sizing.axes import LATENTS, Axis
from vaescope.sizing.gaps import GAPS, Gap, GapFunction, Trace, gap_name
from vaescope.sizing.model_pool import Setup
from vaescope.sizing.store import SEARCH_PREFIX
from vaescope.training import OPTIMISERS, Member, Plan
from vaescope.training.ensemble import group_members
from vaescope.training.optimisers import Optimiser

# Steps: one pass over few items is too short. Convolutional nets find their latents soonest; a learned noise, the
# default for vectors, takes a while to fall.
MIN_PERIOD, MIN_CONV_PERIOD = 1500, 400
PROGRESS_STEPS = 100  # between reports of progress
MAX_SLOTS = 32  # models that train as one program
MIN_WIDTH, MAX_WIDTH = 5, 10  # sizes that one seed asks for at once
SEEDS_TOGETHER = 3
# Few items make short epochs: smaller batches reach the polarised regime within a few of them.
SMALL_DATASET, SMALL_BATCH, BATCH = 25_000, 16, 64

GapSpec = str | Mapping[str, object] | Gap | GapFunction


@dataclass(frozen=True)
class Question:
    """What to search for: the largest size (or strength) whose gap is within the threshold.

    Attributes:
        gap: 'trace', 'dimension', 'information', a table with a name and options, your own function or object (see
            `Gap`), or a label among the `gaps` of `search_many`.
        objective: The objective to train with; default: Beta(1), the ELBO.
        threshold: The largest gap allowed; default: the gap's threshold.
        init: Where the search starts; default: the intrinsic dimension of the data, or the objective's strength.
        over: 'latents', or a strength of the objective such as 'beta'.
        latents: Number of latents of a search over a strength.
    """

    gap: GapSpec = "trace"
    objective: Objective | str | Mapping[str, object] | None = None
    threshold: float | None = None
    init: float | None = None
    over: str = LATENTS
    latents: int | None = None


@dataclass(frozen=True)
class SearchOptions:
    """How searches train and measure their models; see `fondue` for what it shares with it.

    Attributes:
        width: Sizes that one seed asks for at once; default: 5 to 10 where models train together, else 1.
        near: Whether searches start with sizes next to `init` instead of halves and doubles of it.
        slots: Models that train as one program on a GPU, at most 32; default: as many as the first round asks for.
    """

    seeds: int | Sequence[int] | None = None
    learning_rate: float | None = None
    largest: int | None = None
    period: int | None = None
    max_periods: int = 10
    probe_items: int = 10_000
    width: int | None = None
    near: bool = False
    slots: int | None = None
    model: str | Mapping[str, object] = "vae"
    net: PartSpec[Net] | None = None
    posterior: PartSpec[Posterior] | None = None
    prior: PartSpec[Prior] | None = None
    likelihood: PartSpec[Likelihood] | None = None
    initialisation: str | None = None
    optimiser: PartSpec[Optimiser] = "adam"
    batch: int | None = None
    precision: str = "float32"
    held_out: float | int = 0.1
    split_seed: int = 0
    device: str | torch.device | None = None
    runs: str | Path | None = FitOptions.runs
    progress: bool | None = None

    def setup(self, data: Dataset) -> Setup:
        """What all models share, trained on the items that are not held out."""
        max_periods = whole_number("max_periods", self.max_periods, 1)
        training, _ = self._fit_options(BATCH).split().of(data)
        small = len(training) < SMALL_DATASET
        chosen = self._fit_options((SMALL_BATCH if small else BATCH) if self.batch is None else self.batch)
        architecture, device = chosen.architecture(training), chosen.chosen_device()
        check_likelihood(architecture, training)
        batch = min(chosen.batch, len(training))
        if architecture.parts.posterior.deterministic:
            raise ConfigurationError(
                f"FONDUE needs a model with a posterior variance, got {architecture.model!r}. Search with model 'vae': "
                "its answer holds for autoencoders too."
            )
        shortest = MIN_CONV_PERIOD if architecture.parts.net.convolutional else MIN_PERIOD
        steps = max(len(training) // batch, shortest) if self.period is None else whole_number("period", self.period, 1)
        plan = Plan(
            steps * max_periods,
            batch,
            OPTIMISERS.resolve(chosen.optimiser),
            chosen.precision,
            log_every=min(PROGRESS_STEPS, steps),
            evaluate_every=min(PROGRESS_STEPS, steps),
            monitor_every=0,
        )
        return Setup(architecture, plan, steps, training, whole_number("probe_items", self.probe_items, 2), device)

    def _fit_options(self, batch: int) -> FitOptions:
        return FitOptions(
            model=self.model,
            net=self.net,
            posterior=self.posterior,
            prior=self.prior,
            likelihood=self.likelihood,
            initialisation=self.initialisation,
            optimiser=self.optimiser,
            batch=batch,
            precision=self.precision,
            held_out=self.held_out,
            split_seed=self.split_seed,
            device=self.device,
            progress=self.progress,
        )


@dataclass(frozen=True)
class Start:
    """Where a search starts.

    Attributes:
        position: Position on the axis.
        latents: Number of latents there.
        dimension: Intrinsic dimension of the data, if it is the reason.
    """

    position: int
    latents: int
    dimension: float | None = None


@runtime_checkable
class _HasThreshold(Protocol):
    @property
    def threshold(self) -> float: ...


def _is_registered(gap: Gap | GapFunction) -> TypeGuard[Gap]:
    return type(gap) in GAPS.values()


def resolve_gap(gap: GapSpec) -> Gap | GapFunction:
    """A gap from its name, its table or itself."""
    found = GAPS.resolve(gap) if isinstance(gap, str | Mapping) else gap
    if not callable(found) or isinstance(found, type):
        raise ConfigurationError(
            f"gap must be one of {', '.join(GAPS)}, or a function or object that takes the evidence, got {gap!r}."
        )
    return found


def resolve_threshold(gap: Gap | GapFunction, threshold: float | None) -> float:
    """The given threshold, or the gap's."""
    if threshold is not None:
        return finite_number("threshold", threshold)
    if isinstance(gap, _HasThreshold):
        return finite_number("threshold", gap.threshold)
    raise ConfigurationError(
        f"your own gap {gap_name(gap)} needs a threshold: pass threshold, or give it an attribute 'threshold'."
    )


def resolve_largest(largest: int | None, shape: tuple[int, ...], over: str) -> int:
    """The largest number of latents to try: as given, or the dimensions of an item."""
    dimensions = math.prod(shape)
    if largest is not None and over != LATENTS:
        raise ConfigurationError(f"largest limits the number of latents, and this search is over {over}. Remove it.")
    return dimensions if largest is None else whole_number("largest", largest, 1, dimensions)


def find_start(axis: Axis, question: Question, objective: Objective, setup: Setup) -> Start:
    """Where a search starts: as given, at the objective's strength, or at the intrinsic dimension of the data."""
    init, latents = question.init, question.latents
    if axis.name != LATENTS:
        if latents is None:
            raise ConfigurationError(f"a search over {axis.name} needs the number of latents: pass latents.")
        check_latents(latents, setup.data.shape)
        value = strengths(objective)[axis.name] if init is None else finite_number("init", init, above=0)
        return Start(axis.position(value), int(latents))
    if latents is not None:
        raise ConfigurationError(f"latents is what the search finds; pass init={latents} to start there.")
    if init is not None:
        return Start(whole_number("init", init, 1, axis.largest), int(init))
    try:
        found = setup.dimension
    except DataError as error:
        raise DataError(
            f"{setup.data.name} has no intrinsic dimension to start at: {error} Or pass init, where to start."
        ) from error
    start = axis.position(found.latents_to_start_with)
    return Start(start, start, found.dimension)


def seeds_and_width(options: SearchOptions, member: Member, setup: Setup) -> tuple[list[int], int]:
    """The seeds, and how many sizes each asks for at once: one where models train one after another."""
    together = len(group_members([member, member], setup.form(member.latents), setup.device)) == 1
    seeds = options.seeds
    if seeds is None:
        seeds = SEEDS_TOGETHER if together else 1
    numbers = list(seeds) if isinstance(seeds, Sequence) else list(range(whole_number("seeds", seeds, 1)))
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigurationError(f"seeds must be different whole numbers, at least one, got {numbers}.")
    if options.width is not None:
        return numbers, whole_number("width", options.width, 1)
    return numbers, min(MAX_WIDTH, max(MIN_WIDTH, MAX_SLOTS // len(numbers))) if together else 1


def slots_for(members: int) -> int:
    """One slot per member, or an even share of them where they take turns."""
    return -(-members // -(-members // MAX_SLOTS))


def search_folder(
    runs: str | Path | None, setup: Setup, data: Mapping[str, object], gaps: Iterable[Gap | GapFunction]
) -> Path | None:
    """The folder of a search, by everything that its measurements depend on, but not by seeds, start or threshold.

    Several gaps share the folder of 'trace'. Searches with your own gap are not stored, because nothing on disk could
    tell it from another.
    """
    known = list(gaps)
    registered = [gap for gap in known if _is_registered(gap)]
    if runs is None or len(registered) < len(known):
        return None
    gap = GAPS.plain(registered[0] if len(registered) == 1 else Trace())
    plan = {**dataclasses.asdict(setup.plan), "optimiser": OPTIMISERS.plain(setup.plan.optimiser)}
    table = {
        "data": data["fingerprint"],
        "items": setup.data.fingerprint,
        "architecture": setup.architecture.plain(),
        "plan": {name: plan[name] for name in ("batch", "optimiser", "precision")},
        "period": setup.period,
        "probe_items": setup.probe_items,
        "gap": {name: value for name, value in gap.items() if name != "threshold"},
    }
    return Path(runs) / f"{SEARCH_PREFIX}{hash_of(table)}"
