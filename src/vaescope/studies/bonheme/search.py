"""The searches behind the tables of Bonheme, chapter 8: many at once, in models that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from vaescope.data import Dataset, describe
from vaescope.objectives import OBJECTIVES, Beta, Objective
from vaescope.runs import hash_of
from vaescope.sizing import GAPS as GAP_KINDS
from vaescope.sizing import (
    Gap,
    Information,
    IntrinsicDimension,
    Question,
    SearchOptions,
    Setup,
    Trace,
    fondue_search,
    search_folder,
    search_many,
)
from vaescope.studies.context import StudyContext, Task, Values
from vaescope.studies.results import JsonTable, Result, ResultKey
from vaescope.studies.study import Cell

TRACE, INFORMATION, SPREAD, DIMENSION = "trace", "sorted information", "information", "dimension"
METHODS = {TRACE: "FONDUE", INFORMATION: "FONDUE_IB", SPREAD: "FONDUE_IB, spread", DIMENSION: "FONDUE_IDE"}
# As the thesis' code reads them, and the information of blocks that are like the whole data.
GAPS: dict[str, Gap] = {
    TRACE: Trace(),
    INFORMATION: Information(cut="sorted"),
    SPREAD: Information(),
    DIMENSION: IntrinsicDimension(),
}
SEEDS = 2, 10
MAX_LATENTS = 8, 200  # at quick scale all sizes are trained at once, which a small net does in the time of one
SYMSOL, DSPRITES, CELEBA = "Symsol", "dSprites", "Celeba"
# Models and periods that one seed of a search trains for one objective, about.
SEARCH_MODELS, SEARCH_PERIODS = 10, 3
LATENTS, MODELS, EPOCHS = "latents", "models", "epochs"
# No time of a search: models x epochs at the time of a step when many searches share a GPU.
MINUTES = "simulated minutes"
# What stands for each data set of the thesis at quick scale, and where the thesis' own is.
GAUSSIAN = {"name": "gaussian-manifold", "ambient": 12, "items": 1500}
STAND_INS: dict[str, tuple[str, JsonTable]] = {
    SYMSOL: ("Gaussian of 3", {**GAUSSIAN, "dimension": 3, "noise": 0.3}),
    DSPRITES: ("digits", {"name": "digits"}),
    CELEBA: ("Gaussian of 6", {**GAUSSIAN, "dimension": 6, "noise": 0.25}),
}
SOURCES = {SYMSOL: "symsol_reduced", DSPRITES: "dsprites", CELEBA: "celeba"}
STOOD_IN = "quick scale: {0} stands in for {1}"


@dataclass(frozen=True)
class SearchedSet:
    """A data set as the tables call it, what opens it, and the set itself."""

    label: str
    source: JsonTable
    data: Dataset = field(repr=False)


def subjects(context: StudyContext, names: Sequence[str] = (SYMSOL, DSPRITES, CELEBA)) -> list[SearchedSet]:
    """The data sets of the thesis whose files are there, or those that stand in for them at quick scale."""
    found = []
    for name in names:
        label, source = STAND_INS[name] if context.is_quick else (name, {"name": SOURCES[name]})
        options = {option: value for option, value in source.items() if option != "name"}
        data = context.open(source["name"], **options)
        if data is not None:
            if context.is_quick:
                context.note(STOOD_IN.format(label, name))
            found.append(SearchedSet(label, source, data))
    return found


@dataclass(frozen=True)
class SearchQuestion:
    """One search: over which gap, with which objective, from where (None: the intrinsic dimension of the data)."""

    gap: str = TRACE
    objective: Objective = field(default_factory=lambda: Beta(1.0))
    start: int | None = None


@dataclass(frozen=True)
class SeedAnswer:
    """One seed's final answer, the periods of training that it took, and whether it converged."""

    seed: int
    value: float
    periods: int
    stable: bool


