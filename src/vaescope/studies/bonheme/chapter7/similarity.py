"""Similarity by the number of items, and between the layers of VAEs (Bonheme, figures 7.1 to 7.10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vaescope.data import Dataset
from vaescope.encoding import layer_similarity
from vaescope.runs import Run
from vaescope.similarity import CKA, PROCRUSTES, SimilarityMap, sample_size_study
from vaescope.studies.bonheme.settings import (
    ANNEALED,
    BETA,
    BETA_TC,
    CARS,
    CONNECTED,
    DIGITS,
    DIP_II,
    DSPRITES,
    NORB,
    PAPER,
    QUICK_DATA,
    QUICK_STEPS,
    THESIS,
    TITLES,
    Family,
    asked_runs,
    data_there,
)
from vaescope.studies.charts import Lines, Matrix
from vaescope.studies.context import Comparison, StudyContext, StudyRun, Values
from vaescope.studies.measurements import map_of, plain_map
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

FEATURES, REPEATS = 50, 5
SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
SHARED = {"A and B": 0.8, "A and C": 0.5, "A and D": 0.0}
NAMES = {"cka": "CKA", "unbiased_cka": "unbiased CKA", "procrustes": "Procrustes"}
CONV, FULLY = "convolutional", "fully connected"


@dataclass(frozen=True)
class Models:
    """Models that differ in their seed: an objective, its strength, and steps of training (None for all)."""

    family: Family
    strength: float
    steps: int | None = None

    @property
    def title(self) -> str:
        """For titles and cells."""
        when = "" if self.steps is None else f" at step {self.steps}"
        return f"{self.family.title} {self.strength:g}{when}"

    def runs(self, context: StudyContext, one: Heatmap) -> list[StudyRun]:
        """The same five seeds for all, together with the other strengths that figures need."""
        settings = CONNECTED if one.net == FULLY else PAPER
        given = self._together(context, one)
        runs = asked_runs(context, self.family, one.data, given, seeds=5, steps=self.steps, settings=settings)
        return runs[self.strength]

    def _together(self, context: StudyContext, one: Heatmap) -> Sequence[float] | None:
        if context.is_quick and self.steps is None:
            return None  # all that other studies need at quick scale
        like = [other for other in context.pick(_quick(), _paper()) if (other.data, other.net) == (one.data, one.net)]
        models = [models for other in like for models in (other.rows, other.columns)]
        return sorted({other.strength for other in models if (other.family, other.steps) == (self.family, self.steps)})


@dataclass(frozen=True)
class Heatmap:
    """One heatmap: rows and columns are the layers of two groups of models."""

    figure: str
    net: str
    data: str
    rows: Models
    columns: Models
    measure: str = CKA


def _paper() -> tuple[Heatmap, ...]:
    """Figures 7.2 to 7.10; an epoch is one pass over all images in batches of 64, the last one all 300,000 steps."""
    early = {CARS: 25 * (17_568 // 64), DSPRITES: 2 * (737_280 // 64), NORB: 10 * (48_600 // 64)}
    one = {CARS: 17_568 // 64, NORB: 48_600 // 64}
    tc = Models(BETA_TC, 2, early[CARS]), Models(BETA_TC, 2)
    objectives = Models(BETA, 1), Models(DIP_II, 1)
    return (
        Heatmap("7.2b", CONV, DSPRITES, Models(DIP_II, 5, early[DSPRITES]), Models(DIP_II, 5)),
        Heatmap("7.3a", CONV, DSPRITES, Models(BETA, 1), Models(BETA, 8)),
        Heatmap("7.3b", CONV, DSPRITES, Models(DIP_II, 1), Models(DIP_II, 20)),
        Heatmap("7.4b", CONV, DSPRITES, *objectives),
        Heatmap("7.9a", FULLY, DSPRITES, Models(BETA, 1), Models(BETA, 8)),
        Heatmap("7.9b", FULLY, DSPRITES, Models(BETA, 1), Models(BETA, 16)),
        Heatmap("7.10b", FULLY, DSPRITES, *objectives),
        Heatmap("7.2a", CONV, CARS, *tc),
        Heatmap("7.4a", CONV, CARS, *objectives),
        Heatmap("7.5b", CONV, CARS, *tc, PROCRUSTES),
        Heatmap("7.6b", CONV, CARS, *objectives, PROCRUSTES),
        Heatmap("7.7a", CONV, CARS, Models(BETA, 1), Models(BETA, 1)),
        Heatmap("7.7b", CONV, CARS, Models(BETA, 8), Models(BETA, 8)),
        Heatmap("7.7c", CONV, CARS, Models(BETA, 1), Models(BETA, 1), PROCRUSTES),
        Heatmap("7.7d", CONV, CARS, Models(BETA, 8), Models(BETA, 8), PROCRUSTES),
        Heatmap("7.10a", FULLY, CARS, *objectives),
        Heatmap("7.2c", CONV, NORB, Models(ANNEALED, 5, early[NORB]), Models(ANNEALED, 5)),
        Heatmap("7.4c", CONV, NORB, *objectives),
        Heatmap("7.8a", FULLY, NORB, Models(ANNEALED, 5, one[NORB]), Models(ANNEALED, 5)),
        Heatmap("7.8b", FULLY, NORB, Models(ANNEALED, 5, early[NORB]), Models(ANNEALED, 5)),
        Heatmap("7.10c", FULLY, NORB, *objectives),
    )


def _quick() -> tuple[Heatmap, ...]:
    epochs = Models(DIP_II, 1, QUICK_STEPS // 8), Models(DIP_II, 1)
    strengths, objectives = (Models(BETA, 1), Models(BETA, 8)), (Models(BETA, 1), Models(DIP_II, 1))
    return (
        Heatmap("7.8", FULLY, DIGITS, *epochs),
        Heatmap("7.9", FULLY, DIGITS, *strengths),
        Heatmap("7.10", FULLY, DIGITS, *objectives),
        Heatmap("7.5", FULLY, DIGITS, *epochs, PROCRUSTES),
        Heatmap("7.6", FULLY, DIGITS, *objectives, PROCRUSTES),
    )


def sample_sizes(context: StudyContext) -> Findings:
    """Figure 7.1: CKA and Procrustes of matrices that share a part of their features, against the number of items."""
    random = np.random.default_rng(0)
    a = random.standard_normal((SIZES[-1], FEATURES))
    rows: list[JsonTable] = []
    for pair, share in SHARED.items():
        common = round(share * FEATURES)
        fresh = random.standard_normal((SIZES[-1], FEATURES - common))
        found = sample_size_study(a, np.concatenate([a[:, :common], fresh], axis=1), sizes=SIZES, repeats=REPEATS)
        rows += [
            {**row, "pair": f"{pair}, {share:.0%} shared", "measure": NAMES[row["measure"]]} for row in found.rows()
        ]
    cells = tuple(
        Cell(
            {"pair": row["pair"], "items": row["items"], "measure": row["measure"]},
            row["mean"],
            row["deviation"] if row["items"] < SIZES[-1] else None,  # all items are one draw
            REPEATS if row["items"] < SIZES[-1] else 1,
        )
        for row in rows
    )
    chart = Lines(
        "Figure 7.1: similarity against the number of items",
        "Source: both agree where 80 or 50% of the features are common; where none is, Procrustes is far too high.",
        rows,
        x="items",
        y="mean",
        by="measure",
        panel="pair",
        sd="deviation",
        x_title="items",
        y_title="similarity",
        log_x=True,
    )
    return Findings(cells, (chart,))


def heatmaps(context: StudyContext) -> Findings:
    """Figures 7.2 to 7.10: layers early and late in training, of two strengths, of two objectives, of two nets."""
    wanted = context.pick(_quick(), _paper())
    there = data_there(context, dict.fromkeys(one.data for one in wanted))
    asked = [(one, _asked(context, one)) for one in wanted if one.data in there]
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for one, values in asked:
        found = map_of(values[0])
        name = NAMES[one.measure]
        pair = f"{one.rows.title} against {one.columns.title}"
        of = {"figure": one.figure, "net": one.net, "data": TITLES[one.data], "models": pair, "measure": name}
        cells += layer_cells(of, found)
        charts.append(heatmap(f"Figure {one.figure}: {pair}, {one.net} nets on {TITLES[one.data]}", found))
    return Findings(tuple(cells), tuple(charts))


def _asked(context: StudyContext, one: Heatmap) -> Values:
    groups = [one.rows.runs(context, one)]
    if one.columns != one.rows:
        groups.append(one.columns.runs(context, one))
    options = {"measure": one.measure, "items": context.pick(500, 5000)}
    return context.compared(groups, Comparison("layer-similarity", _layers, options))


def _layers(groups: list[list[Run]], data: Dataset, device: str, measure: str, items: int) -> JsonTable:
    """Every layer against every layer, over all pairs of seeds (eq. 7.9)."""
    sides = [[run.model for run in group] for group in groups]
    columns = sides[1] if len(sides) > 1 else None
    return plain_map(layer_similarity(sides[0], columns, data, measure=measure, items=items, device=device))


def layer_cells(of: JsonTable, found: SimilarityMap) -> list[Cell]:
    """What the text reads off a heatmap: the diagonal by parts of the net, and how the samples relate to the layers."""
    at = {name: place for place, name in enumerate(found.rows)}
    parts = {
        "encoder": [(place, place) for name, place in at.items() if name.startswith("encoder")],
        "mean": [(at["mean"], at["mean"])],
        "variance": [(at["variance"], at["variance"])],
        "sampled": [(at["sampled"], at["sampled"])],
        "decoder": [(place, place) for name, place in at.items() if name.startswith("decoder")],
        "rows' samples with encoder": [(at["sampled"], place) for name, place in at.items() if "encoder" in name],
        "columns' samples with encoder": [(place, at["sampled"]) for name, place in at.items() if "encoder" in name],
    }
    cells = []
    for part, places in parts.items():
        values = [found.matrix[place] for place in places]
        cells.append(map_cell({**of, "layers": part}, float(np.mean(values)), found))
    return cells


def map_cell(of: JsonTable, value: float, found: SimilarityMap) -> Cell:
    """A number from a map, with the number of pairs of models that it is a mean over."""
    return replace(Cell.over(of, [value]), count=int(found.pairs.max()))


def heatmap(title: str, found: SimilarityMap) -> Matrix:
    """The chart of a map."""
    sentence = f"{NAMES[found.measure]} of every two layers, averaged over pairs of seeds."
    return Matrix(title, sentence, found.matrix, found.rows, found.columns, NAMES[found.measure])


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-figure7.1",
        f"{THESIS}, figure 7.1",
        "How many items do CKA and Procrustes need to tell how much two representations share?",
        "Published are lines, and the text says that both come close to the shared fraction. The distribution of the "
        "features, the numbers of items and the repetitions are not said: ours are standard normal, 50 to 10,000 "
        "items, 5 draws but for the last, which is all items. We add the unbiased CKA. Both scales are the same.",
        sample_sizes,
        exact=True,
    ),
    Study(
        "bonheme-figure7.2-7.10",
        f"{THESIS}, figures 7.2 to 7.10",
        "Which layers of VAEs are similar early and late in training, for strengths, objectives and architectures?",
        "Published are heatmaps and a caption. Our cells are means of what the text reads off them: the diagonal of "
        "the encoder, of the codes and of the decoder, and the similarity of samples with the encoder's layers. The "
        "last epoch stands for all 300,000 steps, and an epoch is a pass over all images. Figure 7.8c (epoch 410) is "
        "the end of training itself and left out; 7.5a and 7.6a are 7.2a and 7.4a. A model is not paired with itself. "
        f"Quick has fully connected nets alone. {QUICK_DATA}",
        heatmaps,
    ),
)
