"""Codes of VAE and VGON: histograms of typical latents and similarity (Clapham and Grzes, figures 6 to 14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.regime import collapse
from vaescope.runs import Run
from vaescope.similarity import SimilarityMap, group_similarity
from vaescope.studies.charts import Chart, Histograms, Matrix
from vaescope.studies.clapham.runs import ITEMS as ENCODED
from vaescope.studies.clapham.runs import LEFT_OPEN, PAPER, TITLES, asked_runs, encoded
from vaescope.studies.context import Comparison, Measurement, StudyContext, Values
from vaescope.studies.measurements import histogram, map_of, plain_map
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

MIXED = "Figures 8 and 9"
FIGURES = {"active": "Figure 6", "passive": "Figure 7", "mixed, type 1": MIXED, "mixed, type 2": MIXED}
MEASURES = ("beta", "mean of means", "sd of means", "mean of variances", "sd of variances")
LAYERS = ("mean", "variance")
SIDES = (("vae", "vgon"), ("vae", "vae"), ("vgon", "vgon"))
ITEMS = 5000


@dataclass(frozen=True)
class Latent:
    """One latent of a model: its beta, its type, its rate, moments of its codes over items and their histograms."""

    beta: float
    kind: str
    rate: float
    moments: Mapping[str, float]
    histograms: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, kind: str, rate: float, mean: Tensor, variance: Tensor) -> Latent:
        """From the mean and the variance of every item."""
        numbers = (part for values in (mean, variance) for part in (values.mean(), values.std()))
        moments = dict(zip(MEASURES[1:], map(float, numbers), strict=True))
        return cls(0.0, kind, rate, moments, {"means": histogram(mean), "variances": histogram(variance)})

    @property
    def variance_spread(self) -> float:
        """The standard deviation of the variance over items."""
        return self.moments["sd of variances"]

    @property
    def measures(self) -> dict[str, float]:
        """The numbers of its histograms, by name."""
        return {MEASURES[0]: self.beta, **self.moments}


def _histograms(context: StudyContext) -> Findings:
    """Figures 6 to 9: means and variances over items of a typical latent of each type."""
    wanted = Measurement("typical-latents", _typical, {"items": context.pick(*ENCODED)})
    asked = [
        (task, model, {beta: context.measured(own, wanted) for beta, own in by_beta.items()})
        for task, runs in asked_runs(context)
        for model, by_beta in runs.items()
    ]
    cells: list[Cell] = []
    charts: list[Chart] = []
    for title in dict.fromkeys(task.title for task, _, _ in asked):
        found = {model: _by_seed(by_beta) for task, model, by_beta in asked if task.title == title}
        for kind, figure in FIGURES.items():
            groups: JsonTable = {}
            for model, seeds in found.items():
                own = [seed[kind] for seed in seeds if kind in seed]
                of = {"data": title, "model": TITLES[model], "latent": kind}
                cells += _cells(of, own)
                for part, table in own[0].histograms.items() if own else ():
                    groups[f"{TITLES[model]}, {part}"] = (table["edges"], table["counts"])
            charts.append(Histograms(f"{figure}, {kind}, {title}", _sentence(kind), groups, "value"))
    return Findings(tuple(cells), tuple(charts))


def _typical(run: Run, data: Dataset, device: str, items: int) -> list[JsonTable]:
    """The latents of one run that may stand for their type among all betas of a seed."""
    latents = list(_latents(encoded(run, data, device, items)))
    return [
        {"kind": one.kind, "rate": one.rate, "moments": dict(one.moments), "histograms": dict(one.histograms)}
        for one in typical(latents).values()
    ]


def _by_seed(by_beta: Mapping[float, Values]) -> list[dict[str, Latent]]:
    """The typical latents of each seed, over its betas."""
    found = []
    for own in zip(*by_beta.values(), strict=True):
        pairs = [(beta, table) for beta, tables in zip(by_beta, own, strict=True) for table in tables]
        found.append(typical([replace(Latent(0.0, **table), beta=beta) for beta, table in pairs]))
    return found


def _latents(codes: Representation) -> Iterator[Latent]:
    found = collapse(codes)
    for place, (kind, rate) in enumerate(zip(found.types.types, found.rates, strict=True)):
        yield Latent.of(kind, float(rate), codes.mean[:, place].double(), codes.variance[:, place].double())


def typical(latents: Sequence[Latent]) -> dict[str, Latent]:
    """The latents that stand for their types, where there are any.

    Active: the highest rate among those of the largest beta. Passive: the lowest rate among those of the smallest
    beta. Mixed of type 1 and 2: those whose variance varies least and most, in between or between 0 and 1.
    """
    kinds = {kind: [one for one in latents if one.kind == kind] for kind in ("active", "mixed", "passive")}
    spread = sorted(kinds["mixed"], key=lambda one: one.variance_spread)
    found = {
        "active": max(kinds["active"], key=lambda one: (one.beta, one.rate), default=None),
        "passive": min(kinds["passive"], key=lambda one: (one.beta, one.rate), default=None),
        "mixed, type 1": spread[0] if spread else None,
        "mixed, type 2": spread[-1] if len(spread) > 1 else None,
    }
    return {kind: latent for kind, latent in found.items() if latent is not None}


def _cells(of: Mapping[str, object], latents: list[Latent]) -> list[Cell]:
    if not latents:
        why = f"no latent is {str(of['latent']).partition(',')[0]}"
        return [Cell({**of, "measure": name}, None, None, 0, why) for name in MEASURES]
    return [Cell.over({**of, "measure": name}, [one.measures[name] for one in latents]) for name in MEASURES]


def _sentence(kind: str) -> str:
    return {
        "active": "Source: means spread over many values, variances lie near 0.",
        "passive": "Source: means lie near 0 and variances near 1, as the prior's.",
        "mixed, type 1": "The mixed latent whose variance varies least: it lies at one value between 0 and 1.",
        "mixed, type 2": "The mixed latent whose variance varies most: near 0 for some items and near 1 for others.",
    }[kind]


def _similarity(context: StudyContext) -> Findings:
    """Figures 10 and 11 (VAE against VGON) and 12 to 14 (each with itself): linear CKA of the codes of all betas."""
    asked = []
    for task, runs in asked_runs(context):
        names = [[model, f"{beta:g}"] for model, by_beta in runs.items() for beta in by_beta]
        groups = [own for by_beta in runs.values() for own in by_beta.values()]
        options = {"groups": names, "items": context.pick(*ENCODED), "compared": ITEMS}
        asked.append((task, context.compared(groups, Comparison("code-similarity", _maps, options))))
    cells: list[Cell] = []
    charts: list[Chart] = []
    for task, values in asked:
        for one in values[0]:
            compared, sides, layer = map_of(one["map"]), (one["sides"][0], one["sides"][1]), one["layer"]
            titles = " and ".join(dict.fromkeys(TITLES[side] for side in sides))
            of = {"data": task.title, "models": titles, "representation": layer}
            cells += _similarities(of, compared)
            charts.append(_heatmap(of, sides, compared))
            if compared.constant:
                constant = ", ".join(compared.constant)
                context.note(f"{task.title}, {titles}, {layer}: constant over items at beta {constant}.")
    return Findings(tuple(cells), tuple(charts))


def _maps(
    given: list[list[Run]], data: Dataset, device: str, groups: list[list[str]], items: int, compared: int
) -> list[JsonTable]:
    """A map for every layer and pair of models; `groups` are the model and the beta of each group of runs."""
    codes: dict[str, dict[str, list[Representation]]] = {}
    for (model, beta), runs in zip(groups, given, strict=True):
        codes.setdefault(model, {})[beta] = [encoded(run, data, device, items) for run in runs]
    return [
        {"layer": layer, "sides": list(sides), "map": plain_map(_compared(codes, layer, sides, compared))}
        for layer in LAYERS
        for sides in SIDES
    ]


def _compared(
    codes: Mapping[str, Mapping[str, list[Representation]]], layer: str, sides: tuple[str, str], items: int
) -> SimilarityMap:
    groups = [
        {beta: [{layer: getattr(one, layer)[:items]} for one in own] for beta, own in codes[side].items()}
        for side in dict.fromkeys(sides)
    ]
    return group_similarity(*groups, layer=layer)


def _similarities(of: Mapping[str, object], compared: SimilarityMap) -> list[Cell]:
    """One cell for each pair of betas, over the pairs of models with them."""
    found = []
    for row in compared.table():
        of_pair = {**of, "beta": row["row"], "other beta": row["column"]}
        if row["pairs"]:
            one = row["pairs"] == 1
            note = "one pair of models" if one else f"{row['pairs']} pairs of models"
            found.append(Cell(of_pair, row[compared.measure], None if one else row["deviation"], row["pairs"], note))
        else:
            found.append(Cell(of_pair, None, None, 0, "the representation does not vary over items"))
    return found


def _heatmap(of: Mapping[str, object], sides: tuple[str, str], compared: SimilarityMap) -> Matrix:
    rows, columns = (TITLES[side] for side in sides)
    return Matrix(
        f"{str(of['representation']).capitalize()} representations, {of['models']}, {of['data']}",
        f"Linear CKA of the {rows} of each beta (rows) with the {columns} of each beta (columns), over pairs of seeds.",
        compared.matrix,
        compared.rows,
        compared.columns,
        "CKA",
    )


STUDIES: tuple[Study, ...] = (
    Study(
        "clapham-figure6-9",
        f"{PAPER}, Figures 6 to 9",
        "Do active, passive and mixed latents of a VGON look like those of a VAE?",
        f"{LEFT_OPEN} The figures are pictures without numbers, of latents picked by hand: at beta 5 on MNIST, mixed "
        "ones on smallNORB at beta 25 (type 1) and 5 (type 2). Here a rule picks them from all betas of a seed: the "
        "active one of the largest beta that has any, the passive one of the smallest, the mixed ones whose variance "
        "varies least (type 1) and most (type 2). Histograms are of the first seed that has such a latent.",
        _histograms,
    ),
    Study(
        "clapham-figure10-14",
        f"{PAPER}, Figures 10 to 14",
        "How similar are the codes of VAE and VGON over beta, and those of each model to itself?",
        f"{LEFT_OPEN} The figures are pictures without numbers, and do not say which seeds are compared on how many "
        f"items. Here a cell is the mean over all pairs of seeds on {ITEMS} items at most, and no model is compared "
        "with itself, so that diagonals give the similarity between seeds.",
        _similarity,
    ),
)
