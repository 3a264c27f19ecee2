"""Similarity by the number of items, and between the layers of VAEs (Bonheme, figures 7.1 to 7.10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vaescope.encoding import layer_similarity
from vaescope.runs import Run
from vaescope.runs.options import choose_device
from vaescope.runs.resolve import data_of
from vaescope.similarity import SimilarityMap, sample_size_study
from vaescope.similarity.pairs import CKA, PROCRUSTES
from vaescope.studies.bonheme_settings import (
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
    data_there,
    trained,
)
from vaescope.studies.charts import Lines, Matrix
from vaescope.studies.study import Cell, Findings, Scale, Study

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

    def runs(self, scale: Scale, one: Comparison) -> list[Run]:
        """Trained, the same five seeds for all, together with the other strengths that figures need."""
        settings = CONNECTED if one.net == FULLY else PAPER
        given = self._together(scale, one)
        return trained(scale, self.family, one.data, given, seeds=5, steps=self.steps, settings=settings)[self.strength]

    def _together(self, scale: Scale, one: Comparison) -> Sequence[float] | None:
        if scale.pick(self.steps is None, False):
            return None  # all that other studies need at quick scale
        like = [other for other in scale.pick(_quick(), _paper()) if (other.data, other.net) == (one.data, one.net)]
        models = [models for other in like for models in (other.rows, other.columns)]
        return sorted({other.strength for other in models if (other.family, other.steps) == (self.family, self.steps)})


@dataclass(frozen=True)
class Comparison:
    """One heatmap: rows and columns are the layers of two groups of models."""

    figure: str
    net: str
    data: str
    rows: Models
    columns: Models
    measure: str = CKA


def _paper() -> tuple[Comparison, ...]:
    """Figures 7.2 to 7.10; an epoch is one pass over all images in batches of 64, the last one all 300,000 steps."""
    early = {CARS: 25 * (17_568 // 64), DSPRITES: 2 * (737_280 // 64), NORB: 10 * (48_600 // 64)}
    one = {CARS: 17_568 // 64, NORB: 48_600 // 64}
    tc = Models(BETA_TC, 2, early[CARS]), Models(BETA_TC, 2)
    objectives = Models(BETA, 1), Models(DIP_II, 1)
    return (
        Comparison("7.2b", CONV, DSPRITES, Models(DIP_II, 5, early[DSPRITES]), Models(DIP_II, 5)),
        Comparison("7.3a", CONV, DSPRITES, Models(BETA, 1), Models(BETA, 8)),
        Comparison("7.3b", CONV, DSPRITES, Models(DIP_II, 1), Models(DIP_II, 20)),
        Comparison("7.4b", CONV, DSPRITES, *objectives),
        Comparison("7.9a", FULLY, DSPRITES, Models(BETA, 1), Models(BETA, 8)),
        Comparison("7.9b", FULLY, DSPRITES, Models(BETA, 1), Models(BETA, 16)),
        Comparison("7.10b", FULLY, DSPRITES, *objectives),
        Comparison("7.2a", CONV, CARS, *tc),
        Comparison("7.4a", CONV, CARS, *objectives),
        Comparison("7.5b", CONV, CARS, *tc, PROCRUSTES),
        Comparison("7.6b", CONV, CARS, *objectives, PROCRUSTES),
        Comparison("7.7a", CONV, CARS, Models(BETA, 1), Models(BETA, 1)),
        Comparison("7.7b", CONV, CARS, Models(BETA, 8), Models(BETA, 8)),
        Comparison("7.7c", CONV, CARS, Models(BETA, 1), Models(BETA, 1), PROCRUSTES),
        Comparison("7.7d", CONV, CARS, Models(BETA, 8), Models(BETA, 8), PROCRUSTES),
        Comparison("7.10a", FULLY, CARS, *objectives),
        Comparison("7.2c", CONV, NORB, Models(ANNEALED, 5, early[NORB]), Models(ANNEALED, 5)),
        Comparison("7.4c", CONV, NORB, *objectives),
        Comparison("7.8a", FULLY, NORB, Models(ANNEALED, 5, one[NORB]), Models(ANNEALED, 5)),
        Comparison("7.8b", FULLY, NORB, Models(ANNEALED, 5, early[NORB]), Models(ANNEALED, 5)),
        Comparison("7.10c", FULLY, NORB, *objectives),
    )


def _quick() -> tuple[Comparison, ...]:
    epochs = Models(DIP_II, 1, QUICK_STEPS // 8), Models(DIP_II, 1)
    strengths, objectives = (Models(BETA, 1), Models(BETA, 8)), (Models(BETA, 1), Models(DIP_II, 1))
    return (
        Comparison("7.8", FULLY, DIGITS, *epochs),
        Comparison("7.9", FULLY, DIGITS, *strengths),
        Comparison("7.10", FULLY, DIGITS, *objectives),
        Comparison("7.5", FULLY, DIGITS, *epochs, PROCRUSTES),
        Comparison("7.6", FULLY, DIGITS, *objectives, PROCRUSTES),
    )


def sample_sizes(scale: Scale) -> Findings:
    """Figure 7.1: CKA and Procrustes of matrices that share a part of their features, against the number of items."""
    random = np.random.default_rng(0)
    a = random.standard_normal((SIZES[-1], FEATURES))
    rows: list[dict[str, Any]] = []
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
        *("items", "mean", "measure", "pair", "deviation"),
        x_title="items",
        y_title="similarity",
        log_x=True,
    )
    return Findings(cells, (chart,))


def heatmaps(scale: Scale) -> Findings:
    """Figures 7.2 to 7.10: layers early and late in training, of two strengths, of two objectives, of two nets."""
    notes: list[str] = []
    wanted = scale.pick(_quick(), _paper())
    there = data_there(scale, dict.fromkeys(one.data for one in wanted), notes)
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for one in wanted:
        if one.data in there:
            found = compared(scale, one.rows.runs(scale, one), _columns(scale, one), one.measure)
            name = NAMES[one.measure]
            pair = f"{one.rows.title} against {one.columns.title}"
            of = {"figure": one.figure, "net": one.net, "data": TITLES[one.data], "models": pair, "measure": name}
            cells += layer_cells(of, found)
            charts.append(heatmap(f"Figure {one.figure}: {pair}, {one.net} nets on {TITLES[one.data]}", found))
    return Findings(tuple(cells), tuple(charts), tuple(notes))


def _columns(scale: Scale, one: Comparison) -> list[Run] | None:
    return None if one.columns == one.rows else one.columns.runs(scale, one)


def compared(scale: Scale, rows: list[Run], columns: list[Run] | None, measure: str) -> SimilarityMap:
    """Every layer against every layer, over all pairs of seeds (eq. 7.9)."""
    return layer_similarity(
        [run.model for run in rows],
        None if columns is None else [run.model for run in columns],
        data_of(rows[0], None),
        measure=measure,
        items=scale.pick(500, 5000),
        device=choose_device(scale.device),
    )


def layer_cells(of: dict[str, Any], found: SimilarityMap) -> list[Cell]:
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


def map_cell(of: dict[str, Any], value: float, found: SimilarityMap) -> Cell:
    """A number from a map, which is a mean over so many pairs of models."""
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
        "items, 5 draws but for the last, which is all items. The unbiased CKA is ours to add. Both scales are alike.",
        sample_sizes,
        exact=True,
    ),
    Study(
        "bonheme-figure7.2-7.10",
        f"{THESIS}, figures 7.2 to 7.10",
        "Which layers of VAEs are alike early and late in training, for strengths, objectives and architectures?",
        "Published are heatmaps and a caption. Our cells are means of what the text reads off them: the diagonal of "
        "the encoder, of the codes and of the decoder, and the similarity of samples with the encoder's layers. The "
        "last epoch stands for all 300,000 steps, and an epoch is a pass over all images. Figure 7.8c (epoch 410) is "
        "the end of training itself and left out; 7.5a and 7.6a are 7.2a and 7.4a. A model is not paired with itself. "
        f"Quick has fully connected nets alone. {QUICK_DATA}",
        heatmaps,
    ),
)
