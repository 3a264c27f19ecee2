"""Models during training: similarity to the trained model, and losses (Bonheme, appendices C.4 and C.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from vaescope.data import Dataset
from vaescope.regime import settled_after
from vaescope.runs import Run
from vaescope.studies.bonheme import chapter7_claims as claims
from vaescope.studies.bonheme import settings as thesis
from vaescope.studies.bonheme.settings import ANNEALED, BETA, BETA_TC, DIP_II, QUICK_DATA, QUICK_STEPS, THESIS, TITLES
from vaescope.studies.bonheme.similarity import (
    CARS,
    CODES,
    CONV,
    DSPRITES,
    EPOCH,
    FULLY,
    NAMES,
    NORB,
    Heatmap,
    Models,
    heatmap,
    layer_cells,
    maps_of,
)
from vaescope.studies.charts import Lines, Matrix
from vaescope.studies.context import Measurement, StudyContext, Values
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study, cell_rows

Strengths: TypeAlias = tuple[tuple[thesis.Family, tuple[float, float]], ...]
LAST = "last"
PARTS = ("encoder", *CODES, "decoder")
POINTS = 10, 150  # of a curve of losses
# Objectives with the least and the most regularised strength of table C.2.
EXTREMES: Strengths = ((BETA, (1, 8)), (BETA_TC, (1, 8)), (DIP_II, (1, 20)), (ANNEALED, (75, 5)))
QUICK_EXTREMES: Strengths = ((BETA, (1, 8)), (ANNEALED, (25, 5)))
FALLS = {"epochs to half of the fall": 0.5, "epochs to 90% of the fall": 0.1}


@dataclass(frozen=True)
class EpochFigure:
    """A figure with a heatmap for each of some epochs, against the end of training, which is the last of them."""

    figure: str
    data: str
    net: str
    family: thesis.Family
    strength: float
    epoch: int
    epochs: tuple[float, ...]

    def heatmaps(self) -> list[Heatmap]:
        """One for each epoch: models at this epoch in rows, trained models in columns."""
        trained = Models(self.family, self.strength)
        early = [Models(self.family, self.strength, round(epoch * self.epoch)) for epoch in self.epochs]
        return [
            Heatmap(f"{self.figure}{letter}", self.net, self.data, one, trained)
            for letter, one in zip("abcdefgh", [*early, trained], strict=False)
        ]


# The strengths are those of figure 7.2, whose early epochs are the first ones here.
PAPER = (
    EpochFigure("C.2", DSPRITES, CONV, DIP_II, 5, EPOCH[DSPRITES], (2, 7, 14, 19)),
    EpochFigure("C.3", CARS, CONV, BETA_TC, 2, EPOCH[CARS], (25, 292, 559, 826)),
    EpochFigure("C.4", NORB, CONV, ANNEALED, 5, EPOCH[NORB], (10, 110, 210, 311)),
)
# 28 batches are a pass over the digits; the first heatmap is that of figure 7.8 at quick scale.
QUICK = (EpochFigure("C.2", thesis.DIGITS, FULLY, DIP_II, 1, 28, (QUICK_STEPS / 8 / 28, QUICK_STEPS / 2 / 28)),)


def snapshots(context: StudyContext) -> Findings:
    """Figures C.2 to C.4: layers of models at several epochs against those of trained models."""
    figures = {one.figure: one for one in context.pick(QUICK, PAPER)}
    wanted = [one for figure in figures.values() for one in figure.heatmaps()]
    cells: list[Cell] = []
    rows: list[JsonTable] = []
    charts: list[Matrix] = []
    for one, found in maps_of(context, wanted):
        figure, trained = figures[one.figure[:-1]], one.rows.steps is None
        whole = one.rows.steps or context.pick(QUICK_STEPS, thesis.PAPER_STEPS)
        passes = context.cut({"steps": whole}, one.data)["steps"] / figure.epoch
        models, epoch = f"{figure.family.title} {figure.strength:g}", LAST if trained else round(passes, 2)
        of = {"figure": one.figure, "data": TITLES[one.data], "models": models, "epoch": epoch}
        own = layer_cells({**of, "measure": NAMES[one.measure]}, found)
        panel = f"{figure.figure}: {models}, {TITLES[one.data]}"
        rows += [{**row, "panel": panel, "epochs": passes} for row in cell_rows(own) if row["layers"] in PARTS]
        cells += own
        early = "two seeds after training" if trained else f"at epoch {epoch} and after training"
        charts.append(heatmap(f"Figure {one.figure}: {models} on {TITLES[one.data]}, {early}", found))
    return Findings(tuple(cells), (_by_epoch(rows), *charts) if charts else ())


def _by_epoch(rows: Sequence[JsonTable]) -> Lines:
    """The diagonals of the heatmaps by epoch."""
    title = "Figures C.2 to C.4: similarity of the same layer during training and after it"
    sentence = (
        "Mean CKA over the layers of a part and over pairs of seeds. Source: the encoder is learned first, then the "
        "decoder, and small refinements follow."
    )
    return Lines(title, sentence, rows, "epochs", "value", "layers", "panel", None, y_title="CKA")


def convergence(context: StudyContext) -> Findings:
    """Figure C.5: the loss during training of the least and the most regularised model of each objective."""
    wanted = Measurement("losses", _losses, {"points": context.pick(*POINTS)})
    asked: dict[tuple[str, str, float], Values] = {}
    for name in thesis.data_there(context, (CARS, DSPRITES, NORB)):
        for family, strengths in context.pick(QUICK_EXTREMES, EXTREMES):
            runs = thesis.asked_runs(context, family, name, sorted(strengths), seeds=5, quick_rows=POINTS[0])
            for strength in strengths:
                asked[TITLES[name], family.title, strength] = context.measured(runs[strength], wanted)
    cells: list[Cell] = []
    rows: list[JsonTable] = []
    for (data, objective, strength), values in asked.items():
        found, diverged = values.finished, values.diverged
        of = {"data": data, "objective": objective, "strength": strength}
        cells.append(Cell.over({**of, "measure": "last loss"}, [one["losses"][-1] for one in found], diverged))
        for measure, within in FALLS.items():
            epochs = [settled_after(one["losses"], one["steps"], within) / one["epoch"] for one in found]
            cells.append(Cell.over({**of, "measure": measure}, epochs, diverged))
        rows += _curve({"data": data, "model": f"{objective} {strength:g}"}, found)
    title = "Figure C.5: the loss during training"
    sentence = (
        "Source: all models converge at the same epoch, less regularised ones to a lower loss; annealed VAEs take "
        "longer to settle."
    )
    log_y = not context.is_quick  # the likelihood of quick runs is a density, and their loss may be negative
    chart = Lines(title, sentence, rows, "epochs", "loss", "model", "data", log_x=True, log_y=log_y)
    return Findings(tuple(cells), (chart,) if rows else ())


def _losses(run: Run, data: Dataset, device: str, points: int) -> JsonTable:
    """The loss during training as at most `points` means over as many steps; an epoch is a pass over all items."""
    rows = [row for row in run.history if row["split"] == "train"]
    size = -(-len(rows) // points)
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    losses = [fmean(float(row["loss"]) for row in part) for part in parts]
    steps = [int(part[-1]["step"]) for part in parts]
    return {"epoch": len(data) // run.configuration.plan.batch, "steps": steps, "losses": losses}


def _curve(of: JsonTable, found: Sequence[JsonTable]) -> list[JsonTable]:
    """The mean loss over seeds at each moment."""
    if not found:
        return []
    moments = [step / found[0]["epoch"] for step in found[0]["steps"]]
    losses = zip(*(one["losses"] for one in found), strict=True)
    cells = [Cell.over({**of, "epochs": epochs}, own) for epochs, own in zip(moments, losses, strict=True)]
    return cell_rows(cells, "loss")


STUDIES = (
    Study(
        "bonheme-figureC.2-C.4",
        f"{THESIS}, figures C.2 to C.4",
        "Is the encoder learned before the decoder, whichever epochs are compared?",
        "Published are heatmaps; the text gives no number. The strengths are not said: ours are those of figure 7.2, "
        "whose models these are. Models at an epoch are trained to there anew from the same seeds. An epoch is a pass "
        "over all images, and the last one (26, 1090 and 410 in the captions) is the end of training, where models "
        "are compared with other seeds alone. Quick has figure C.2 with fully connected nets.",
        snapshots,
        claims=claims.FIGURE_C_2,
        shared=(QUICK_DATA,),
    ),
    Study(
        "bonheme-figureC.5",
        f"{THESIS}, figure C.5",
        "Do the losses of all objectives and strengths settle at the same epoch?",
        "Published are curves; the text gives no number, and no rule for when a loss converges. Ours are the epochs "
        "after which it stays within 50% and 10% of its whole fall from its last value. The loss is that of training, "
        "averaged over stretches of 2,000 steps; the strengths are the ends of table C.2. Models that diverged are "
        "left out, as in the thesis. Quick has beta-VAE and annealed VAE.",
        convergence,
        claims=claims.FIGURE_C_5,
        shared=(QUICK_DATA,),
    ),
)
