"""How many latents do these data need? FONDUE in one call (Bonheme, chapter 8)."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaescope.checks import finite_number, whole_number
from vaescope.data import Dataset, open_dataset
from vaescope.data.dataset import describe
from vaescope.dimension import estimate
from vaescope.errors import ConfigurationError, DataError
from vaescope.fondue.axes import LATENTS, Axis, axis_over
from vaescope.fondue.gaps import GAPS, Gap, Reading
from vaescope.fondue.keeping import PREFIX, Readings, States, keep_result
from vaescope.fondue.pool import Key, Pool, Setup
from vaescope.fondue.result import Fondue, Look
from vaescope.fondue.together import Quest, search_together
from vaescope.models import check_latents
from vaescope.nets import Conv
from vaescope.objectives import Beta, strengths
from vaescope.progress import progress_bar
from vaescope.registry import plain, resolve
from vaescope.runs.configuration import hash_of
from vaescope.runs.settings import Settings, check_likelihood
from vaescope.runs.workplace import locked
from vaescope.training import OPTIMISERS, Member, Plan
from vaescope.training.engines import State
from vaescope.training.groups import group as group_members

PROBE_ITEMS = 10_000
MOST_PERIODS = 10
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


def fondue(
    data: Any,
    *,
    gap: Any = "trace",
    threshold: float | None = None,
    init: float | None = None,
    seeds: int | Sequence[int] | None = None,
    over: str = LATENTS,
    latents: int | None = None,
    objective: Any = None,
    learning_rate: float | None = None,
    largest: int | None = None,
    period: int | None = None,
    most_periods: int = MOST_PERIODS,
    probe_items: int = PROBE_ITEMS,
    runs: str | Path | None = Settings.runs,
    **settings: Any,
) -> Fondue:
    """The largest number of latents that all stay in use: FONDUE (Bonheme, Algorithm 1) for one seed or several.

    Models of several sizes train together for a period, an epoch or more; the search over their gaps gives an answer.
    Training goes on, without starting again, until two successive periods give the same answer.

    Args:
        data: A name, a path, an array or a data set.
        gap: 'trace', 'dimension', 'information', a table of options, or one's own (see `Gap`).
        threshold: The largest gap that is not too large; the gap's own when left out.
        init: Where the search begins; at the intrinsic dimension of the data when left out.
        seeds: How many, or which; 3 where models train together (a GPU, small nets), else 1.
        over: 'latents', or a strength of the objective such as 'beta', at a given number of `latents`.
        learning_rate: 1e-4, or 1e-3 where epochs are shorter than 1500 steps.
        largest: No larger number is tried; the data's dimensions when left out.
        period: Steps between answers; an epoch, and at least 400 (convolutional nets) or 1500 steps, when left out.
        most_periods: Training ends here even if the answer still moves.
        probe_items: How many training items gap and dimension are measured on.
        runs: The folder the search is kept in, where the same call goes on after a stop; None keeps nothing.
        settings: Those of `fit` (model, net, likelihood, batch, precision, device, ...).
    """
    began, opened, chosen = time.monotonic(), open_dataset(data), _settings(settings)
    training, _ = chosen.split().of(opened)
    chosen = dataclasses.replace(
        chosen, batch=settings.get("batch", SMALL_BATCH if len(training) < SMALL_SET else BATCH)
    )
    setup = _setup(chosen, training, period, whole_number("most_periods", most_periods, 1), probe_items)
    measured = resolve(GAPS, gap, "gap")
    limit = _threshold(measured, threshold)
    objective = Member(objective=Beta() if objective is None else objective).objective
    axis = axis_over(over, _largest(largest, opened.shape), objective)
    begin = _begin(axis, init, latents, objective, setup)
    rate = _rate(setup) if learning_rate is None else learning_rate
    member = Member(begin.latents, objective, rate)
    numbers, width = _together(seeds, member, setup)
    quest = Quest(_name(measured), axis, member, begin.position, limit, width, most_periods)
    folder = _folder(runs, setup, describe(opened), measured)
    with _kept(folder) as (states, readings), progress_bar(f"fondue {opened.name}", None, chosen.progress) as report:
        pool = Pool(setup, {quest.gap: measured}, _seats(len(numbers) * width), states, readings)
        answers = search_together(pool, [(quest, number) for number in numbers], report)
        result = Fondue(
            over=over,
            gap=quest.gap,
            threshold=quest.threshold,
            answers=answers,
            looks=_looks(pool, quest),
            start=axis.value(quest.start),
            dimension=begin.dimension,
            period=setup.period,
            steps_per_epoch=setup.epoch,
            trained_steps=pool.trained_steps,
            seconds=time.monotonic() - began,
            data=describe(opened),
            settings={**setup.architecture.plain(), **dataclasses.asdict(setup.plan), "learning_rate": rate},
        )
        if folder is not None:
            keep_result(folder, result)
            states.clear()
    return result


@dataclass(frozen=True)
class _Begin:
    """Where a search begins on its axis, at how many latents, and the data's dimension if that is why."""

    position: int
    latents: int
    dimension: float | None = None


