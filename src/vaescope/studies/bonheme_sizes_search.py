"""The searches behind the tables of Bonheme, chapter 8 and appendix D: many at once, in models that they share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from vaescope.data import Dataset
from vaescope.data.dataset import describe
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.progress import progress_bar
from vaescope.runs.locks import locked
from vaescope.runs.options import choose_device
from vaescope.sizing import Answer, Latents, binary_search, search
from vaescope.sizing.gaps import Gap, Information, IntrinsicDimension, Trace
from vaescope.sizing.model_pool import Pool, Setup
from vaescope.sizing.multi_seed import Quest, search_together
from vaescope.sizing.setup import beginning, chosen_settings, folder_of, seats_for, shared_setup
from vaescope.sizing.store import Readings, States, keep_time
from vaescope.studies.study import Cell, Scale
from vaescope.training import Member

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
LARGEST = 8, 200  # at quick scale all sizes are trained at once, which a small net does in the time of one
SYMSOL, DSPRITES, CELEBA = "Symsol", "dSprites", "Celeba"
LATENTS, MODELS, EPOCHS, MINUTES = "latents", "models", "epochs", "minutes"
# What stands for each data set of the thesis at quick scale, and where the thesis' own is.
GAUSSIAN = {"name": "gaussian-manifold", "ambient": 12, "items": 1500}
STAND_INS: dict[str, tuple[str, dict[str, Any]]] = {
    SYMSOL: ("Gaussian of 3", {**GAUSSIAN, "dimension": 3, "noise": 0.3}),
    DSPRITES: ("digits", {"name": "digits"}),
    CELEBA: ("Gaussian of 6", {**GAUSSIAN, "dimension": 6, "noise": 0.25}),
}
SOURCES = {SYMSOL: "symsol_reduced", DSPRITES: "dsprites", CELEBA: "celeba"}
STOOD_IN = "quick scale: {0} stands in for {1}"


@dataclass(frozen=True)
class Subject:
    """A data set as the tables call it, what opens it, and the set itself."""

    label: str
    source: Any
    data: Dataset = field(repr=False)


def subjects(scale: Scale, notes: list[str], names: Sequence[str] = (SYMSOL, DSPRITES, CELEBA)) -> list[Subject]:
    """The data sets of the thesis whose files are there, or those that stand in for them at quick scale."""
    found = []
    for name in names:
        label, source = scale.pick(STAND_INS[name], (name, {"name": SOURCES[name]}))
        options = {option: value for option, value in source.items() if option != "name"}
        data = scale.open(source["name"], notes, **options)
        if data is not None:
            notes += scale.pick([STOOD_IN.format(label, name)], [])
            found.append(Subject(label, source, data))
    return found


@dataclass(frozen=True)
class Question:
    """One search: over which gap, with which objective, from where (None: the intrinsic dimension of the data)."""

    gap: str = TRACE
    objective: Any = field(default_factory=lambda: Beta(1.0))
    start: int | None = None


@dataclass(frozen=True)
class Found:
    """What the seeds answered: a period is so many steps, an epoch so many, and a step of a model took so long."""

    answers: tuple[Answer, ...]
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

    def models(self, *, bisected: bool = False) -> list[float]:
        """Models that Algorithm 1, or 8, trains one after another on its way to each answer."""

        def asked(answer: float) -> int:
            def above(size: int) -> float:
                return float(size > answer)

            if bisected:
                return len(binary_search(above, 1, self.largest, 0.5).gaps)
            return len(search(above, self.start, 0.5, self.largest).gaps)

        return [float(asked(answer)) for answer in self.values]

    def cells(self, of: Mapping[str, Any], models: Sequence[float]) -> list[Cell]:
        """A row of a table: the number of latents, models, epochs, and the time of one seed's search."""
        epochs = self.epochs()
        row = {LATENTS: self.values, MODELS: models, EPOCHS: epochs}
        cells = [Cell.over({**of, "measure": name}, values) for name, values in row.items()]
        steps = fmean(models) * fmean(epochs) * self.epoch
        note = "" if self.seconds_per_step else "nothing was trained here: no time was measured"
        minutes = None if self.seconds_per_step is None else steps * self.seconds_per_step / 60
        return [*cells, Cell({**of, "measure": MINUTES}, minutes, None, len(self.answers), note)]


