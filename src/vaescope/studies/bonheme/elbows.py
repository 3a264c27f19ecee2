"""Loss, accuracy and structure by latents, and FONDUE's answers (Bonheme, figures 8.5 to 8.8, 8.12, D.1 to D.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

import torch

from vaescope.data import Dataset, describe
from vaescope.encoding import reconstruct
from vaescope.objectives import DIPII, OBJECTIVES, Beta, Objective
from vaescope.runs import Run
from vaescope.similarity import structure_preservation
from vaescope.sizing import Elbow, ElbowPoint, predict
from vaescope.studies.bonheme import chapter8_claims as claims
from vaescope.studies.bonheme.search import (
    CELEBA,
    DIMENSION,
    DSPRITES,
    INFORMATION,
    METHODS,
    SPREAD,
    SYMSOL,
    TRACE,
    Asked,
    SearchedSet,
    SearchQuestion,
    asked,
    rate_of,
    settings_of,
    subjects,
)
from vaescope.studies.charts import Lines
from vaescope.studies.context import Measurement, StudyContext, Values
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study, cell_rows
from vaescope.sweeps import Sweep

SIZES = (3, 6, 8, 10, 12, 18, 24, 32, 42)
LARGE_SIZES = (*SIZES, 52, 62, 100, 150, 200)  # Celeba's
QUICK_SIZES = (1, 2, 3, 4, 8)
SEEDS = 2, 5
STEPS = 500, 300_000
ELBOW, SPI = "elbow", "SPI"
NO_ELBOW = "no size lies below the chord by more than the seeds spread"


@dataclass(frozen=True)
class Panel:
    """One kind of model of a figure, the data sets it is shown for, and the searches whose answers are drawn in."""

    figure: str
    model: str
    names: tuple[str, ...] = (SYMSOL, DSPRITES, CELEBA)
    quick_names: tuple[str, ...] = (DSPRITES,)
    objective: Objective = field(default_factory=lambda: Beta(1.0))
    autoencoder: bool = False
    connected: bool = False
    gaps: tuple[str, ...] = (TRACE, INFORMATION, SPREAD)


VAES = Panel("8.5", "VAE", quick_names=(SYMSOL, DSPRITES))
PANELS = (
    VAES,
    Panel("8.6", "AE", autoencoder=True),
    Panel("8.7", "beta-VAE, beta 4", (SYMSOL,), objective=Beta(4.0), gaps=(TRACE,)),
    Panel("8.7", "DIP-VAE II, lambda_od 0.5", (DSPRITES,), objective=DIPII(0.5), gaps=(TRACE,)),
    Panel("8.8", "fully connected VAE", connected=True),
)
BY_DIMENSION = (replace(VAES, figure="8.12", gaps=(TRACE, DIMENSION)),)
BETA_VAES = [(f"beta-VAE, beta {beta:g}", Beta(beta)) for beta in (0.5, 2.0, 4.0)]
DIP_VAES = [(f"DIP-VAE II, lambda_od {strength:g}", DIPII(strength)) for strength in (0.5, 2.0)]
QUICK_FIGURES = ("D.2c", "D.4a")
APPENDIX_D = tuple(
    Panel(
        figure + letter,
        model,
        (name,),
        (name,) if figure + letter in QUICK_FIGURES else (),
        objective=objective,
        gaps=(TRACE,),
    )
    for figure, name, models in (
        ("D.1", SYMSOL, BETA_VAES),
        ("D.2", DSPRITES, BETA_VAES),
        ("D.3", SYMSOL, DIP_VAES),
        ("D.4", DSPRITES, DIP_VAES),
    )
    for letter, (model, objective) in zip("abc", models, strict=False)
)


def sizes_of(context: StudyContext, subject: SearchedSet) -> tuple[int, ...]:
    """The numbers of latents that are trained."""
    return context.pick(QUICK_SIZES, LARGE_SIZES if subject.label == CELEBA else SIZES)


def sweep_of(context: StudyContext, subject: SearchedSet, panel: Panel) -> Sweep:
    """A model of each size and seed."""
    model = {"model": "autoencoder"} if panel.autoencoder else {}
    # Collapse is looked at when all is trained, and no surprise here: nobody need be warned of it on the way.
    training = {"steps": context.pick(*STEPS), "monitor_every": 0}
    return Sweep(
        subject.source,
        {**settings_of(context, panel.connected), **model, **training},
        {"learning_rate": rate_of(context)},
        OBJECTIVES.plain(panel.objective),
        {"latents": sizes_of(context, subject), "seed": context.seed_list(*SEEDS)},
    )


def losses_and_answers(panels: Sequence[Panel], context: StudyContext) -> Findings:
    """Reconstruction loss and accuracy of the models of each panel by their number of latents (figures 8.5 to 8.8)."""
    wanted = _loss_and_accuracy(context)
    requests: list[tuple[Panel, SearchedSet, Asked, Values]] = []
    for panel in panels:
        questions = [SearchQuestion(gap, panel.objective) for gap in panel.gaps]
        for subject in subjects(context, context.pick(panel.quick_names, panel.names)):
            # The answers of searches, averaged over seeds, are the vertical lines of the figures.
            search = asked(context, subject, questions, connected=panel.connected)
            losses = context.measured(context.runs(sweep_of(context, subject, panel)), wanted)
            requests.append((panel, subject, search, losses))
    cells: list[Cell] = []
    for panel, subject, search, losses in requests:
        answers = search.found()
        marks = {METHODS[question.gap]: found.values for question, found in answers.items()}
        check = _elbow(context, subject, losses, max(1, round(fmean(marks[METHODS[TRACE]]))))
        cells += _cells({"figure": panel.figure, "model": panel.model, "data": subject.label}, check, marks)
        context.note(f"figure {panel.figure}, {panel.model}, {subject.label}: {check.summary()}")
    return Findings(tuple(cells), tuple(_charts(cells)) if cells else ())


def _loss_and_accuracy(context: StudyContext) -> Measurement:
    return Measurement("loss-and-accuracy", _loss, {"items": context.pick(200, 10_000)})


def _loss(run: Run, data: Dataset, device: str, items: int) -> JsonTable:
    """The reconstruction loss on held-out items, and how well boosted trees predict factors and labels from means."""
    split = run.configuration.split
    learning, testing = data.split(split.held_out, split.seed)
    found = predict([run], learning.draw(items), testing.draw(items // 2), device=device, progress=False)
    return {
        "latents": run.configuration.member.latents,
        "loss": float(run.last("test")["reconstruction"]),
        "accuracy": found.accuracies[0] if found.accuracies else None,
        "targets": list(found.targets),
        "majority": found.majority,
    }


def _elbow(context: StudyContext, subject: SearchedSet, values: Values, chosen: int) -> Elbow:
    """The elbow check of the measured losses."""
    points = []
    for size in sizes_of(context, subject):
        own = [one for one in values if one["latents"] == size]
        accuracies = tuple(one["accuracy"] for one in own if one["accuracy"] is not None)
        points.append(ElbowPoint(size, tuple(one["loss"] for one in own), accuracies or None))
    first = values[0]
    return Elbow(chosen, tuple(points), tuple(first["targets"]), first["majority"], describe(subject.data))


def _cells(of: JsonTable, check: Elbow, marks: dict[str, list[float]]) -> list[Cell]:
    cells = [Cell.over({**of, "latents": name, "measure": "latents"}, values) for name, values in marks.items()]
    note = "" if check.elbow is not None else NO_ELBOW
    cells.append(Cell({**of, "latents": ELBOW, "measure": "latents"}, check.elbow, note=note))
    for point in check.points:
        cells.append(Cell.over({**of, "latents": point.latents, "measure": "loss"}, point.losses))
        if point.accuracies is not None:
            cells.append(Cell.over({**of, "latents": point.latents, "measure": "accuracy"}, point.accuracies))
    return cells


def _charts(cells: Sequence[Cell]) -> list[Lines]:
    sentence = "On held-out items; upright lines are the numbers of latents that searches find, seeds averaged."
    charts = []
    for measure, title in (("loss", "Reconstruction loss by latents"), ("accuracy", "Accuracy by latents")):
        rows = cell_rows((cell for cell in cells if cell.of["measure"] == measure), measure)
        # Data without labels have no accuracy, and no line in its chart.
        drawn = {(row["model"], row["data"]) for row in rows}
        marks: list[JsonTable] = [
            {**cell.of, "mark": cell.of["latents"], "latents": cell.value}
            for cell in cells
            if cell.of["latents"] in METHODS.values() and (cell.of["model"], cell.of["data"]) in drawn
        ]
        charts.append(Lines(title, sentence, rows, "latents", measure, "data", "model", y_title=measure, marks=marks))
    return charts


def structure(context: StudyContext) -> Findings:
    """The Structure Preservation Index of VAEs by their number of latents, and its elbow next to that of the loss."""
    wanted = Measurement("structure-preservation", _structure, {"items": context.pick(200, 5000)})
    requests: list[tuple[SearchedSet, Asked, Values, Values]] = []
    for subject in subjects(context, context.pick(VAES.quick_names, VAES.names)):
        search = asked(context, subject, [SearchQuestion(TRACE)])
        runs = context.runs(sweep_of(context, subject, VAES))
        losses, indices = context.measured(runs, _loss_and_accuracy(context)), context.measured(runs, wanted)
        requests.append((subject, search, losses, indices))
    cells: list[Cell] = []
    for subject, search, losses, indices in requests:
        of = {"data": subject.label}
        (answers,) = search.found().values()
        cells.append(Cell.over({**of, "latents": METHODS[TRACE], "measure": "latents"}, answers.values))
        for measure, values in (("loss", losses), (SPI, indices)):
            points = [
                ElbowPoint(size, tuple(one[measure] for one in values if one["latents"] == size))
                for size in sizes_of(context, subject)
            ]
            cells += [Cell.over({**of, "latents": one.latents, "measure": measure}, one.losses) for one in points]
            elbow = Elbow(None, tuple(points)).elbow
            named = {**of, "latents": f"elbow of the {measure}", "measure": "latents"}
            cells.append(Cell(named, elbow, note="" if elbow is not None else NO_ELBOW))
    return Findings(tuple(cells), tuple(_structure_charts(cells)) if cells else ())


def _structure(run: Run, data: Dataset, device: str, items: int) -> dict[str, float]:
    """How much the reconstruction changes the cosine similarities of held-out items (eq. D.1)."""
    split = run.configuration.split
    _, testing = data.split(split.held_out, split.seed)
    some = testing.draw(items)
    originals = some.batch(torch.arange(len(some))).flatten(1).to(device)
    reconstructions = reconstruct(run.model, some, device=device, progress=False).flatten(1)
    return {"latents": run.configuration.member.latents, SPI: structure_preservation(originals, reconstructions)}


def _structure_charts(cells: Sequence[Cell]) -> list[Lines]:
    marks: list[JsonTable] = [
        {"data": cell.of["data"], "mark": cell.of["latents"], "latents": cell.value}
        for cell in cells
        if cell.of["measure"] == "latents" and cell.value is not None
    ]
    shown = (
        (SPI, "Structure Preservation Index by latents", "How much reconstructing the items changes their cosines."),
        ("loss", "Reconstruction loss by latents", "Of the same models, on the same kind of items."),
    )
    charts = []
    for measure, title, sentence in shown:
        rows = cell_rows((cell for cell in cells if cell.of["measure"] == measure), measure)
        charts.append(Lines(title, sentence, rows, "latents", measure, panel="data", y_title=measure, marks=marks))
    return charts


ONLY_PICTURES = (
    "The figures are pictures, so no published number can be compared. Sizes, elbows, classifiers and precision are as "
    "for figures 8.5 to 8.8."
)

STUDIES = (
    Study(
        "bonheme-figure8.5-8.8",
        "Bonheme, Figures 8.5 to 8.8",
        "Does FONDUE find the elbow of the losses of VAEs, autoencoders, other objectives and fully connected nets?",
        "The figures are pictures, so no published number can be compared; the text says that 15 latents would do "
        "for Symsol. The sizes are those of section 8.4.1 (table D.1 has 42 for Celeba alone). The thesis finds "
        "elbows by eye; here it is the size furthest below the chord of the loss. The classifiers are "
        "histogram-based boosted trees, learned from 10,000 items and tested on 5,000, where the thesis names no "
        "numbers. On a GPU models train in bfloat16. FONDUE's numbers for the autoencoders are those of the VAEs, as "
        "in the thesis.",
        partial(losses_and_answers, PANELS),
        claims=claims.FIGURE_8_5,
    ),
    Study(
        "bonheme-figure8.12",
        "Bonheme, Figure 8.12",
        "Do FONDUE and FONDUE_IDE both end where the losses of VAEs flatten?",
        f"{ONLY_PICTURES} The models and FONDUE's answers are those of figure 8.5, the answers of FONDUE_IDE those of "
        "table 8.8.",
        partial(losses_and_answers, BY_DIMENSION),
        claims=claims.FIGURE_8_12,
    ),
    Study(
        "bonheme-figureD.1-D.4",
        "Bonheme, Figures D.1 to D.4",
        "Does FONDUE find the elbow of the losses of beta-VAEs and DIP-VAEs II of several strengths?",
        f"{ONLY_PICTURES} D.1c and D.4a are the panels of figure 8.7, and are made from the same models. Quick has "
        f"{' and '.join(QUICK_FIGURES)}.",
        partial(losses_and_answers, APPENDIX_D),
        claims=claims.FIGURE_D_1,
    ),
    Study(
        "bonheme-equationD.1",
        "Bonheme, appendix D.2, equation D.1",
        "Does the Structure Preservation Index flatten at the same number of latents as the reconstruction loss?",
        "The thesis defines the index and gives no value of it. Ours is over 5,000 held-out items, with the models of "
        "figure 8.5. As printed it is a sum over pairs divided by the number of items, so that it grows with them.",
        structure,
        claims=claims.EQUATION_D_1,
    ),
)
