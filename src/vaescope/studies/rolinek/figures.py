"""Figure 4 and supplement C of Rolinek et al.: orthogonality and disentanglement, and data with similar scales."""

from __future__ import annotations

import numpy as np

from vaescope.studies.charts import Lines
from vaescope.studies.context import StudyContext
from vaescope.studies.results import JsonTable
from vaescope.studies.rolinek.runs import DISENTANGLEMENT, DTO, FULL_SPRITES, LINEAR, PAPER, QUICK
from vaescope.studies.rolinek.tables import CHOSEN
from vaescope.studies.study import Cell, Findings, Study, cell_rows, measure_cells
from vaescope.sweeps import data_name

RATIOS = (1.0, 1.2, 1.5, 2.0)
RESTARTS = 8, 10


def figure4(context: StudyContext) -> Findings:
    """Figure 4: DtO against the disentanglement score, a point for each restart of the beta-VAE after each length."""
    one = context.pick(QUICK[LINEAR], PAPER[FULL_SPRITES])
    length, lengths = context.pick(("steps", [75, 150, 300, 600]), ("epochs", [10, 30, 50]))
    seeds = context.seed_list(*RESTARTS)
    runs = {}
    for taken in lengths:
        trained = f"{context.cut({length: taken}, data_name(one.source))[length]:g} {length}"
        runs[trained] = context.runs(one.sweep({"seed": seeds}, **{length: taken}))
    points: list[JsonTable] = []
    cells: list[Cell] = []
    for trained, values in context.measured_by(runs, one.scores(context)).items():
        points += [{**score, "length": trained} for score in values]
        cells += measure_cells({"data": one.label, "trained": trained}, values)
    table = np.array([[point[DTO], point[DISENTANGLEMENT]] for point in points])
    correlation = float(np.corrcoef(table.T)[0, 1])
    of = {"data": one.label, "trained": "all", "measure": "correlation"}
    cells.append(Cell(of, correlation, None, len(points)) if np.isfinite(correlation) else Cell.over(of, [np.nan]))
    title = f"Orthogonality and disentanglement on {one.label}"
    sentence = "Source: the nearer a decoder is to orthogonal, the better disentangled are the latents."
    y_title = "disentanglement score"
    chart = Lines(
        title, sentence, points, DTO, DISENTANGLEMENT, "length", sd=None, kind="points", x_title=DTO, y_title=y_title
    )
    if context.is_quick:
        context.note(f"At quick scale the restarts are of {LINEAR}, not of dSprites.")
    return Findings(tuple(cells), (chart,))


def scales(context: StudyContext) -> Findings:
    """Supplement C: the linear set with its sides in the ratios 1, 1.2, 1.5 and 2; equal sides prefer no direction."""
    one = context.pick(QUICK, PAPER)[LINEAR]
    given = one.source if isinstance(one.source, dict) else {"name": one.source}
    seeds = context.seed_list(*RESTARTS)
    runs = {ratio: context.runs(one.sweep({"seed": seeds}, {**given, "ratio": ratio})) for ratio in RATIOS}
    asked = context.measured_by(runs, one.scores(context))
    cells = [cell for ratio, values in asked.items() for cell in measure_cells({"ratio": ratio}, values)]
    title = "The two sides of the data in other ratios"
    sentence = (
        "Source: directions are aligned where singular values differ. Ours: where two are equal, the decoder may "
        "rotate."
    )
    rows, x_title, y_title = cell_rows(cells), "longer side / shorter side", "DtO and disentanglement score"
    chart = Lines(title, sentence, rows, "ratio", "value", by="measure", x_title=x_title, y_title=y_title)
    return Findings(tuple(cells), (chart,))


STUDIES = (
    Study(
        "rolinek-figure4",
        "Rolinek et al., Figure 4",
        "Is a decoder that is nearer to orthogonal also better disentangled, over restarts of one beta-VAE?",
        f"{CHOSEN} The figure's points are not printed and the correlation is not given. We train each length on its "
        "own, as the caption says.",
        figure4,
    ),
    Study(
        "rolinek-scales",
        "Rolinek et al., supplement C",
        "What happens when the principal directions of the data have similar variances?",
        f"{CHOSEN} The numbers of supplement C are known second-hand; the ratio 2 is the set of Table 2.",
        scales,
    ),
)
