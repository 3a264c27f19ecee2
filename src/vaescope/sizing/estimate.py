"""How many latents do these data need? FONDUE in one call (Bonheme, chapter 8)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from vaescope.data import DataLike, open_dataset
from vaescope.data.dataset import describe
from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Likelihood
from vaescope.nets import Net
from vaescope.objectives import OBJECTIVES, Beta, Objective, form
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.progress import progress_bar
from vaescope.registry import PartSpec
from vaescope.runs.folders import locked
from vaescope.sizing.axes import LATENTS, axis_over
from vaescope.sizing.gaps import Gap, GapFunction, gap_name
from vaescope.sizing.model_pool import MeasurementTable, ModelPool, Setup, StateTable
from vaescope.sizing.multi_seed import SearchSpec, SeedSearch, run_searches
from vaescope.sizing.result import Fondue, Probe
from vaescope.sizing.setup import (
    GapSpec,
    Question,
    SearchOptions,
    Start,
    find_start,
    resolve_gap,
    resolve_largest,
    resolve_threshold,
    search_folder,
    seeds_and_width,
    slots_for,
)
from vaescope.sizing.store import GapJournal, StateFiles, add_training_time, save_result
from vaescope.training import Member
from vaescope.training.optimisers import Optimiser


def fondue(
    data: DataLike,
    *,
    gap: GapSpec = "trace",
    threshold: float | None = None,
    init: float | None = None,
    seeds: int | Sequence[int] | None = None,
    over: str = LATENTS,
    latents: int | None = None,
    objective: Objective | str | Mapping[str, object] | None = None,
    learning_rate: float | None = None,
    largest: int | None = None,
    period: int | None = None,
    max_periods: int = SearchOptions.max_periods,
    probe_items: int = SearchOptions.probe_items,
    model: str | Mapping[str, object] = "vae",
    net: PartSpec[Net] | None = None,
    posterior: PartSpec[Posterior] | None = None,
    prior: PartSpec[Prior] | None = None,
    likelihood: PartSpec[Likelihood] | None = None,
    initialisation: str | None = None,
    optimiser: PartSpec[Optimiser] = "adam",
    batch: int | None = None,
    precision: str = "float32",
    held_out: float | int = 0.1,
    split_seed: int = 0,
    device: str | torch.device | None = None,
    runs: str | Path | None = SearchOptions.runs,
    progress: bool | None = None,
) -> Fondue:
    """Find how many latents a model needs: FONDUE (Bonheme, Algorithm 1), for one seed or several.

    Models of several sizes train together for a period. The answer is the largest size whose gap between sampled and
    mean representation is within the threshold: all of its latents are in use. Training continues, period by period,
    until two successive periods give the same answer. No model is trained to the end.

    Args:
        data: A name, a path, an array or a data set.
        gap: 'trace', 'dimension', 'information', a table with a name and options, or your own (see `Gap`).
        threshold: The largest gap allowed; default: the gap's threshold.
        init: Where the search starts; default: the intrinsic dimension of the data.
        seeds: Number of seeds, or the seeds; default: 3 where models train together (a GPU, small nets), else 1.
        over: 'latents', or a strength of the objective such as 'beta', at a given number of `latents`.
        latents: Number of latents of a search over a strength.
        objective: Name, table or instance; default: Beta(1), the ELBO.
        learning_rate: Default: 1e-4, or 1e-3 if an epoch has fewer than 1500 steps.
        largest: The largest number of latents to try; default: the dimensions of an item.
        period: Steps between answers; default: an epoch, at least 400 (convolutional nets) or 1500 steps.
        max_periods: Training ends after this many periods, even if the answer still changes.
        probe_items: Number of training items on which gap and dimension are measured.
        model, net, posterior, prior, likelihood, initialisation, optimiser: Parts, as in `fit`.
        batch: Batch size; default: 64, or 16 for fewer than 25,000 items.
        precision: 'float32', 'float64', 'tf32' or 'bfloat16'.
        held_out: Share (float) or number (int) of items that are not trained on.
        split_seed: Seed of the choice of held-out items.
        device: Default: 'cuda' if available, else 'cpu'.
        runs: The folder to store the search in, where the same call resumes it; None stores nothing.
        progress: Whether to show a progress bar; default: on a terminal.

    Returns:
        The number of latents with its interval over seeds, the answer of each seed, and the curve of gaps.

    Example:
        >>> size = vs.fondue("dsprites-small", seeds=5)
        >>> size.latents, size.interval
    """
    options = SearchOptions(
        seeds=seeds,
        learning_rate=learning_rate,
        largest=largest,
        period=period,
        max_periods=max_periods,
        probe_items=probe_items,
        model=model,
        net=net,
        posterior=posterior,
        prior=prior,
        likelihood=likelihood,
        initialisation=initialisation,
        optimiser=optimiser,
        batch=batch,
        precision=precision,
        held_out=held_out,
        split_seed=split_seed,
        device=device,
        runs=runs,
        progress=progress,
    )
    return search_many(data, [Question(gap, objective, threshold, init, over, latents)], options)[0]


def search_many(
    data: DataLike,
    questions: Sequence[Question],
    options: SearchOptions | None = None,
    *,
    gaps: Mapping[str, GapSpec] | None = None,
) -> tuple[Fondue, ...]:
    """Answer several questions about the same data from shared models; `fondue` is the case of one question.

    Models of all questions and seeds train together where that is faster. A model that several questions ask for
    trains once.

    Args:
        data: A name, a path, an array or a data set.
        questions: What to search for.
        options: How to train and measure.
        gaps: Gaps by label. Every model is measured by all of them, so that later questions need no training; a
            question may name its gap by label. Labels are stored with the measurements: keep one label for one gap.
            Default: the gaps of the questions.

    Returns:
        One result per question. Their `trained_steps` and `seconds` are those of all questions together.
    """
    options, began, opened = SearchOptions() if options is None else options, time.monotonic(), open_dataset(data)
    setup = options.setup(opened)
    labelled, labels = _labelled(questions, gaps)
    prepared = [
        _prepare(question, label, labelled[label], opened.shape, options, setup)
        for question, label in zip(questions, labels, strict=True)
    ]
    searches = [[SeedSearch(one.spec, seed) for seed in one.seeds] for one in prepared]
    slots = slots_for(options.slots or sum(one.spec.width * len(one.seeds) for one in prepared))
    folder = search_folder(options.runs, setup, describe(opened), labelled.values())
    steps = 0
    with (
        _storage(folder) as (states, measurements),
        progress_bar(f"fondue {opened.name}", None, options.progress) as report,
    ):
        training_began = time.monotonic()
        # Models of one program have objectives of one form.
        for one_form in dict.fromkeys(form(one.spec.member.objective) for one in prepared):
            pool = ModelPool(setup, labelled, slots, states, measurements)
            group = [own for one, own in zip(prepared, searches, strict=True) if one.form == one_form]
            run_searches(pool, [search for own in group for search in own], report)
            steps += pool.trained_steps
        spent = time.monotonic() - training_began
        per_step = (spent / steps if steps else None) if folder is None else add_training_time(folder, spent, steps)
        results = tuple(
            Fondue(
                over=one.spec.axis.name,
                gap=one.spec.gap,
                threshold=one.spec.threshold,
                answers=tuple(search.answer for search in own if search.answer is not None),
                probes=_probes(own),
                start=one.spec.axis.value(one.spec.start),
                dimension=one.start.dimension,
                period=setup.period,
                steps_per_epoch=setup.epoch,
                trained_steps=steps,
                seconds=time.monotonic() - began,
                data=describe(opened),
                settings=_settings(setup, one.spec.member),
                seconds_per_step=per_step,
            )
            for one, own in zip(prepared, searches, strict=True)
        )
        if folder is not None:
            if len(results) == 1:
                save_result(folder, results[0])
            states.clear()
    return results


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """A question with everything that was left open chosen."""

    spec: SearchSpec
    start: Start
    seeds: list[int]

    @property
    def form(self) -> object:
        return form(self.spec.member.objective)


def _labelled(
    questions: Sequence[Question], gaps: Mapping[str, GapSpec] | None
) -> tuple[dict[str, Gap | GapFunction], list[str]]:
    """All gaps by label, and the label of each question's gap."""
    if not questions:
        raise ConfigurationError("search_many needs at least one question, got none.")
    labelled = {label: resolve_gap(gap) for label, gap in (gaps or {}).items()}
    labels = []
    for question in questions:
        if isinstance(question.gap, str) and question.gap in (gaps or {}):
            labels.append(question.gap)
            continue
        gap = resolve_gap(question.gap)
        label = gap_name(gap)
        if labelled.setdefault(label, gap) != gap:
            raise ConfigurationError(
                f"different gaps need different labels, got {label!r} for {labelled[label]!r} and {gap!r}. Pass them "
                "as gaps={'a label': ..., 'another': ...} and use the labels in the questions."
            )
        labels.append(label)
    return labelled, labels