def settings_of(scale: Scale, connected: bool = False) -> dict[str, Any]:
    """Settings of the models: those of tables D.1 to D.3, or small nets."""
    cuda = choose_device(scale.device).startswith("cuda")
    tanh = {"encoder_widths": [32], "decoder_widths": [32], "decoder_activation": "tanh"}
    quick = {"name": "mlp", **(tanh if connected else {"encoder_widths": [32], "decoder_widths": [32]})}
    return {
        "net": scale.pick(quick, {"name": "fully_connected" if connected else "conv"}),
        "batch": scale.pick(32, 64),
        "precision": scale.pick("float32", "bfloat16" if cuda else "float32"),
        "held_out": 0.1,
    }


def rate_of(scale: Scale) -> float:
    """The learning rate (table D.1)."""
    return scale.pick(1e-2, 1e-4)


def answered(
    scale: Scale, subject: Subject, questions: Sequence[Question], *, connected: bool = False
) -> dict[Question, Found]:
    """The answers to all questions, from models trained together; what was read before is not trained again."""
    settings = {**settings_of(scale, connected), "device": scale.device, "progress": scale.progress}
    chosen = chosen_settings(settings)
    training, _ = chosen.split().of(subject.data)
    setup = shared_setup(chosen, training, scale.pick(300, None), scale.pick(4, 6), scale.pick(500, 10_000))
    plain = [question for question in questions if question.objective == Beta(1.0)]
    others = [question for question in questions if question.objective != Beta(1.0)]
    found: dict[Question, Found] = {}
    for group in (plain, others):
        if group:
            asked = {question.gap for question in group}
            # A plain VAE is read by all gaps, as one training serves several tables. Codes of stronger objectives, of
            # other nets, or of the large sizes that other starts ask for may have no dimension, and need none.
            every = group is plain and not connected and all(question.start is None for question in group)
            found |= _searched(scale, subject, setup, group, [gap for gap in METHODS if every or gap in asked])
    return found


def _searched(
    scale: Scale, subject: Subject, setup: Setup, questions: Sequence[Question], gaps: Sequence[str]
) -> dict[Question, Found]:
    axis, seeds = Latents(scale.pick(*LARGEST)), scale.seed_list(*SEEDS)
    quests = [_quest(scale, question, axis, setup) for question in questions]
    folder = folder_of(Path(scale.runs), setup, describe(subject.data), GAPS[TRACE])
    assert folder is not None  # the gaps of our own are always kept
    width = sum(quest.width for quest in quests) * len(seeds)
    with locked([folder]), progress_bar(f"fondue {subject.label}", None, scale.progress) as report:
        states = States(folder)
        # The first round asks for all sizes, later ones for a third or so: places left empty train for nothing.
        seats = seats_for(max(1, width // 3))
        pool = Pool(setup, {name: GAPS[name] for name in gaps}, seats, states, Readings(folder))
        began = time.monotonic()
        answers = search_together(pool, [(quest, seed) for quest in quests for seed in seeds], report)
        speed = keep_time(folder, time.monotonic() - began, pool.trained_steps)
        states.clear()
    parts = [answers[first : first + len(seeds)] for first in range(0, len(answers), len(seeds))]
    return {
        question: Found(part, quest.start, axis.largest, setup.period, setup.epoch, speed)
        for question, quest, part in zip(questions, quests, parts, strict=True)
    }


def objectives_of(name: str, place: str, strengths: Sequence[float]) -> dict[float, Any]:
    """An objective for each strength."""
    return {strength: OBJECTIVES[name](**{place: float(strength)}) for strength in strengths}


def _quest(scale: Scale, question: Question, axis: Latents, setup: Setup) -> Quest:
    begin = beginning(axis, question.start, None, question.objective, setup)
    member = Member(begin.position, question.objective, rate_of(scale))
    threshold = GAPS[question.gap].threshold
    periods = setup.plan.steps // setup.period
    width = scale.pick(4 * axis.largest, 3)
    return Quest(question.gap, axis, member, begin.position, threshold, width, periods, near=scale.pick(True, False))
