"""How many latents do these data need? FONDUE in one call (Bonheme, chapter 8)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vaescope.checks import whole_number
from vaescope.data import open_dataset
from vaescope.data.dataset import describe
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.progress import progress_bar
from vaescope.runs.locks import locked
from vaescope.runs.options import FitOptions
from vaescope.sizing.axes import LATENTS, axis_over
from vaescope.sizing.gaps import Reading
from vaescope.sizing.model_pool import Key, Pool
from vaescope.sizing.multi_seed import Quest, search_together
from vaescope.sizing.result import Fondue, Look
from vaescope.sizing.setup import (
    batch_for,
    beginning,
    chosen_gap,
    chosen_settings,
    default_rate,
    folder_of,
    largest_of,
    name_of_gap,
    seats_for,
    seeds_and_width,
    shared_setup,
    threshold_of,
)
from vaescope.sizing.store import Readings, States, keep_result
from vaescope.training import Member
from vaescope.training.state import State

PROBE_ITEMS = 10_000
MOST_PERIODS = 10


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
    runs: str | Path | None = FitOptions.runs,
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
    began, opened, chosen = time.monotonic(), open_dataset(data), chosen_settings(settings)
    training, _ = chosen.split().of(opened)
    chosen = dataclasses.replace(chosen, batch=settings.get("batch", batch_for(len(training))))
    setup = shared_setup(chosen, training, period, whole_number("most_periods", most_periods, 1), probe_items)
    measured = chosen_gap(gap)
    limit = threshold_of(measured, threshold)
    objective = Member(objective=Beta() if objective is None else objective).objective
    axis = axis_over(over, largest_of(largest, opened.shape, over), objective)
    begin = beginning(axis, init, latents, objective, setup)
    rate = default_rate(setup) if learning_rate is None else learning_rate
    member = Member(begin.latents, objective, rate)
    numbers, width = seeds_and_width(seeds, member, setup)
    quest = Quest(name_of_gap(measured), axis, member, begin.position, limit, width, most_periods)
    folder = folder_of(runs, setup, describe(opened), measured)
    with _kept(folder) as (states, readings), progress_bar(f"fondue {opened.name}", None, chosen.progress) as report:
        pool = Pool(setup, {quest.gap: measured}, seats_for(len(numbers) * width), states, readings)
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
            settings={
                **setup.architecture.plain(),
                **dataclasses.asdict(setup.plan),
                "learning_rate": rate,
                "objective": OBJECTIVES.plain(objective),
            },
        )
        if folder is not None:
            keep_result(folder, result)
            states.clear()
    return result


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