def _settings(settings: dict[str, Any]) -> Settings:
    for name in ("steps", "epochs"):
        if name in settings:
            raise ConfigurationError(
                f"FONDUE trains period by period until its answer stands, and takes no {name}. Give period or "
                "most_periods."
            )
    chosen = Settings.of(settings)
    if chosen.model == "autoencoder":
        raise ConfigurationError(
            "FONDUE needs a model with a posterior variance, an autoencoder has none. Search with model 'vae': the "
            "number holds for autoencoders too, as the elbow check with model 'autoencoder' shows."
        )
    return chosen


def _setup(chosen: Settings, training: Dataset, period: int | None, most_periods: int, probe_items: int) -> Setup:
    """What all models share."""
    architecture, device = chosen.architecture(training), chosen.chosen_device()
    check_likelihood(architecture, training)
    batch = min(chosen.batch, len(training))
    least = LEAST_CONVOLVED_PERIOD if isinstance(architecture.net, Conv) else LEAST_PERIOD
    steps = max(len(training) // batch, least) if period is None else whole_number("period", period, 1)
    log_every = min(LOOK_STEPS, steps)
    plan = Plan(steps * most_periods, batch, chosen.optimiser, chosen.precision, log_every, log_every, monitor_every=0)
    items = whole_number("probe_items", probe_items, 2)
    return Setup(architecture, plan, steps, training, items, device)


def _rate(setup: Setup) -> float:
    return QUICK_RATE if setup.epoch < LONG_EPOCH else SLOW_RATE


def _threshold(gap: Gap, threshold: float | None) -> float:
    if threshold is not None:
        return finite_number("threshold", threshold)
    if not hasattr(gap, "threshold"):
        raise ConfigurationError(
            f"a gap of one's own needs a threshold: give {_name(gap)} an attribute 'threshold', or pass threshold."
        )
    return finite_number("threshold", gap.threshold)


def _largest(largest: int | None, shape: tuple[int, ...]) -> int:
    if largest is None:
        return math.prod(shape)
    check_latents(largest, shape)
    return int(largest)


def _begin(axis: Axis, init: float | None, latents: int | None, objective: Any, setup: Setup) -> _Begin:
    if axis.name != LATENTS:
        if latents is None:
            raise ConfigurationError(f"a search over {axis.name} needs the number of latents: pass latents.")
        check_latents(latents, setup.data.shape)
        value = strengths(objective)[axis.name] if init is None else finite_number("init", init, above=0)
        return _Begin(axis.position(value), int(latents))
    if latents is not None:
        raise ConfigurationError(f"latents are what is searched for; pass init={latents} to begin there.")
    if init is not None:
        return _Begin(whole_number("init", init, 1, axis.largest), int(init))
    try:
        found = estimate(setup.probe, device=setup.device)
    except DataError as error:
        raise DataError(f"{setup.data.name} has no intrinsic dimension to begin at: {error}") from error
    start = axis.position(found.latents_to_start_with)
    return _Begin(start, start, found.dimension)


def _together(seeds: int | Sequence[int] | None, member: Member, setup: Setup) -> tuple[list[int], int]:
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


def _seats(members: int) -> int:
    """As many places as members, or an even share of them where they take turns."""
    return -(-members // -(-members // MOST_SEATS))


def _name(gap: Any) -> str:
    known = {variant: name for name, variant in GAPS.items()}
    return known[type(gap)] if type(gap) in known else getattr(gap, "__name__", type(gap).__name__)


def _folder(runs: str | Path | None, setup: Setup, data: dict[str, Any], gap: Any) -> Path | None:
    """Where the search is kept: by all that its readings depend on, but not by seeds, start or threshold.

    A gap of one's own is not kept, because nothing on a disk could tell it from another.
    """
    if runs is None or type(gap) not in GAPS.values():
        return None
    plan = {**dataclasses.asdict(setup.plan), "optimiser": plain(OPTIMISERS, setup.plan.optimiser, "optimiser")}
    table = {
        "data": data["fingerprint"],
        "items": setup.data.fingerprint,
        "architecture": setup.architecture.plain(),
        "plan": {name: plan[name] for name in ("batch", "optimiser", "precision")},
        "period": setup.period,
        "probe_items": setup.probe_items,
        "gap": {name: value for name, value in plain(GAPS, gap, "gap").items() if name != "threshold"},
    }
    return Path(runs) / f"{PREFIX}{hash_of(table)}"


@contextmanager
def _kept(folder: Path | None) -> Iterator[tuple[MutableMapping[Member, State], MutableMapping[Key, Reading]]]:
    """Where states and readings go: into a folder that no other process may use, or into memory."""
    if folder is None:
        yield {}, {}
        return
    with locked([folder]):
        yield States(folder), Readings(folder)


def _looks(pool: Pool, quest: Quest) -> tuple[Look, ...]:
    """Every model that was asked for, as it was last read."""
    looks = []
    for member, period in pool.asked.items():
        reading = pool.readings[quest.gap, member, period]
        value = quest.axis.of(member)
        looks.append(Look(value, member.seed, period, reading.minuend, reading.subtrahend, reading.gap))
    return tuple(sorted(looks, key=lambda look: (look.value, look.seed)))
