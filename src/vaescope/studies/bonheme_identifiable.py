"""Signatures of active and passive latents of identifiable VAEs (Bonheme, chapter 5)."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch
from torch import Tensor

from vaescope.codes import Representation
from vaescope.errors import DataError
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.runs import Run
from vaescope.studies.bonheme_settings import DSPRITES, PAPER, PAPER_STEPS, THESIS, codes_of, over, types_of
from vaescope.studies.charts import Histograms
from vaescope.studies.study import Cell, Findings, Scale, Study
from vaescope.sweeps.specification import Sweep

BINS = 40
PRIORS = {"0": False, "learned": True}
SHEET: dict[str, Any] = {"name": "synthetic-nonlinear", "items": 4000}
QUICK: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [32, 32], "decoder_widths": [32, 32]},
    "likelihood": {"name": "gaussian", "variance": 0.001},
    "monitor_every": 0,
    "steps": 600,
    "log_every": 600,
    "evaluate_every": 600,
}
MEASURES = (
    *("squared mean", "variance", "prior variance", "variance over prior's", "correlation of prior and squared mean"),
    *("largest |mean|", "largest prior variance"),
)


def signature(codes: Representation, latent: int) -> dict[str, float]:
    """What propositions 5.2.1 and 5.2.2 are about, of one latent over the items; means are less the prior's."""
    prior_mean, prior_variance = _prior(codes)
    mean = (codes.mean - prior_mean)[:, latent].double()
    variance, prior = codes.variance[:, latent].double(), prior_variance[:, latent].double()
    numbers = (
        *(mean.square().mean(), variance.mean(), prior.mean(), (variance / prior).median()),
        *(torch.corrcoef(torch.stack([prior, mean.square()]))[0, 1], mean.abs().max(), prior.max()),
    )
    return {name: float(number) for name, number in zip(MEASURES, numbers, strict=True)}


def signatures(scale: Scale) -> Findings:
    """Figures 5.1 to 5.4: posterior and prior of passive and of active latents, the prior's mean fixed or learned."""
    cells: list[Cell] = []
    charts: list[Histograms] = []
    for prior, learned in PRIORS.items():
        found = [codes_of(scale, run) for run in _trained(scale, learned)]
        types = [types_of(codes) for codes in found]
        of = {"data": scale.pick("synthetic sheet", "dSprites"), "prior mean": prior}
        for kind in VARIABLE_TYPES:
            counts = [own.count(kind) for own in types]
            cells.append(over({**of, "type": kind, "measure": "latents"}, counts, ""))
            for name in MEASURES:
                values = [_median(codes, own, kind, name) for codes, own in zip(found, types, strict=True)]
                cells.append(over({**of, "type": kind, "measure": name}, values, f"no latent was {kind}"))
        charts += _histograms(found, types, prior)
    notes = scale.pick(("Quick: a curved sheet in six dimensions, with two factors, in place of dSprites.",), ())
    return Findings(tuple(cells), tuple(charts), notes)


def _trained(scale: Scale, learned: bool) -> list[Run]:
    prior = {"name": "conditional", "learned_mean": learned}
    settings = scale.pick(QUICK, {**PAPER, "steps": PAPER_STEPS})
    member = scale.pick({"latents": 6, "learning_rate": 5e-3}, {"latents": 30, "learning_rate": 1e-4})
    grid = {"seed": scale.seed_list(2, 1)}
    data = scale.pick(SHEET, DSPRITES)
    return scale.trained(Sweep(data, {"model": "identifiable", "prior": prior, **settings}, member, grid=grid))


def _median(codes: Representation, types: tuple[str, ...], kind: str, name: str) -> float | None:
    """The median over the latents of a type; the largest where the number is one."""
    own = [signature(codes, place)[name] for place, one in enumerate(types) if one == kind]
    if not own:
        return None
    return max(own) if name.startswith("largest") else median(own)


def _histograms(found: list[Representation], types: list[tuple[str, ...]], prior: str) -> list[Histograms]:
    """Of the most passive and the most active latent of the first seed that has one, by the posterior's variance."""
    figures = {("0", PASSIVE): "5.1", ("0", ACTIVE): "5.2", ("learned", PASSIVE): "5.3", ("learned", ACTIVE): "5.4"}
    charts = []
    for kind in (PASSIVE, ACTIVE):
        pair = next(((codes, own) for codes, own in zip(found, types, strict=True) if kind in own), None)
        if pair is None:
            continue
        codes, place = pair[0], _clearest(*pair, kind)
        prior_mean, prior_variance = _prior(codes)
        parts = {"posterior mean": codes.mean, "posterior variance": codes.variance}
        parts |= {"prior mean": prior_mean} if prior == "learned" else {}
        parts["prior variance"] = prior_variance
        groups = {}
        for name, table in parts.items():
            tally, edges = torch.histogram(table[:, place].double(), BINS)
            groups[name] = (edges.tolist(), tally.tolist())
        title = f"Figure {figures[prior, kind]}: {kind} latent {place} of an identifiable VAE, prior's mean {prior}"
        charts.append(Histograms(title, "How its numbers are spread over the items.", groups))
    return charts


def _prior(codes: Representation) -> tuple[Tensor, Tensor]:
    if codes.prior is None:
        raise DataError("codes of an identifiable VAE must hold the prior of every item, these have none.")
    return codes.prior


def _clearest(codes: Representation, types: tuple[str, ...], kind: str) -> int:
    """The latent of a type whose variance is nearest to its prior's, or farthest from it if it is to be active."""
    own = [place for place, one in enumerate(types) if one == kind]
    ratio = {place: signature(codes, place)["variance over prior's"] for place in own}
    return max(own, key=lambda place: ratio[place] if kind == PASSIVE else -ratio[place])


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-chapter5",
        f"{THESIS}, figures 5.1 to 5.4",
        "Do identifiable VAEs, whose prior is learned from the factors, have active and passive latents?",
        "Published are histograms of one latent each, with two numbers in the text. Types are those of the rule for a "
        "learned prior (a passive latent follows its prior, whose variance may be near 0), which the thesis does not "
        "spell out. The told factors are the five that vary, scaled to [0, 1] over the whole set; kernels are 4, 4, 2, "
        "2 as in the released code. One seed, as published, unless more are asked for. At quick scale the data are "
        "4000 points of a curved sheet in six dimensions with two factors, and there are 6 latents; at paper scale "
        "products are in bfloat16.",
        signatures,
    ),
)
