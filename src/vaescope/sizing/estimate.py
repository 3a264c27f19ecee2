"""How many latents do these data need? FONDUE in one call (Bonheme, chapter 8)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from vaescope.data import DataLike, open_dataset
from vaescope.data.dataset import describe
from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Likelihood
from vaescope.models.factory import factory_name
from vaescope.nets import Net
from vaescope.objectives import OBJECTIVES, Objective, form
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.progress import ProgressReport, progress_bar
from vaescope.registry import PartSpec
from vaescope.runs.folders import locked
from vaescope.runs.options import ModelSpec
from vaescope.sizing.axes import LATENTS
from vaescope.sizing.folder import search_folder
from vaescope.sizing.gaps import GapSpec
from vaescope.sizing.model_pool import ModelPool, OwnPool, Pool, SeedSearch, run_searches
from vaescope.sizing.own_training import TrainFunction
from vaescope.sizing.result import Fondue, Probe
from vaescope.sizing.setup import MAX_SLOTS, Question, SearchOptions, Setup, labelled_gaps
from vaescope.sizing.store import (
    GapJournal,
    Measurements,
    StateFiles,
    States,
    add_training_time,
    result_file,
    save_result,
)
from vaescope.training import Member
from vaescope.training.compilation import CompilationChoice, choose_compilation
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
    search: str = SearchOptions.search,
    model: ModelSpec | None = None,
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
    compile: bool | None = None,
    runs: str | Path | None = SearchOptions.runs,
    progress: bool | None = None,
    train: TrainFunction | None = None,
) -> Fondue:
    """Find how many latents a model needs: FONDUE (Bonheme, Algorithm 1), for one seed or several.

    Models of several sizes train together for a period. The answer is the largest size whose gap between sampled and
    mean representation is within the threshold: all of its latents are in use. Training continues, period by period,
    until two successive periods give the same answer. No model is trained to the end.

    Args:
        data: A name, a path, an array or a data set. What has options is opened first, as in
            `open_dataset("images", size=64)`, or given as a table {"name": "images", "size": 64}.
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
        search: How sizes are chosen. All kinds find the same size where the gap crosses the threshold once, and measure
            it and the next. 'rounds': several sizes at once; 'interpolate': two sizes, then those where the line
            through their gaps meets the threshold, which trains fewer models; 'bisection': one size at a time, from 1
            to `largest` (default: 199), again in each period (Bonheme, Algorithms 7 and 8).
        model, net, posterior, prior, likelihood, initialisation, optimiser: Parts, as in `fit`.
        batch: Batch size; default: 64, or 16 for fewer than 25,000 items.
        precision: 'float32', 'float64', 'tf32' or 'bfloat16'.
        held_out: Share (float) or number (int) of items that are not trained on.
        split_seed: Seed of the choice of held-out items.
        device: Default: 'cuda' if available, else 'cpu'.
        compile: Whether to compile the training step on a GPU; default: where that pays back, as in `fit`.
        runs: The folder to store the search in, where the same call resumes it; None stores nothing.
        progress: Whether to show progress: a bar on a terminal, lines in a log. Default: True.
        train: Your own training of the models that the factory `model` builds, `function(model, data, steps, seed)`. It
            trains the model for `steps` steps, and is called again with the same model to continue. `data` is a
            data set of torch with the training items; `seed` differs between calls. Settings of our training, such
            as `objective` and `learning_rate`, are then not allowed, and the search is not stored.

    Returns:
        The number of latents with its interval over seeds, the answer of each seed, and the curve of gaps.

    Example:
        >>> import vaescope as vs
        >>> size = vs.fondue("digits", seeds=2, period=50, max_periods=1, runs=None, progress=False)
        >>> sorted(size.curve[0])
        ['gap', 'high', 'latents', 'low', 'minuend', 'seeds', 'subtrahend']
    """
    options = SearchOptions(
        seeds=seeds,
        learning_rate=learning_rate,
        largest=largest,
        period=period,
        max_periods=max_periods,
        probe_items=probe_items,
        search=search,
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
        compile=compile,
        runs=runs,
        progress=progress,
        train=train,
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
        data: A name, a path, an array or a data set. What has options is opened first, as in
            `open_dataset("images", size=64)`, or given as a table {"name": "images", "size": 64}.
        questions: What to search for.
        options: How to train and measure.
        gaps: Gaps by label. Every model is measured by all of them, so that later questions need no training; a
            question may name its gap by label. Labels are stored with the measurements: keep one label for one gap.
            Default: the gaps of the questions.

    Returns:
        One result per question. Their `trained_steps`, `trained_ahead` and `seconds` are those of all questions
        together.
    """
    if not questions:
        raise ConfigurationError("search_many needs at least one question, got none.")
    options, began, opened = SearchOptions() if options is None else options, time.monotonic(), open_dataset(data)
    setup = options.setup(opened)
    labelled, labels = labelled_gaps(questions, gaps)
    specs = [
        options.spec(question, label, labelled[label], setup) for question, label in zip(questions, labels, strict=True)
    ]
    searches = [[SeedSearch(spec, seed) for seed in spec.seeds] for spec in specs]
    models = options.slots or sum(spec.width * len(spec.seeds) for spec in specs)
    slots = -(-models // -(-models // MAX_SLOTS))  # one for each model, or an even share where they take turns
    kept_in = options.runs if options.train is None else None  # nothing on disk could tell one function from another
    folder = search_folder(kept_in, setup, describe(opened), labelled.values())
    # From the plan alone: a search that is repeated trains nothing and has the same result.
    choice = choose_compilation(setup.device.type, slots, setup.planned_steps, setup.compile)
    filled = slots if setup.device.type == "cuda" else None  # a program is expensive to build on a GPU only

    def new_pool() -> Pool:
        if options.train is not None:
            return OwnPool(setup, labelled, options.train)
        return ModelPool(setup, labelled, filled, states, measurements)

    with (
        _storage(folder) as (states, measurements),
        progress_bar(f"fondue on {opened.name}", None, options.progress, unit="steps") as report,
    ):
        training_began = time.monotonic()
        steps, ahead = _run(searches, new_pool, report)
        spent = time.monotonic() - training_began
        per_step = (spent / steps if steps else None) if folder is None else add_training_time(folder, spent, steps)
        results = tuple(
            Fondue(
                over=spec.axis.name,
                gap=spec.gap,
                threshold=spec.threshold,
                answers=tuple(search.answer for search in own if search.answer is not None),
                probes=_probes(own),
                start=spec.axis.value(spec.start),
                dimension=spec.dimension,
                period=setup.period,
                steps_per_epoch=setup.epoch,
                trained_steps=steps,
                seconds=time.monotonic() - began,
                data=describe(opened),
                settings=_settings(setup, spec.member, options, choice),
                seconds_per_step=per_step,
                search=spec.search,
                trained_ahead=ahead,
            )
            for spec, own in zip(specs, searches, strict=True)
        )
        if folder is not None:
            if len(results) == 1:
                save_result(folder, results[0], result_file(options.search))
            states.clear()
    return results


def _run(
    searches: Sequence[Sequence[SeedSearch]], new_pool: Callable[[], Pool], report: ProgressReport
) -> tuple[int, int]:
    """Run the searches of each question to the end; returns the trained steps, and the models trained ahead in vain."""
    # Models of one program have objectives of one form.
    groups: dict[object, list[SeedSearch]] = {}
    for own in searches:
        groups.setdefault(form(own[0].spec.member.objective), []).extend(own)
    steps = ahead = 0
    for group in groups.values():
        pool = new_pool()
        run_searches(pool, group, report)
        steps += pool.trained_steps
        ahead += pool.trained_ahead
    return steps, ahead


@contextmanager
def _storage(folder: Path | None) -> Iterator[tuple[States, Measurements]]:
    """Tables for states and measurements: in a folder that no other process may use, or in memory."""
    if folder is None:
        yield {}, {}
        return
    with locked([folder]) as owned:
        yield StateFiles(folder), GapJournal(folder, owned)


def _settings(setup: Setup, member: Member, options: SearchOptions, choice: CompilationChoice) -> dict[str, object]:
    """What the models are, and how they were trained."""
    models = setup.architecture.plain()
    if options.train is not None:
        return {**models, "train": factory_name(options.train)}
    return {
        **models,
        **dataclasses.asdict(setup.plan),
        "learning_rate": member.learning_rate,
        "objective": OBJECTIVES.plain(member.objective),
        "compilation": dataclasses.asdict(choice),
    }


def _probes(searches: Sequence[SeedSearch]) -> tuple[Probe, ...]:
    probes = (probe for search in searches for probe in search.probes.values())
    return tuple(sorted(probes, key=lambda probe: (probe.value, probe.seed)))