@dataclass(frozen=True)
class Found:
    """Per-seed answers, where the search began, its limit, steps per period and epoch, seconds per model and step."""

    answers: tuple[SeedAnswer, ...]
    start: int
    largest: int
    period: int
    epoch: int
    seconds_per_step: float | None

    @property
    def values(self) -> list[float]:
        """The number of latents of each seed."""
        return [answer.value for answer in self.answers]

    def epochs(self) -> list[float]:
        """Epochs after which each seed's answer stood; the epoch that confirms it is not counted, as in table 8.1."""
        periods = [max(1, answer.periods - 1) if answer.stable else answer.periods for answer in self.answers]
        return [count * self.period / self.epoch for count in periods]

    def models(self) -> list[float]:
        """Models that Algorithm 1 trains one after another on its way to each answer."""

        def asked(answer: float) -> int:
            def above(size: int) -> float:
                return float(size > answer)

            return len(fondue_search(above, self.start, 0.5, self.largest).gaps)

        return [float(asked(answer)) for answer in self.values]

    def cells(self, of: Mapping[str, object], models: Sequence[float]) -> list[Cell]:
        """A row of a table: the number of latents, models, epochs, and the time of one seed's search."""
        epochs = self.epochs()
        row = {LATENTS: self.values, MODELS: models, EPOCHS: epochs}
        cells = [Cell.over({**of, "measure": name}, values) for name, values in row.items()]
        steps = fmean(models) * fmean(epochs) * self.epoch
        note = "" if self.seconds_per_step else "nothing was trained here: no time was measured"
        minutes = None if self.seconds_per_step is None else steps * self.seconds_per_step / 60
        return [*cells, Cell({**of, "measure": MINUTES}, minutes, None, len(self.answers), note)]


def settings_of(context: StudyContext, connected: bool = False) -> JsonTable:
    """Settings of the models: those of tables D.1 to D.3, or small nets."""
    cuda = context.device.startswith("cuda")
    net: JsonTable = {"name": "fully_connected" if connected else "conv"}
    if context.is_quick:
        net = {"name": "mlp", "encoder_widths": [32], "decoder_widths": [32]}
        net |= {"decoder_activation": "tanh"} if connected else {}
    return {
        "net": net,
        "batch": context.pick(32, 64),
        "precision": context.pick("float32", "bfloat16" if cuda else "float32"),
        "held_out": 0.1,
    }


def rate_of(context: StudyContext) -> float:
    """The learning rate (table D.1)."""
    return context.pick(1e-2, 1e-4)


