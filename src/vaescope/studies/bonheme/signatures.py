"""Signatures of active and passive latents of identifiable VAEs (Bonheme, chapter 5)."""

from __future__ import annotations

from statistics import median

import torch
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.errors import DataError
from vaescope.regime import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.runs import Run
from vaescope.studies.bonheme import chapter6_claims as claims
from vaescope.studies.bonheme.settings import DSPRITES, PAPER, PAPER_STEPS, THESIS, codes_of, over, types_of
from vaescope.studies.charts import Histograms
from vaescope.studies.context import Measurement, StudyContext, StudyRun, Values, quick_training
from vaescope.studies.measurements import histogram
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study
from vaescope.sweeps import Sweep

PRIORS = {"0": False, "learned": True}
SHEET: JsonTable = {"name": "synthetic-nonlinear", "items": 4000}
QUICK = quick_training([32, 32], 600, likelihood={"name": "gaussian", "variance": 0.001}, monitor_every=0)
MEASURES = (
    "squared mean",
    "variance",
    "prior variance",
    "variance over prior's",
    "correlation of prior and squared mean",
    "largest |mean|",
    "largest prior variance",
)


def signature(codes: Representation, latent: int) -> dict[str, float]:
    """What propositions 5.2.1 and 5.2.2 are about, of one latent over the items; means are less the prior's."""
    prior_mean, prior_variance = _prior(codes)
    mean = (codes.mean - prior_mean)[:, latent].double()
    variance, prior = codes.variance[:, latent].double(), prior_variance[:, latent].double()
    numbers = (
        mean.square().mean(),
        variance.mean(),
        prior.mean(),
        (variance / prior).median(),
        torch.corrcoef(torch.stack([prior, mean.square()]))[0, 1],
        mean.abs().max(),
        prior.max(),
    )
    return {name: float(number) for name, number in zip(MEASURES, numbers, strict=True)}


def signatures(context: StudyContext) -> Findings:
    """Figures 5.1 to 5.4: posterior and prior of passive and of active latents, the prior's mean fixed or learned."""
    asked = context.measured_by({prior: _runs(context, learned) for prior, learned in PRIORS.items()}, SIGNATURES)
    cells: list[Cell] = []
    charts: list[Histograms] = []
    for prior, found in asked.items():
        of = {"data": context.pick("synthetic sheet", "dSprites"), "prior mean": prior}
        for kind in VARIABLE_TYPES:
            counts = [one["types"].count(kind) for one in found]
            cells.append(over({**of, "type": kind, "measure": "latents"}, counts, ""))
            for name in MEASURES:
                values = [_median(one, kind, name) for one in found]
                cells.append(over({**of, "type": kind, "measure": name}, values, f"no latent was {kind}"))
        charts += _histograms(found, prior)
    if context.is_quick:
        context.note("Quick: a curved sheet in six dimensions, with two factors, in place of dSprites.")
    return Findings(tuple(cells), tuple(charts))


def _runs(context: StudyContext, learned: bool) -> list[StudyRun]:
    prior = {"name": "conditional", "learned_mean": learned}
    settings = context.pick(QUICK, {**PAPER, "steps": PAPER_STEPS})
    member = context.pick({"latents": 6, "learning_rate": 5e-3}, {"latents": 30, "learning_rate": 1e-4})
    grid = {"seed": context.seed_list(2, 1)}
    data = SHEET if context.is_quick else DSPRITES
    return context.runs(Sweep(data, {"model": "identifiable", "prior": prior, **settings}, member, grid=grid))


def _signatures(run: Run, data: Dataset, device: str) -> JsonTable:
    """Types and signatures of all latents, and histograms of the clearest passive and active one."""
    codes = codes_of(run, data, device)
    types, (prior_mean, prior_variance) = types_of(codes), _prior(codes)
    numbers = [signature(codes, place) for place in range(len(types))]
    parts = {
        "posterior mean": codes.mean,
        "posterior variance": codes.variance,
        "prior mean": prior_mean,
        "prior variance": prior_variance,
    }
    found: JsonTable = {"types": list(types), "signatures": numbers}
    for kind in (PASSIVE, ACTIVE):
        if kind in types:
            # The variance is nearest to the prior's, or farthest from it if the latent is to be active.
            clearest = max if kind == PASSIVE else min
            own = [place for place, one in enumerate(types) if one == kind]
            place = clearest(own, key=lambda place: numbers[place]["variance over prior's"])
            found[kind] = {"latent": place, **{name: histogram(table[:, place]) for name, table in parts.items()}}
    return found


SIGNATURES = Measurement("iVAE-signatures", _signatures)


def _median(one: JsonTable, kind: str, name: str) -> float | None:
    """The median over the latents of a type; the largest where the number is one."""
    own: list[float] = [found[name] for found, of in zip(one["signatures"], one["types"], strict=True) if of == kind]
    if not own:
        return None
    return max(own) if name.startswith("largest") else median(own)


def _histograms(found: Values, prior: str) -> list[Histograms]:
    """Of the most passive and the most active latent of the first seed that has one, by the posterior's variance."""
    figures = {("0", PASSIVE): "5.1", ("0", ACTIVE): "5.2", ("learned", PASSIVE): "5.3", ("learned", ACTIVE): "5.4"}
    names = ["posterior mean", "posterior variance", *(["prior mean"] if prior == "learned" else []), "prior variance"]
    charts = []
    for kind in (PASSIVE, ACTIVE):
        one = next((one[kind] for one in found if kind in one), None)
        if one is not None:
            groups = {name: (one[name]["edges"], one[name]["counts"]) for name in names}
            which = f"{kind} latent {one['latent']} of an identifiable VAE, prior's mean {prior}"
            title = f"Figure {figures[prior, kind]}: {which}"
            charts.append(Histograms(title, "How its numbers are spread over the items.", groups))
    return charts


def _prior(codes: Representation) -> tuple[Tensor, Tensor]:
    if codes.prior is None:
        raise DataError("codes of an identifiable VAE must hold the prior of every item, these have none.")
    return codes.prior


STUDIES = (
    Study(
        "bonheme-chapter5",
        f"{THESIS}, figures 5.1 to 5.4",
        "Do identifiable VAEs, whose prior is learned from the factors, have active and passive latents?",
        "Published are histograms of one latent each, with two numbers in the text. Types are those of the rule for "
        "a learned prior (a passive latent follows its prior, whose variance may be near 0), which the thesis does "
        "not spell out. The factors that condition the prior are the five that vary, scaled to [0, 1] over the whole "
        "set; kernels are 4, 4, 2, 2 as in the released code. One seed, as published, unless more are asked for. At "
        "quick scale the data are 4000 points of a curved sheet in six dimensions with two factors, and there are 6 "
        "latents; at paper scale products are in bfloat16.",
        signatures,
        claims=claims.CHAPTER_5,
    ),
)
