"""The worked example of Rolinek et al., section 4: what noise costs under two linear decoders (eq. 24 to 26)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.metrics import distance_to_orthogonality
from vaescope.numerics import linear
from vaescope.studies.charts import Lines
from vaescope.studies.context import StudyContext
from vaescope.studies.rolinek import claims
from vaescope.studies.study import Cell, Findings, Study

FIRST = torch.tensor([[4.0, 1.0], [-3.0, 1.0], [5.0, -1.0]], dtype=torch.float64)
DEGREES = 45
COST = "least cost x e^C"


def toy(context: StudyContext) -> Findings:
    """Equations 24 to 26 in closed form: the coefficients of the variances, the least cost, the best variances."""
    decoders = {"M1": FIRST, "M2": rotated(FIRST, DEGREES), "orthogonal": principal(FIRST)}
    cells = [Cell({"decoder": name, "quantity": of}, value) for name, one in decoders.items() for of, value in _of(one)]
    rows = []
    for degrees in range(0, 91):
        decoder = rotated(principal(FIRST), degrees)
        rows += [
            {"degrees": degrees, "of": COST, "value": _cost(decoder)},
            {"degrees": degrees, "of": "DtO", "value": _distance(decoder)},
        ]
    title = "What a rotation of the code costs"
    sentence = "Source: noise costs least where the columns of the decoder are orthogonal."
    x_title = "degrees from the orthogonal decoder"
    chart = Lines(title, sentence, rows, "degrees", "value", panel="of", sd=None, x_title=x_title)
    return Findings(tuple(cells), (chart,))


def rotated(decoder: Float[Tensor, "dimensions 2"], degrees: float) -> Float[Tensor, "dimensions 2"]:
    """The decoder composed with a rotation of the code by `degrees` (section 4.2)."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return decoder @ torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64).T


def principal(decoder: Float[Tensor, "dimensions 2"]) -> Float[Tensor, "dimensions 2"]:
    """The decoder behind the rotation that makes its columns orthogonal (eq. 27)."""
    rotation: Tensor = torch.linalg.svd(decoder, full_matrices=False).Vh
    return decoder @ rotation.T


def _of(decoder: Float[Tensor, "dimensions 2"]) -> list[tuple[str, float]]:
    x, y = linear.noise_cost(decoder, torch.eye(2, dtype=torch.float64)).tolist()
    best = linear.cheapest_variance(decoder, 0.0)
    return [
        ("coefficient of variance x", x),
        ("coefficient of variance y", y),
        (COST, _cost(decoder)),
        ("best variance x / variance y", float(best[0] / best[1])),
        ("DtO", _distance(decoder)),
    ]


def _cost(decoder: Float[Tensor, "dimensions 2"]) -> float:
    """The factor before e^-C in eq. 25 and 26."""
    return float(linear.cheapest_noise_cost(decoder, 0.0))


def _distance(decoder: Float[Tensor, "dimensions 2"]) -> float:
    return distance_to_orthogonality(lambda codes: codes @ decoder.T, torch.zeros(1, 2, dtype=torch.float64)).score


STUDIES = (
    Study(
        "rolinek-toy",
        "Rolinek et al., section 4, equations 24 to 26",
        "What does the noise of the code cost at best, under a decoder and under the same decoder rotated?",
        "Nothing is trained. Equation 23 fixes the sum of -log(variance), equations 25 and 26 write e^-C, which holds "
        "when C is the KL, half of that sum: the factor before e^-C is what we give. We add the decoder rotated to "
        "orthogonal columns, which equation 27 asks for and the text does not work out.",
        toy,
        exact=True,
        claims=claims.TOY,
    ),
)
