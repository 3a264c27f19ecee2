"""From arguments to searches: questions, options, what all models share, and where a search starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from vaescope.checks import MAX_RUNS, finite_number, whole_number
from vaescope.data import Dataset
from vaescope.dimension import Estimate, estimate
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.likelihoods.units import item_units
from vaescope.models import AnyArchitecture, TrainableModel, check_latents
from vaescope.numerics.moments import Spread
from vaescope.objectives import OBJECTIVES, Beta, Objective, strengths
from vaescope.runs.options import FitOptions, TrainingOptions, check_likelihood
from vaescope.sizing.axes import LATENTS, Axis, axis_over
from vaescope.sizing.gaps import Gap, GapFunction, GapSpec, gap_name, resolve_gap
from vaescope.sizing.kinds import BISECTION, MAX_BISECTED_SIZE, MAX_WIDTHS, ROUNDS
from vaescope.sizing.own_training import ScviModels, TrainFunction, checked_train, models_of, refuse
from vaescope.training import OPTIMISERS, Member, Plan
from vaescope.training.ensemble import group_members

# Steps: one pass over few items is too short. Convolutional nets find their latents soonest; a learned noise, the
# default for vectors, takes a while to fall.
MIN_PERIOD, MIN_CONV_PERIOD = 1500, 400
PROGRESS_STEPS = 100  # between reports of progress
MAX_SLOTS = 32  # models that train as one program
# Rounds of models that a program trains for a period at least, about: two periods that agree, two rounds in each.
PLANNED_ROUNDS = 4
# Settings of our training.
TRAINED_BY_US = (
    "net",
    "posterior",
    "likelihood",
    "initialisation",
    "optimiser",
    "learning_rate",
    "precision",
    "compile",
)
MIN_WIDTH = 5  # sizes that one seed of a search in rounds asks for at once where models train together
SEEDS_TOGETHER = 3
# Few items make short epochs: smaller batches reach the polarised regime within a few of them.
SMALL_DATASET, SMALL_BATCH, BATCH = 25_000, 16, 64
# Short epochs need a higher learning rate to reach it, too.
LONG_EPOCH, SLOW_RATE, QUICK_RATE = 1_500, 1e-4, 1e-3  # steps, learning rates


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
class Setup:
    """What all models of a search share.

    Attributes:
        period: Training steps between measurements.
        data: The training items.
        probe_items: Number of training items to measure gaps on.
        compile: Whether to compile the training step on a GPU; None: where that pays back.
    """

    architecture: AnyArchitecture | ScviModels
    plan: Plan
    period: int
    data: Dataset
    probe_items: int
    device: torch.device
    compile: bool | None = None

    @property
    def planned_steps(self) -> int:
        """Steps of a program that a search is sure to run, about; the plan has those that it may run at most."""
        return min(self.plan.steps * 2, self.period * PLANNED_ROUNDS)

    @property
    def epoch(self) -> int:
        """Steps of one pass over the training items."""
        return len(self.data) // self.plan.batch

    @property
    def probe(self) -> Dataset:
        """The items that gaps are measured on."""
        return self.data.draw(self.probe_items)

    @cached_property
    def dimension(self) -> Estimate:
        """Intrinsic dimension of the probe items, as the encoder takes them."""
        return estimate(_inside(self.probe), device=self.device)

    @property
    def modules(self) -> AnyArchitecture:
        """The architecture of models that are modules of ours, or that a factory builds."""
        assert not isinstance(self.architecture, ScviModels)
        return self.architecture

    def form(self, latents: int) -> TrainableModel:
        """A model without memory for its weights."""
        return self.modules.form(self.data.shape, latents)


@dataclass(frozen=True)
class SearchSpec:
    """A question with everything chosen that it leaves open: one search for each seed.

    Attributes:
        gap: Label of the gap.
        axis: What is searched over.
        member: The model; the axis sets its size or strength, the search its seed.
        start: Position on the axis where the searches start.
        threshold: The largest gap allowed.
        width: Sizes per round.
        max_periods: Training ends after this many periods.
        near: Whether the first round holds sizes next to `start` instead of a doubling ladder.
        seeds: One search for each.
        dimension: Intrinsic dimension of the data, if the searches start there.
        search: The kind of search.
    """

    gap: str
    axis: Axis
    member: Member
    start: int
    threshold: float
    width: int
    max_periods: int
    near: bool = False
    seeds: tuple[int, ...] = (0,)
    dimension: float | None = None
    search: str = ROUNDS


@dataclass(frozen=True, kw_only=True)
class SearchOptions(TrainingOptions):
    """How searches train and measure their models; `fondue` documents the other fields.

    Attributes:
        width: Sizes that one seed asks for at once; default: 5 to 10 (2 on lines) where models train together, else 1.
        near: Whether searches start with sizes next to `init` instead of halves and doubles of it.
        train: A function that trains the models in our place.
        slots: Models that train as one program on a GPU, at most 32; default: as many as the first round asks for.
    """

    seeds: int | Sequence[int] | None = None
    learning_rate: float | None = None
    largest: int | None = None
    period: int | None = None
    max_periods: int = 10
    probe_items: int = 10_000
    search: str = ROUNDS
    width: int | None = None
    near: bool = False
    slots: int | None = None
    batch: int | None = None
    runs: str | Path | None = FitOptions.runs
    train: TrainFunction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search not in tuple(MAX_WIDTHS):  # it may be anything
            raise unknown_name("search", self.search, MAX_WIDTHS)
        if self.train is not None:
            checked_train(self.train)
            for name in TRAINED_BY_US:
                refuse(name, getattr(self, name), getattr(type(self), name))

    def _models(self, data: Dataset) -> AnyArchitecture | ScviModels:
        """The architecture, with defaults chosen from the data."""
        return self.architecture(data) if self.train is None else models_of(self.model, self.prior, data)

    def setup(self, data: Dataset) -> Setup:
        """What all models share, trained on the items that are not held out."""
        max_periods = whole_number("max_periods", self.max_periods, 1)
        training, _ = self.split().of(data)
        batch = SMALL_BATCH if len(training) < SMALL_DATASET else BATCH
        batch = min(batch if self.batch is None else whole_number("batch", self.batch, 1), len(training))
        architecture, device = self._models(training), self.chosen_device()
        if self.train is None and not isinstance(architecture, ScviModels):
            check_likelihood(architecture, training)
        if architecture.deterministic:
            raise ConfigurationError(
                f"FONDUE needs a model with a posterior variance, got {architecture.model!r}. Search with model 'vae': "
                "its answer holds for autoencoders too."
            )
        shortest = MIN_CONV_PERIOD if architecture.convolutional else MIN_PERIOD
        steps = max(len(training) // batch, shortest) if self.period is None else whole_number("period", self.period, 1)
        plan = Plan(
            steps * max_periods,
            batch,
            OPTIMISERS.resolve(self.optimiser),
            self.precision,
            log_every=min(PROGRESS_STEPS, steps),
            evaluate_every=min(PROGRESS_STEPS, steps),
            monitor_every=0,
        )
        probe_items = whole_number("probe_items", self.probe_items, 2)
        return Setup(architecture, plan, steps, training, probe_items, device, self.compile)

    def spec(self, question: Question, label: str, gap: Gap | GapFunction, setup: Setup) -> SearchSpec:
        """A question about the gap with this label, with everything chosen that it leaves open."""
        threshold = question.threshold
        if threshold is None:
            if not isinstance(gap, _HasThreshold):
                raise ConfigurationError(
                    f"your own gap {gap_name(gap)} needs a threshold: pass threshold, or give it an attribute "
                    "'threshold'."
                )
            threshold = gap.threshold
        threshold = finite_number("threshold", threshold)
        if self.train is not None:
            refuse("objective", question.objective, None)
            refuse("over", question.over, LATENTS)
        objective = Beta() if question.objective is None else OBJECTIVES.resolve(question.objective)
        axis = axis_over(question.over, self._largest(question.over, setup), objective)
        start, dimension = _start(axis, question, objective, setup)
        rate = self.learning_rate
        if rate is None:
            rate = QUICK_RATE if setup.epoch < LONG_EPOCH else SLOW_RATE
        member = Member(start if question.latents is None else question.latents, objective, rate)
        seeds, width = self._seeds_and_width(member, setup)
        return SearchSpec(
            label, axis, member, start, threshold, width, self.max_periods, self.near, seeds, dimension, self.search
        )

    def _largest(self, over: str, setup: Setup) -> int:
        """The largest number of latents to try: as given, or the dimensions of an item, bisected up to 199."""
        dimensions = math.prod(setup.data.shape)
        if self.largest is not None and over != LATENTS:
            raise ConfigurationError(
                f"largest limits the number of latents, and this search is over {over}. Remove it."
            )
        if self.largest is None:
            return min(dimensions, MAX_BISECTED_SIZE) if self.search == BISECTION else dimensions
        return whole_number("largest", self.largest, 1, dimensions)

    def _seeds_and_width(self, member: Member, setup: Setup) -> tuple[tuple[int, ...], int]:
        """The seeds, and how many sizes each asks for at once: one where sizes train one after another."""
        together = nests = False
        if self.train is None:
            form = setup.form(member.latents)
            together, nests = len(group_members([member, member], form, setup.device)) == 1, form.nests
        seeds = (SEEDS_TOGETHER if together else 1) if self.seeds is None else self.seeds
        numbers = (
            tuple(seeds) if isinstance(seeds, Sequence) else tuple(range(whole_number("seeds", seeds, 1, MAX_RUNS)))
        )
        if not numbers or len(set(numbers)) < len(numbers):
            raise ConfigurationError(f"seeds must be different whole numbers, at least one, got {list(numbers)}.")
        if self.width is not None:
            return numbers, whole_number("width", self.width, 1)
        at_once = min(MAX_WIDTHS[self.search], max(MIN_WIDTH, MAX_SLOTS // len(numbers)))
        return numbers, at_once if together and nests else 1


def _inside(data: Dataset) -> Dataset | Tensor:
    """Items as an encoder takes them: standardised and without missing values, as the data ask for."""
    units = item_units(data.shape, data.standardise, data.missing)
    if units is None:
        return data
    items = data.batch(torch.arange(len(data)))
    units.fit_items(Spread.of_known(items.flatten(1)))
    return units.inside(items).flatten(1)


@runtime_checkable
class _HasThreshold(Protocol):
    @property
    def threshold(self) -> float: ...


def _start(axis: Axis, question: Question, objective: Objective, setup: Setup) -> tuple[int, float | None]:
    """Where on the axis a search starts, and the intrinsic dimension of the data if that is why."""
    init, latents = question.init, question.latents
    if axis.name != LATENTS:
        if latents is None:
            raise ConfigurationError(f"a search over {axis.name} needs the number of latents: pass latents.")
        check_latents(latents, setup.data.shape)
        value = strengths(objective)[axis.name] if init is None else finite_number("init", init, above=0)
        return axis.position(value), None
    if latents is not None:
        raise ConfigurationError(f"latents is what the search finds; pass init={latents} to start there.")
    if init is not None:
        return whole_number("init", init, 1, axis.largest), None
    try:
        found = setup.dimension
    except DataError as error:
        raise DataError(
            f"{setup.data.name} has no intrinsic dimension to start at: {error} Or pass init, where to start."
        ) from error
    return axis.position(found.latents_to_start_with), found.dimension


def labelled_gaps(
    questions: Sequence[Question], gaps: Mapping[str, GapSpec] | None
) -> tuple[dict[str, Gap | GapFunction], list[str]]:
    """All gaps by label, and the label of each question's gap."""
    labelled, labels = {label: resolve_gap(gap) for label, gap in (gaps or {}).items()}, []
    for question in questions:
        if isinstance(question.gap, str) and gaps is not None and question.gap in gaps:
            labels.append(question.gap)
            continue
        gap = resolve_gap(question.gap)
        labels.append(gap_name(gap))
        if labelled.setdefault(labels[-1], gap) != gap:
            raise ConfigurationError(
                f"different gaps need different labels, got {labels[-1]!r} for {labelled[labels[-1]]!r} and {gap!r}. "
                "Pass them as gaps={'a label': ..., 'another': ...} and use the labels in the questions."
            )
    return labelled, labels
