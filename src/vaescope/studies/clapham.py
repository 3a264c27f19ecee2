"""Clapham and Grzes, Posterior collapse in variational gradient origin networks (section III, figures 3 to 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.regime import VARIABLE_TYPES, collapse, point_of_total_collapse
from vaescope.runs import MeasurementSpec, Run
from vaescope.similarity import SimilarityMap, group_similarity
from vaescope.studies import clapham_claims as claims
from vaescope.studies.charts import Histograms, Lines, Matrix
from vaescope.studies.context import (
    GroupMeasurement,
    Measurement,
    StudyContext,
    StudyRun,
    Values,
    grouped,
    quick_training,
)
from vaescope.studies.measurements import histogram, map_of, plain_map, regime
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Shared, Study, cell_rows, measure_cells
from vaescope.sweeps import Sweep

PAPER = "Clapham and Grzes, Posterior collapse in variational gradient origin networks"
TITLES = {"vae": "VAE", "vgon": "VGON"}
BETAS = (0.5, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0)
SEEDS = 2, 10
ITEMS, COMPARED_ITEMS = (1000, 10_000), 5000  # encoded at most, and of these compared
CHOSEN = Shared(
    "Runs of Clapham and Grzes",
    "The paper names neither latents, rate, batch, likelihood nor initial weights. Chosen: 10 latents, Adam at 5e-4, "
    "batches of 64, Bernoulli, PyTorch's initial weights, and convolutions with a hidden layer of 256 after the four."
    " VGON's inner loss weighs the rate by 1 and its gradient is scaled by 1/8; its codes are read without noise, but"
    " where a page says otherwise. dSprites are trained for as many steps as MNIST, not for 200 epochs, which are 2.3"
    " million; products are in TF32 on a GPU. At quick scale the data are digits of 8 x 8 pixels, a twelfth of "
    "MNIST's, and each beta is a tenth of the paper's; one hidden layer of 48, 8 latents, 500 steps of 32 at a rate "
    "of 5e-3.",
)
QUICK_NOTE = "Quick: digits in place of MNIST, smallNORB and dSprites, with a tenth of each beta."
# Monitoring the types while a model trains would warn of the collapse that is studied here.
_COMMON: JsonTable = {"initialisation": "torch", "held_out": 0, "monitor_every": 0}
_QUICK = quick_training([48], 500, batch=32, **_COMMON)
_PAPER: JsonTable = {**_COMMON, "net": "conv", "batch": 64, "precision": "tf32"}
_EPOCHS = {"epochs": 200}
_MNIST_STEPS = {"steps": 200 * (60_000 // 64)}
# The typical latents of figures 6 to 9, with where they stand and what is to be seen.
TYPICAL = {
    "active": ("Figure 6", "Source: means spread over many values, variances lie near 0."),
    "passive": ("Figure 7", "Source: means lie near 0 and variances near 1, as the prior's."),
    "mixed, type 1": (
        "Figures 8 and 9",
        "The mixed latent whose variance varies least: it lies at one value between 0 and 1.",
    ),
    "mixed, type 2": (
        "Figures 8 and 9",
        "The mixed latent whose variance varies most: near 0 for some items and near 1 for others.",
    ),
}
MEASURES = ("beta", "mean of means", "sd of means", "mean of variances", "sd of variances")
LAYERS = ("mean", "variance")
SIDES = (("vae", "vgon"), ("vae", "vae"), ("vgon", "vgon"))


@dataclass(frozen=True)
class TrainedSet:
    """A data set with its title and the betas and settings it is trained with."""

    title: str
    source: str
    betas: tuple[float, ...]
    latents: int
    learning_rate: float
    settings: Mapping[str, object]


def tasks(context: StudyContext) -> list[TrainedSet]:
    """The data sets of a scale that are there; the others are noted."""
    if context.is_quick:
        context.note(QUICK_NOTE)
        return [TrainedSet("digits", "digits", tuple(beta / 10 for beta in BETAS), 8, 5e-3, _QUICK)]
    sets = (("MNIST", "mnist", _EPOCHS), ("smallNORB", "smallnorb", _EPOCHS), ("dSprites", "dsprites", _MNIST_STEPS))
    return [
        TrainedSet(title, source, BETAS, 10, 5e-4, {**_PAPER, **length})
        for title, source, length in sets
        if context.open(source) is not None
    ]


def sweep(context: StudyContext, task: TrainedSet) -> Sweep:
    """The runs of a data set."""
    return Sweep(
        task.source,
        task.settings,
        {"latents": task.latents, "learning_rate": task.learning_rate},
        {"name": "beta"},
        {"model": list(TITLES), "objective.beta": list(task.betas), "seed": context.seed_list(*SEEDS)},
        MeasurementSpec(items=context.pick(*ITEMS)),
    )


def asked_runs(context: StudyContext) -> list[tuple[TrainedSet, dict[tuple[str, float], list[StudyRun]]]]:
    """Each data set that is there, with the runs of each model and beta, one for each seed."""
    return [
        (task, grouped([(model, beta) for model in TITLES for beta in task.betas], context.runs(sweep(context, task))))
        for task in tasks(context)
    ]


def asked_values(
    context: StudyContext, wanted: Measurement
) -> list[tuple[TrainedSet, dict[tuple[str, float], Values]]]:
    """What is measured of every run, by data set, and by model and beta."""
    return [(task, context.measured_by(runs, wanted)) for task, runs in asked_runs(context)]


def encoded(run: Run, data: Dataset, device: str, items: int, draw: int | None = None) -> Representation:
    """The codes of the same items under every run; with a `draw`, those of a VGON have the noise of its inner pass."""
    some, noisy = data.draw(items).to(device), draw is not None
    return encode(run.model, some, device=device, progress=False, inner_noise=noisy, seed=draw or 0)


def divergence(context: StudyContext) -> Findings:
    """Figure 3: the mean divergence of the posterior from the prior, in nats, against beta."""
    cells: list[Cell] = []
    for task, found in asked_values(context, regime(context.pick(*ITEMS))):
        for (model, beta), values in found.items():
            of = {"data": task.title, "model": TITLES[model], "beta": beta, "measure": "KLD"}
            cells.append(Cell.over(of, [one["rate"] for one in values]))
    sentence = "Source: the divergence from the prior, in nats, falls as beta grows, in VAE and VGON."
    rows = cell_rows(cells, "KLD")
    chart = Lines("KLD against beta", sentence, rows, "beta", "KLD", "model", "data", y_title="KLD, nats")
    return Findings(tuple(cells), (chart,))


def types(context: StudyContext) -> Findings:
    """Figures 4 (VGON) and 5 (VAE): how many latents are active, mixed and passive, against beta."""
    cells: list[Cell] = []
    charts: list[Lines] = []
    for task, found in asked_values(context, regime(context.pick(*ITEMS))):
        own: list[Cell] = []
        for (model, beta), values in found.items():
            of = {"data": task.title, "model": TITLES[model], "beta": beta}
            own += [Cell.over({**of, "type": kind}, [one[kind] for one in values]) for kind in VARIABLE_TYPES]
        cells += own
        rows = [{**row, "beta": f"{row['beta']:g}"} for row in cell_rows(own, "latents")]
        ends = "; ".join(f"{title}: {_collapse_point(task, model, found)}" for model, title in TITLES.items())
        title = f"Types of latents against beta, {task.title}"
        sentence = f"Of {task.latents} latents, how many are active, mixed and passive. {ends}."
        charts.append(Lines(title, sentence, rows, x="beta", y="latents", by="type", panel="model", kind="bars"))
    return Findings(tuple(cells), tuple(charts))


def _collapse_point(task: TrainedSet, model: str, found: Mapping[tuple[str, float], Values]) -> str:
    """Where total collapse begins (section IV.D)."""
    pairs = [(beta, int(one["passive"])) for (of, beta), values in found.items() if of == model for one in values]
    betas, passive = zip(*pairs, strict=True)
    return point_of_total_collapse(betas, passive, task.latents).summary()


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


def typical(latents: Sequence[Latent]) -> dict[str, Latent]:
    """The latents that stand for their types, where there are any.

    Active: the highest rate among those of the largest beta. Passive: the lowest rate among those of the smallest
    beta. Mixed of type 1 and 2: those whose variance varies least and most, in between or between 0 and 1.
    """
    kinds = {kind: [one for one in latents if one.kind == kind] for kind in ("active", "mixed", "passive")}
    spread = sorted(kinds["mixed"], key=lambda one: one.moments["sd of variances"])
    found = {
        "active": max(kinds["active"], key=lambda one: (one.beta, one.rate), default=None),
        "passive": min(kinds["passive"], key=lambda one: (one.beta, one.rate), default=None),
        "mixed, type 1": spread[0] if spread else None,
        "mixed, type 2": spread[-1] if len(spread) > 1 else None,
    }
    return {kind: latent for kind, latent in found.items() if latent is not None}


def typical_latents(context: StudyContext) -> Findings:
    """Figures 6 to 9: means and variances over items of a typical latent of each type."""
    asked = asked_values(context, Measurement("typical-latents", _typical, {"items": context.pick(*ITEMS)}))
    cells: list[Cell] = []
    charts: list[Histograms] = []
    for task, values in asked:
        found = {model: _by_seed(model, values) for model in TITLES}
        for kind, (figure, sentence) in TYPICAL.items():
            groups: JsonTable = {}
            for model, seeds in found.items():
                own = [seed[kind] for seed in seeds if kind in seed]
                cells += _latent_cells({"data": task.title, "model": TITLES[model], "latent": kind}, own)
                for part, table in own[0].histograms.items() if own else ():
                    groups[f"{TITLES[model]}, {part}"] = (table["edges"], table["counts"])
            charts.append(Histograms(f"{figure}, {kind}, {task.title}", sentence, groups, "value"))
    return Findings(tuple(cells), tuple(charts))


def _typical(run: Run, data: Dataset, device: str, items: int) -> list[JsonTable]:
    """The latents of one run that may stand for their type among all betas of a seed."""
    codes = encoded(run, data, device, items)
    found = collapse(codes)
    latents = [
        Latent.of(kind, float(rate), codes.mean[:, place].double(), codes.variance[:, place].double())
        for place, (kind, rate) in enumerate(zip(found.types.types, found.rates, strict=True))
    ]
    return [
        {"kind": one.kind, "rate": one.rate, "moments": dict(one.moments), "histograms": dict(one.histograms)}
        for one in typical(latents).values()
    ]


def _by_seed(model: str, values: Mapping[tuple[str, float], Values]) -> list[dict[str, Latent]]:
    """The typical latents of each seed, over its betas."""
    by_beta = {beta: own for (of, beta), own in values.items() if of == model}
    return [
        typical([Latent(beta, **table) for beta, tables in zip(by_beta, own, strict=True) for table in tables])
        for own in zip(*by_beta.values(), strict=True)
    ]


def _latent_cells(of: Mapping[str, object], latents: list[Latent]) -> list[Cell]:
    if not latents:
        why = f"no latent is {str(of['latent']).partition(',')[0]}"
        return [Cell({**of, "measure": name}, None, None, 0, why) for name in MEASURES]
    return measure_cells(of, [{"beta": one.beta, **one.moments} for one in latents], MEASURES)


def similarity(context: StudyContext) -> Findings:
    """Figures 10 and 11 (VAE against VGON) and 12 to 14 (each with itself): linear CKA of the codes of all betas."""
    asked = []
    for task, runs in asked_runs(context):
        names = [[model, f"{beta:g}"] for model, beta in runs]
        options = {"groups": names, "items": context.pick(*ITEMS), "compared": COMPARED_ITEMS}
        asked.append((task, context.compared(list(runs.values()), GroupMeasurement("code-similarity", _maps, options))))
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for task, values in asked:
        for one in values[0]:
            compared, layer = map_of(one["map"]), one["layer"]
            rows, columns = (TITLES[side] for side in one["sides"])
            models = rows if rows == columns else f"{rows} and {columns}"
            cells += _similarity_cells({"data": task.title, "models": models, "representation": layer}, compared)
            title = f"{layer.capitalize()} representations, {models}, {task.title}"
            sentence = (
                f"Linear CKA of the {rows} of each beta (rows) with the {columns} of each beta (columns), over pairs "
                "of seeds."
            )
            axes = (f"beta of the {rows}", f"beta of the {columns}")
            charts.append(Matrix(title, sentence, compared.matrix, compared.rows, compared.columns, "CKA", axes=axes))
            if compared.constant:
                constant = ", ".join(compared.constant)
                context.note(f"{task.title}, {models}, {layer}: constant over items at beta {constant}.")
    return Findings(tuple(cells), tuple(charts))


def _maps(
    given: list[list[Run]], data: Dataset, device: str, groups: list[list[str]], items: int, compared: int
) -> list[JsonTable]:
    """A map for every layer and pair of models; `groups` are the model and the beta of each group of runs."""
    codes: dict[str, dict[str, list[Representation]]] = {}
    for (model, beta), runs in zip(groups, given, strict=True):
        codes.setdefault(model, {})[beta] = [encoded(run, data, device, items) for run in runs]

    def side(model: str, layer: str) -> dict[str, list[dict[str, Tensor]]]:
        return {beta: [{layer: getattr(one, layer)[:compared]} for one in own] for beta, own in codes[model].items()}

    maps = []
    for layer in LAYERS:
        for sides in SIDES:
            found = group_similarity(*(side(model, layer) for model in dict.fromkeys(sides)), layer=layer)
            maps.append({"layer": layer, "sides": list(sides), "map": plain_map(found)})
    return maps


def _similarity_cells(of: Mapping[str, object], compared: SimilarityMap) -> list[Cell]:
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


def redrawn_similarity(context: StudyContext) -> Findings:
    """Figures 12 to 14, of the VGON: linear CKA of the codes of all betas with codes whose noise is drawn again."""
    wanted = GroupMeasurement("redrawn-similarity", _redrawn, {"items": min(context.pick(*ITEMS), COMPARED_ITEMS)})
    asked = []
    for task, runs in asked_runs(context):
        seeds = zip(*(runs["vgon", beta] for beta in task.betas), strict=True)
        asked.append((task, [context.compared([[run] for run in seed], wanted) for seed in seeds]))
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for task, values in asked:
        names = [f"{beta:g}" for beta in task.betas]
        for layer in LAYERS:
            of = {"data": task.title, "models": TITLES["vgon"], "representation": layer}
            own = _redrawn_cells(of, names, [map_of(one[0][layer]).matrix for one in values])
            cells += own
            shown = [np.nan if cell.value is None else cell.value for cell in own]
            matrix = np.reshape(shown, (len(names), len(names)))
            title = f"{layer.capitalize()} representations, VGON with noise, {task.title}"
            sentence = (
                "Linear CKA of the VGON of each beta (rows) with that of each beta (columns) and the same seed, whose "
                "noise is drawn again: on the diagonal, a model with itself."
            )
            axes = ("beta of the first draw", "beta of the second draw")
            charts.append(Matrix(title, sentence, matrix, names, names, "CKA", axes=axes))
    return Findings(tuple(cells), tuple(charts))


def _redrawn(groups: list[list[Run]], data: Dataset, device: str, items: int) -> JsonTable:
    """A map for every layer: the VGON of each beta, in two draws of the noise."""
    draws = [[encoded(run, data, device, items, draw) for (run,) in groups] for draw in (0, 1)]
    maps: JsonTable = {}
    for layer in LAYERS:
        sides = ({str(at): {layer: getattr(codes, layer)} for at, codes in enumerate(draw)} for draw in draws)
        maps[layer] = plain_map(group_similarity(*sides, layer=layer))
    return maps


def _redrawn_cells(of: JsonTable, names: Sequence[str], matrices: Sequence[np.ndarray]) -> list[Cell]:
    """One cell for each pair of betas, over the seeds in which both codes vary over items."""
    cells = []
    for row, beta in enumerate(names):
        for column, other in enumerate(names):
            values = [float(one[row, column]) for one in matrices if np.isfinite(one[row, column])]
            of_pair = {**of, "beta": beta, "other beta": other}
            constant = Cell(of_pair, None, None, 0, "the representation does not vary over items")
            cells.append(Cell.over(of_pair, values) if values else constant)
    return cells


STUDIES = (
    Study(
        "clapham-figure3",
        f"{PAPER}, Figure 3",
        "Does the divergence of a VGON's posterior from its prior fall with beta as a VAE's does?",
        "The figure is a picture without numbers, and does not say over which items the divergence is; "
        "here it is over items trained on.",
        divergence,
        claims=claims.FIGURE_3,
        shared=(CHOSEN,),
    ),
    Study(
        "clapham-figure4-5",
        f"{PAPER}, Figures 4 and 5",
        "Do a VGON's latents go from active to passive with beta as a VAE's do?",
        "The figures are pictures without numbers. Types are by the rule of Bonheme's thesis: a mean "
        "variance within 0.1 of 0 or of 1, itself of a variance below 0.1.",
        types,
        claims=claims.FIGURE_4,
        shared=(CHOSEN,),
    ),
    Study(
        "clapham-figure6-9",
        f"{PAPER}, Figures 6 to 9",
        "Do active, passive and mixed latents of a VGON look like those of a VAE?",
        "The figures are pictures without numbers, of latents picked by hand: at beta 5 on MNIST, mixed "
        "ones on smallNORB at beta 25 (type 1) and 5 (type 2). Here a rule picks them from all betas of a seed: the "
        "active one of the largest beta that has any, the passive one of the smallest, the mixed ones whose variance "
        "varies least (type 1) and most (type 2). Histograms are of the first seed that has such a latent.",
        typical_latents,
        claims=claims.FIGURE_6,
        shared=(CHOSEN,),
    ),
    Study(
        "clapham-figure10-14",
        f"{PAPER}, Figures 10 to 14",
        "How similar are the codes of VAE and VGON over beta, and those of each model to itself?",
        "The figures are pictures without numbers, and do not say which seeds are compared on how many "
        f"items. Here a cell is the mean over all pairs of seeds on {COMPARED_ITEMS} items at most, and no model is "
        "compared with itself, so that diagonals give the similarity between seeds.",
        similarity,
        claims=claims.FIGURE_10,
        shared=(CHOSEN,),
    ),
    Study(
        "clapham-figure12-14",
        f"{PAPER}, Figures 12 to 14, the VGON with noise",
        "How similar are a VGON's codes to themselves if the noise of its inner pass is drawn again?",
        "The figures are pictures without numbers. The codes of a VGON follow a pass with noise; those of figures 10 "
        f"to 14 are read without it. Here they are read with it, twice, on {COMPARED_ITEMS} items at most. Models of "
        "the same seed are compared, as in the source, where a model also meets itself.",
        redrawn_similarity,
        claims=claims.FIGURE_12,
        shared=(CHOSEN,),
    ),
)
