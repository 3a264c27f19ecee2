"""Codes of VAE and VGON: histograms of typical latents and similarity (Clapham and Grzes, figures 6 to 14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from vaescope.codes import Representation
from vaescope.regime import collapse
from vaescope.similarity import SimilarityMap, group_similarity
from vaescope.studies.charts import Chart, Histograms, Matrix
from vaescope.studies.clapham_runs import LEFT_OPEN, PAPER, TITLES, encoded, trained
from vaescope.studies.study import Cell, Findings, Scale, Study

BINS = 40
MIXED = "Figures 8 and 9"
FIGURES = {"active": "Figure 6", "passive": "Figure 7", "mixed, type 1": MIXED, "mixed, type 2": MIXED}
MEASURES = ("beta", "mean of means", "sd of means", "mean of variances", "sd of variances")
LAYERS = ("mean", "variance")
SIDES = (("vae", "vgon"), ("vae", "vae"), ("vgon", "vgon"))
ITEMS = 5000


@dataclass(frozen=True)
class Latent:
    """One latent of a model: its beta, its type, its rate, and its mean and variance for every item."""

    beta: float
    kind: str
    rate: float
    mean: Tensor
    variance: Tensor

    @property
    def measures(self) -> dict[str, float]:
        """The numbers of its histograms, by name."""
        moments = (part for values in (self.mean, self.variance) for part in (values.mean(), values.std()))
        return dict(zip(MEASURES, (self.beta, *map(float, moments)), strict=True))


def _histograms(scale: Scale) -> Findings:
    """Figures 6 to 9: means and variances over items of a typical latent of each type."""
    cells: list[Cell] = []
    charts: list[Chart] = []
    notes: list[str] = []
    for task, runs in trained(scale, notes):
        found = {model: _by_seed(by_beta) for model, by_beta in encoded(scale, task, runs).items()}
        for kind, figure in FIGURES.items():
            groups: dict[str, Any] = {}
            for model, seeds in found.items():
                own = [seed[kind] for seed in seeds if kind in seed]
                of = {"data": task.title, "model": TITLES[model], "latent": kind}
                cells += _cells(of, own)
                if own:
                    groups[f"{TITLES[model]}, means"] = _counts(own[0].mean)
                    groups[f"{TITLES[model]}, variances"] = _counts(own[0].variance)
            charts.append(Histograms(f"{figure}, {kind}, {task.title}", _sentence(kind), groups, "value"))
    return Findings(tuple(cells), tuple(charts), tuple(notes))


def _by_seed(by_beta: Mapping[float, list[Representation]]) -> list[dict[str, Latent]]:
    """The typical latents of each seed, over its betas."""
    return [
        typical([latent for beta, codes in zip(by_beta, own, strict=True) for latent in _latents(beta, codes)])
        for own in zip(*by_beta.values(), strict=True)
    ]


def _latents(beta: float, codes: Representation) -> Iterator[Latent]:
    found = collapse(codes)
    for place, (kind, rate) in enumerate(zip(found.types.types, found.rates, strict=True)):
        yield Latent(beta, kind, rate, codes.mean[:, place].double(), codes.variance[:, place].double())


def typical(latents: Sequence[Latent]) -> dict[str, Latent]:
    """The latents that stand for their types, where there are any.

    Active: of the largest beta that has one, that of the highest rate. Passive: of the smallest such beta, that of the
    lowest rate. Mixed of type 1 and 2: those whose variance varies least and most, in between or between 0 and 1.
    """
    kinds = {kind: [one for one in latents if one.kind == kind] for kind in ("active", "mixed", "passive")}
    spread = sorted(kinds["mixed"], key=lambda one: float(one.variance.std()))
    found = {
        "active": max(kinds["active"], key=lambda one: (one.beta, one.rate), default=None),
        "passive": min(kinds["passive"], key=lambda one: (one.beta, one.rate), default=None),
        "mixed, type 1": spread[0] if spread else None,
        "mixed, type 2": spread[-1] if len(spread) > 1 else None,
    }
    return {kind: latent for kind, latent in found.items() if latent is not None}


def _cells(of: Mapping[str, Any], latents: list[Latent]) -> list[Cell]:
    if not latents:
        why = f"no latent is {of['latent'].partition(',')[0]}"
        return [Cell({**of, "measure": name}, None, None, 0, why) for name in MEASURES]
    return [Cell.over({**of, "measure": name}, [one.measures[name] for one in latents]) for name in MEASURES]


def _counts(values: Tensor) -> tuple[list[float], list[float]]:
    counts, edges = np.histogram(values.numpy(), bins=BINS)
    return edges.tolist(), counts.tolist()


def _sentence(kind: str) -> str:
    return {
        "active": "Source: means spread over many values, variances lie near 0.",
        "passive": "Source: means lie near 0 and variances near 1, as the prior's.",
        "mixed, type 1": "The mixed latent whose variance varies least: it lies at one value between 0 and 1.",
        "mixed, type 2": "The mixed latent whose variance varies most: near 0 for some items and near 1 for others.",
    }[kind]


def _similarity(scale: Scale) -> Findings:
    """Figures 10 and 11 (VAE against VGON) and 12 to 14 (each with itself): linear CKA of the codes of all betas."""
    cells: list[Cell] = []
    charts: list[Chart] = []
    notes: list[str] = []
    for task, runs in trained(scale, notes):
        codes = encoded(scale, task, runs)
        for layer in LAYERS:
            for sides in SIDES:
                compared = _compared(codes, layer, sides)
                titles = " and ".join(dict.fromkeys(TITLES[side] for side in sides))
                of = {"data": task.title, "models": titles, "representation": layer}
                cells += _similarities(of, compared)
                charts.append(_heatmap(of, sides, compared))
                if compared.constant:
                    constant = ", ".join(compared.constant)
                    notes.append(f"{task.title}, {titles}, {layer}: constant over items at beta {constant}.")
    return Findings(tuple(cells), tuple(charts), tuple(notes))


def _compared(codes: Mapping[str, Any], layer: str, sides: tuple[str, str]) -> SimilarityMap:
    groups = [
        {f"{beta:g}": [{layer: getattr(one, layer)[:ITEMS]} for one in own] for beta, own in codes[side].items()}
        for side in dict.fromkeys(sides)
    ]
    return group_similarity(*groups, layer=layer)


def _similarities(of: Mapping[str, Any], compared: SimilarityMap) -> list[Cell]:
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


def _heatmap(of: Mapping[str, Any], sides: tuple[str, str], compared: SimilarityMap) -> Matrix:
    rows, columns = (TITLES[side] for side in sides)
    return Matrix(
        f"{of['representation'].capitalize()} representations, {of['models']}, {of['data']}",
        f"Linear CKA of the {rows} of each beta (rows) with the {columns} of each beta (columns), over pairs of seeds.",
        *(compared.matrix, compared.rows, compared.columns, "CKA"),
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
        "How alike are the codes of VAE and VGON over beta, and those of each with themselves?",
        f"{LEFT_OPEN} The figures are pictures without numbers, and do not say which seeds are compared on how many "
        f"items. Here a cell is the mean over all pairs of seeds on {ITEMS} items at most, and no model is compared "
        "with itself, so that diagonals say how alike seeds are.",
        _similarity,
    ),
)