def _prepare(
    question: Question,
    label: str,
    gap: Gap | GapFunction,
    shape: tuple[int, ...],
    options: SearchOptions,
    setup: Setup,
) -> _Prepared:
    threshold = resolve_threshold(gap, question.threshold)
    objective = Beta() if question.objective is None else OBJECTIVES.resolve(question.objective)
    axis = axis_over(question.over, resolve_largest(options.largest, shape, question.over), objective)
    start = find_start(axis, question, objective, setup)
    rate = setup.default_learning_rate if options.learning_rate is None else options.learning_rate
    member = Member(start.latents, objective, rate)
    seeds, width = seeds_and_width(options, member, setup)
    spec = SearchSpec(label, axis, member, start.position, threshold, width, options.max_periods, options.near)
    return _Prepared(spec, start, seeds)


@contextmanager
def _storage(folder: Path | None) -> Iterator[tuple[StateTable, MeasurementTable]]:
    """Tables for states and measurements: in a folder that no other process may use, or in memory."""
    if folder is None:
        yield {}, {}
        return
    with locked([folder]):
        yield StateFiles(folder), GapJournal(folder)


def _probes(searches: Sequence[SeedSearch]) -> tuple[Probe, ...]:
    probes = [probe for search in searches for probe in search.probes.values()]
    return tuple(sorted(probes, key=lambda probe: (probe.value, probe.seed)))


def _settings(setup: Setup, member: Member) -> dict[str, Any]:
    return {
        **setup.architecture.plain(),
        **dataclasses.asdict(setup.plan),
        "learning_rate": member.learning_rate,
        "objective": OBJECTIVES.plain(member.objective),
    }