@dataclass(frozen=True)
class SharedSearch:
    """Searches of one data set that share their models: what is asked, with which gaps models are measured."""

    context: StudyContext = field(repr=False)
    subject: SearchedSet
    connected: bool
    questions: tuple[SearchQuestion, ...]
    gaps: tuple[str, ...]

    @cached_property
    def options(self) -> SearchOptions:
        """How models are trained and measured."""
        context = self.context
        return SearchOptions(
            learning_rate=rate_of(context),
            largest=context.pick(*MAX_LATENTS),
            period=context.pick(300, None),
            max_periods=context.pick(4, 6),
            probe_items=context.pick(500, 10_000),
            width=context.pick(4 * context.pick(*MAX_LATENTS), 3),
            near=context.is_quick,
            device="cpu",  # enough to name the searches
            runs=context.settings.runs,
            progress=context.settings.progress,
            **settings_of(context, self.connected),
        )

    @cached_property
    def setup(self) -> Setup:
        """What all models share."""
        return self.options.setup(self.subject.data)

    @cached_property
    def folder(self) -> Path:
        """Where the models' gaps and states are kept while searches go on."""
        found = search_folder(self.options.runs, self.setup, describe(self.subject.data), [GAPS[TRACE]])
        assert found is not None  # built-in gaps are always kept
        return found

    def key(self, question: SearchQuestion, seed: int) -> ResultKey:
        """Where an answer is kept: by everything that it depends on."""
        context = self.context
        options: JsonTable = {
            "gap": GAP_KINDS.plain(GAPS[question.gap]),
            "objective": OBJECTIVES.plain(question.objective),
            "learning_rate": rate_of(context),
            "start": question.start,
            "largest": self.options.largest,
            "periods": self.options.max_periods,
            "width": self.options.width,
            "near": context.is_quick,
            "seed": seed,
        }
        return ResultKey.of(hash_of([self.folder.name, options]), "fondue-answer", options)

    def task(self, seeds: Sequence[int]) -> Task:
        """The searches of all seeds."""
        setup, strengths = self.setup, {str(question.objective) for question in self.questions}
        return Task(
            title=f"FONDUE, {len(self.questions)} searches, {self.subject.label}",
            net=(str(settings_of(self.context, self.connected)["net"]["name"]), setup.plan.precision),
            parts={seed: tuple(self.key(question, seed) for question in self.questions) for seed in seeds},
            models=SEARCH_MODELS * len(strengths),
            steps=SEARCH_PERIODS * setup.period,
            perform=self.perform,
        )

    def perform(self, seeds: Sequence[int]) -> Iterator[tuple[ResultKey, Result]]:
        """Search with all seeds at once; models that were trained before are not trained again."""
        # The first round asks for all sizes, later ones for a third or so: empty slots train for nothing.
        slots = max(1, (self.options.width or 1) * len(self.questions) * len(seeds) // 3)
        results = search_many(
            self.subject.data,
            [Question(gap=one.gap, objective=one.objective, init=one.start) for one in self.questions],
            replace(self.options, seeds=list(seeds), slots=slots, device=self.context.verified_device()),
            gaps={name: GAPS[name] for name in self.gaps},
        )
        for question, found in zip(self.questions, results, strict=True):
            for answer in found.answers:
                table = {"value": answer.value, "periods": answer.periods, "stable": answer.stable}
                made = {"seconds_per_step": found.seconds_per_step}
                yield self.key(question, answer.seed), Result({**table, "start": int(found.start)}, made=made)

    def found(self, seeds: Sequence[int], values: Values) -> Found:
        """What the seeds answered to one question."""
        answers = tuple(
            SeedAnswer(seed, one["value"], one["periods"], one["stable"])
            for seed, one in zip(seeds, values, strict=True)
        )
        speeds = [one["seconds_per_step"] for one in values.made if one.get("seconds_per_step")]
        speed = fmean(speeds) if speeds else None
        largest = self.context.pick(*MAX_LATENTS)
        return Found(answers, values[0]["start"], largest, self.setup.period, self.setup.epoch, speed)


@dataclass(frozen=True)
class Asked:
    """Searches that were asked for; `found` reads the answers."""

    seeds: tuple[int, ...]
    values: Mapping[SearchQuestion, tuple[SharedSearch, Values]]

    def found(self) -> dict[SearchQuestion, Found]:
        """The answers to all questions."""
        return {question: search.found(self.seeds, values) for question, (search, values) in self.values.items()}


def asked(
    context: StudyContext, subject: SearchedSet, questions: Sequence[SearchQuestion], *, connected: bool = False
) -> Asked:
    """Ask for the answers to all questions, from models trained together."""
    seeds = context.seed_list(*SEEDS)
    standard = [question for question in questions if question.objective == Beta(1.0)]
    others = [question for question in questions if question.objective != Beta(1.0)]
    values: dict[SearchQuestion, tuple[SharedSearch, Values]] = {}
    for group in (standard, others):
        if group:
            named = {question.gap for question in group}
            # A standard VAE is measured by all gaps, as one training serves several tables. Codes of stronger
            # objectives, of other nets, or of the large sizes that other starts ask for may have no dimension, and
            # need none.
            every = group is standard and not connected and all(question.start is None for question in group)
            gaps = tuple(gap for gap in METHODS if every or gap in named)
            search = SharedSearch(context, subject, connected, tuple(group), gaps)
            task = search.task(seeds)
            for question in group:
                values[question] = search, context.computed(task, [search.key(question, seed) for seed in seeds])
    return Asked(tuple(seeds), values)


def objectives_of(name: str, place: str, strengths: Sequence[float]) -> dict[float, Objective]:
    """An objective for each strength."""
    return {strength: OBJECTIVES[name](**{place: float(strength)}) for strength in strengths}
