"""The supervised variants, which bisect a range with one model at a time (Bonheme, appendix D.3, table D.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from vaescope.data import describe
from vaescope.runs import hash_of
from vaescope.sizing import GAPS as GAP_KINDS
from vaescope.sizing import Question, SearchOptions, Setup, search_folder, search_many
from vaescope.studies.bonheme import chapter8_claims as claims
from vaescope.studies.bonheme.search import (
    CELEBA,
    DSPRITES,
    EPOCHS,
    GAPS,
    INFORMATION,
    LATENTS,
    METHODS,
    MODELS,
    SEEDS,
    SYMSOL,
    TRACE,
    SearchedSet,
    rate_of,
    settings_of,
    subjects,
)
from vaescope.studies.charts import Lines
from vaescope.studies.context import StudyContext, Task, Values
from vaescope.studies.published import published_cells
from vaescope.studies.results import JsonTable, Result, ResultKey
from vaescope.studies.study import Cell, Findings, Study, cell_rows

MINUTES = "minutes"  # of one search, measured
NAMES = {TRACE: "BS_FONDUE", INFORMATION: "IB"}
UPPER = 8, 200  # u of Algorithms 7 and 8; they begin with l = 1, and the largest size that they measure is u - 1
QUICK_STEPS = 300  # of each model
FOLDER = "bisections"  # in the folder of runs: other searches must not have trained these models before


@dataclass(frozen=True)
class Bisection:
    """The searches of one method for one data set, each of a seed of its own, after a fixed number of epochs."""

    context: StudyContext = field(repr=False)
    subject: SearchedSet
    gap: str

    @property
    def upper(self) -> int:
        """u of the algorithms."""
        return self.context.pick(*UPPER)

    @cached_property
    def options(self) -> SearchOptions:
        """How models are trained and measured: each until its gap is measured once, at the end."""
        context = self.context
        options = SearchOptions(
            learning_rate=rate_of(context),
            largest=self.upper - 1,
            max_periods=1,
            probe_items=context.pick(500, 10_000),
            search="bisection",
            slots=1,
            device="cpu",  # enough to name the searches
            runs=Path(context.settings.runs) / FOLDER,
            progress=context.settings.progress,
            **settings_of(context),
        )
        if context.is_quick:
            return replace(options, period=QUICK_STEPS)
        of = {"method": METHODS[self.gap], "data": self.subject.label, "measure": EPOCHS}
        (epochs,) = (cell.value for cell in published_cells("bonheme-table8.1") if cell.of == of and cell.value)
        return replace(options, period=round(epochs * options.setup(self.subject.data).epoch))

    @cached_property
    def setup(self) -> Setup:
        """What all models share."""
        return self.options.setup(self.subject.data)

    def key(self, seed: int) -> ResultKey:
        """Where the search of a seed is kept: by everything that it depends on."""
        options: JsonTable = {
            "gap": GAP_KINDS.plain(GAPS[self.gap]),
            "learning_rate": rate_of(self.context),
            "upper": self.upper,
            "steps": self.setup.period,
            "seed": seed,
        }
        folder = search_folder(self.options.runs, self.setup, describe(self.subject.data), [GAPS[self.gap]])
        assert folder is not None  # built-in gaps are always kept
        return ResultKey.of(hash_of([folder.name, options]), "bisection", options)

    def asked(self, seeds: Sequence[int]) -> Values:
        """The search of each seed. Each is a task of its own, because its models train one after another."""
        keys = [self.key(seed) for seed in seeds]
        for seed, key in zip(seeds, keys, strict=True):
            task = Task(
                title=f"{NAMES[self.gap]}, model by model, {self.subject.label}, seed {seed}",
                net=(str(settings_of(self.context)["net"]["name"]), self.setup.plan.precision),
                parts={seed: (key,)},
                models=1,
                steps=math.ceil(math.log2(self.upper)) * self.setup.period,
                perform=self.perform,
            )
            self.context.computed(task, [key])
        return Values(self.context.store, keys)

    def perform(self, seeds: Sequence[int]) -> Iterator[tuple[ResultKey, Result]]:
        """Run Algorithm 7 or 8 for each seed."""
        question, device = Question(gap=GAPS[self.gap], init=1), self.context.verified_device()
        for seed in seeds:
            (found,) = search_many(self.subject.data, [question], replace(self.options, seeds=[seed], device=device))
            (answer,) = found.answers
            value: JsonTable = {"latents": answer.search.latents, "gaps": [list(pair) for pair in answer.search.gaps]}
            yield self.key(seed), Result(value, made={"seconds": found.seconds, "steps": found.trained_steps})

    def cells(self, values: Values) -> list[Cell]:
        """A row of the table."""
        of, steps = {"method": NAMES[self.gap], "data": self.subject.label}, self.setup.period
        found = list(values)
        models = [float(len(one["gaps"])) for one in found]
        # A search that was stopped and resumed knows the time of its last steps alone.
        minutes = [
            made["seconds"] / 60 * count * steps / made["steps"]
            for count, made in zip(models, values.made, strict=True)
            if made.get("steps")
        ]
        epochs = Cell({**of, "measure": EPOCHS}, steps / self.setup.epoch, None, len(found))
        return [
            Cell.over({**of, "measure": LATENTS}, [float(one["latents"]) for one in found]),
            Cell.over({**of, "measure": MODELS}, models),
            epochs,
            Cell.over({**of, "measure": MINUTES}, minutes),
        ]

    def path(self, values: Values) -> list[JsonTable]:
        """The size of each model in the order of training, averaged over the seeds whose search had not ended."""
        sizes = [[size for size, _ in one["gaps"]] for one in values]
        of = {"method": NAMES[self.gap], "data": self.subject.label}
        return cell_rows(
            (
                Cell.over({**of, "model": place + 1}, [float(own[place]) for own in sizes if place < len(own)])
                for place in range(max(map(len, sizes)))
            ),
            LATENTS,
        )


def table_d_5(context: StudyContext) -> Findings:
    """Algorithms 7 and 8, which bisect a given range (table D.5)."""
    seeds = context.seed_list(*SEEDS)
    searches = [
        Bisection(context, subject, gap)
        for subject in subjects(context, context.pick((SYMSOL,), (SYMSOL, DSPRITES, CELEBA)))
        for gap in NAMES
    ]
    asked = [(search, search.asked(seeds)) for search in searches]
    cells = [cell for search, values in asked for cell in search.cells(values)]
    rows = cell_rows((cell for cell in cells if cell.of["measure"] == LATENTS), LATENTS)
    path = [row for search, values in asked for row in search.path(values)]
    charts = (
        Lines(
            "Latents found by bisection",
            "Source: halving the range from 1 to 200 ends where FONDUE does, and trains more models on dSprites.",
            rows,
            "method",
            LATENTS,
            "data",
            kind="bars",
            y_title="latents found",
        ),
        Lines(
            "The sizes that a search tries",
            "The number of latents of its first, second, ... model, averaged over seeds.",
            path,
            "model",
            LATENTS,
            "method",
            "data",
            y_title="latents of the model",
        ),
    )
    return Findings(tuple(cells), charts if cells else ())


STUDIES = (
    Study(
        "bonheme-tableD.5",
        "Bonheme, Table D.5",
        "Do the supervised variants, which bisect the range from 1 to 200, find the same numbers of latents?",
        "Each search trains one model after another, as published, for the epochs of Table 8.1. 'minutes' are the time "
        "of a search on this machine, with its measurements. On a GPU models train in bfloat16. The net has kernels "
        "4, 4, 2, 2 and Glorot weights as in the thesis' code, where its table D.2 says 4 x 4 throughout. IB takes "
        "blocks of 999 items that are sorted by their pixels, as in that code.",
        table_d_5,
        claims=claims.TABLE_D_5,
    ),
)
