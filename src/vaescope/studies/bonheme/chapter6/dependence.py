"""Dependence of latents in mean and sampled codes (Bonheme, figures 6.6 to 6.8), and the annealed VAE (appendix B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vaescope.data import Dataset
from vaescope.regime import ACTIVE, FULL, MIXED, PASSIVE, REPRESENTATIONS, MeanAndSampled, mean_and_sampled
from vaescope.runs import Run
from vaescope.studies.bonheme.chapter6.types import asked_counts, count_cells, count_charts
from vaescope.studies.bonheme.settings import (
    ANNEALED,
    BETA_TC,
    CARS,
    COLOUR,
    DIP_II,
    DSPRITES,
    NOISY,
    NORB,
    QUICK_DATA,
    SCREAM,
    THESIS,
    TITLES,
    Family,
    asked_runs,
    codes_of,
    data_there,
    over,
    rows_of,
    types_of,
)
from vaescope.studies.charts import Lines
from vaescope.studies.context import Measurement, StudyContext, Values
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

# What is left of the codes -> the types that are kept; None keeps all.
KEPT: dict[str, tuple[str, ...] | None] = {
    "all": None,
    "without passive": (ACTIVE, MIXED),
    "active": (ACTIVE,),
}
MEASURES = {
    "total correlation": "total_correlation",
    "mutual information": "averaged_mutual_information",
    "effective rank": "effective_rank",
}
PASSIVES = "passive latents"
# Data of the thesis' figures, and what was trained on them: 6.7 and more, 6.6c, 6.8, 6.6a, 6.6b.
PANELS = (
    (DSPRITES, (DIP_II, BETA_TC)),
    (COLOUR, (BETA_TC,)),
    (NOISY, (BETA_TC,)),
    (NORB, (BETA_TC,)),
    (CARS, (DIP_II,)),
)


def dependence(context: StudyContext) -> Findings:
    """Figures 6.6 to 6.8: TC, MI and effective rank of all latents, without passive ones, and of active ones."""
    there = data_there(context, [name for name, _ in PANELS])
    panels: list[tuple[str, tuple[Family, ...]]] = [one for one in PANELS if one[0] in there]
    if context.is_quick:
        panels = [(name, (DIP_II, BETA_TC)) for name in there]
    asked = [(family, name, _asked(context, family, name)) for name, families in panels for family in families]
    cells = [cell for family, name, found in asked for cell in _cells(family, name, found)]
    return Findings(tuple(cells), tuple(_charts("Figures 6.6 to 6.8", cells)))


def annealed(context: StudyContext) -> Findings:
    """Figures B.1 to B.5: the annealed VAE has passive latents whatever its capacity, and they are correlated."""
    asked = {
        name: (asked_counts(context, ANNEALED, name), _asked(context, ANNEALED, name))
        for name in data_there(context, (DSPRITES, SCREAM, CARS))
    }
    cells = [cell for name, (_, found) in asked.items() for cell in _cells(ANNEALED, name, found)]
    numbers = [cell for name, (found, _) in asked.items() for cell in count_cells(ANNEALED, name, found)]
    charts = (*count_charts("Figure B.1", numbers), *_charts("Figures B.2 to B.5", cells))
    kinds = [
        Cell({**_of(cell.of), "measure": f"{cell.of['type']} latents"}, cell.value, cell.sd, cell.count)
        for cell in numbers
        if cell.of["type"] != PASSIVE
    ]
    return Findings((*cells, *kinds), charts)


def kept(found: MeanAndSampled, representation: str, types: tuple[str, ...] | None, measure: str) -> float | None:
    """A measure of the latents of some types; None where there are fewer than two of them."""
    present = FULL if types is None else "+".join(kind for kind in types if kind in found.types)
    return getattr(found.entry(representation, present), measure) if present else None


def _of(of: Mapping[str, object]) -> JsonTable:
    """Columns of a number that is of the latents, not of one representation of them."""
    named = {name: of[name] for name in ("data", "objective", "strength")}
    return {**named, "representation": "both", "latents": "all"}


def _asked(context: StudyContext, family: Family, data: str) -> dict[float, Values]:
    runs = asked_runs(context, family, data)
    return {strength: context.measured(own, DEPENDENCE) for strength, own in runs.items()}


def _cells(family: Family, data: str, found: Mapping[float, Values]) -> list[Cell]:
    cells: list[Cell] = []
    for strength, values in found.items():
        of = {"data": TITLES[data], "objective": family.title, "strength": strength}
        cells.append(over({**_of(of), "measure": PASSIVES}, [one["passive"] for one in values], ""))
        for representation in REPRESENTATIONS:
            for latents, types in KEPT.items():
                for title in MEASURES:
                    if title == "effective rank" and types is not None:
                        continue  # relative to the latents it is of: the thesis compares it for all of them alone
                    where = {**of, "representation": representation, "latents": latents, "measure": title}
                    own = [one[representation][latents][title] for one in values]
                    cells.append(over(where, own, "fewer than two such latents"))
    return cells


def _dependence(run: Run, data: Dataset, device: str) -> JsonTable:
    """The number of passive latents, and the measures by representation and by what is kept of the latents."""
    codes = codes_of(run, data, device)
    found = mean_and_sampled(codes, types_of(codes))
    measures: JsonTable = {
        representation: {
            latents: {title: kept(found, representation, types, measure) for title, measure in MEASURES.items()}
            for latents, types in KEPT.items()
        }
        for representation in REPRESENTATIONS
    }
    return {"passive": found.types.count(PASSIVE), **measures}


DEPENDENCE = Measurement("dependence", _dependence)


def _charts(figure: str, cells: Sequence[Cell]) -> list[Lines]:
    rows = rows_of(cells)
    charts = []
    for data, objective in dict.fromkeys((row["data"], row["objective"]) for row in rows):
        own = [row for row in rows if (row["data"], row["objective"]) == (data, objective)]
        for title in MEASURES:
            charts.append(
                Lines(
                    f"{figure}: {title}, {objective} on {data}",
                    f"The {title} of the mean and the sampled codes: all latents, without passive ones, active ones.",
                    [row for row in own if row["measure"] == title],
                    x="strength",
                    y="value",
                    by="representation",
                    panel="latents",
                    x_title="strength",
                    y_title=title,
                )
            )
        charts.append(
            Lines(
                f"{figure}: passive latents, {objective} on {data}",
                "How many latents are passive, on average over seeds.",
                [{**row, "strength": f"{row['strength']:g}"} for row in own if row["measure"] == PASSIVES],
                x="strength",
                y="value",
                kind="bars",
                x_title="strength",
                y_title="passive latents",
            )
        )
    return charts


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-figure6.6-6.8",
        f"{THESIS}, figures 6.6 to 6.8",
        "Are mean codes more dependent than sampled ones because of their passive latents?",
        "Published are lines alone. dSprites has both objectives and all measures here, the other data what the "
        "thesis shows of them (6.6a beta-TC on SmallNORB, 6.6b DIP-VAE II on Cars3D, 6.6c beta-TC on colour dSprites, "
        "6.7 DIP-VAE II on dSprites, 6.8 beta-TC on noisy dSprites). The effective rank is that of the centred codes; "
        "the text defines it of any matrix, and the thesis' code took it of their covariance. Seeds in which fewer "
        f"than two latents are left are not in the mean. {QUICK_DATA}",
        dependence,
    ),
    Study(
        "bonheme-appendixB",
        f"{THESIS}, appendix B.1, figures B.1 to B.5",
        "Why does the annealed VAE have passive latents whatever its capacity?",
        "Published are bars and lines, and for Cars3D two numbers in the text. Scream dSprites need a picture to cut "
        "patches from, which a study cannot be given. At quick scale the capacity is reached after a third of the "
        f"steps, as in the thesis. {QUICK_DATA}",
        annealed,
    ),
)
