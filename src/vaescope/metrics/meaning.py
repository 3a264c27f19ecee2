"""Which latent encodes which factor, in bits and in words: mutual information beyond chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from vaescope.metrics.inputs import CodesLike, FactorsLike, TypesLike, metric_inputs
from vaescope.metrics.mutual_information import information_matrix
from vaescope.notebook import NotebookResult
from vaescope.numerics.information import BINS, discretise

NATS_PER_BIT = math.log(2)
SIGNIFICANCE = 1e-4  # probability that a latent independent of a factor seems to encode it
MIN_SHARE_OF_BEST = 0.25  # latents with a smaller share of the best latent's information are not named
MAX_NAMED_LATENTS = 3  # others are counted


@dataclass(frozen=True)
class Meaning(NotebookResult):
    """Mutual information in bits between each latent and each factor, and whether it is more than chance.

    Attributes:
        bits: One row for each latent, one column for each factor.
        beyond_chance: Where independent values would give this much in one of ten thousand cases.
        entropies: The entropy of each factor in bits: the most that a latent can encode.
        factors: The names of the factors.
        latents: The indices of the latents in the representation.
    """

    bits: Float[np.ndarray, "latents factors"] = field(repr=False)
    beyond_chance: Bool[np.ndarray, "latents factors"] = field(repr=False)
    entropies: tuple[float, ...]
    factors: tuple[str, ...]
    latents: tuple[int, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each latent: the bits of every factor, and what it encodes in words."""
        return [
            {"latent": latent, **dict(zip(self.factors, row.round(4).tolist(), strict=True)), "encodes": text}
            for latent, row, text in zip(self.latents, self.bits, self.sentences(), strict=True)
        ]

    def sentences(self) -> list[str]:
        """One for each latent: the factors it encodes, and which other latents encode the first of them."""
        return [self._sentence(place) for place in range(len(self.latents))]

    def summary(self) -> str:
        """Which factors are encoded by one latent alone, by several, by none."""
        counts = {name: len(self.carriers(name)) for name in self.factors}
        groups = {
            "encoded by one latent": [name for name, count in counts.items() if count == 1],
            "spread over several latents": [name for name, count in counts.items() if count > 1],
            "encoded by no latent": [name for name, count in counts.items() if count == 0],
        }
        parts = [(names, words) for words, names in groups.items() if names]
        return "; ".join(f"{listed(names)} {'is' if len(names) == 1 else 'are'} {words}" for names, words in parts)

    def carriers(self, factor: str) -> list[int]:
        """The rows of the latents that encode a factor: beyond chance, and not much less than the best latent."""
        column = self.factors.index(factor)
        bits = np.where(self.beyond_chance[:, column], self.bits[:, column], 0.0)
        order = np.argsort(-bits, kind="stable")
        return [int(place) for place in order if bits[place] > 0 and bits[place] >= MIN_SHARE_OF_BEST * bits.max()]

    def _sentence(self, place: int) -> str:
        encoded = [column for column, name in enumerate(self.factors) if place in self.carriers(name)]
        encoded.sort(key=lambda column: -self.bits[place, column])
        if not encoded:
            return f"latent {self.latents[place]} encodes no factor"
        found = listed([f"{self.factors[column]} ({self.bits[place, column]:.2f} bits)" for column in encoded])
        best = self.factors[encoded[0]]
        others = [str(self.latents[other]) for other in self.carriers(best) if other != place]
        named = others[:MAX_NAMED_LATENTS]
        if len(others) > len(named):
            named.append(f"{len(others) - len(named)} more")
        if not others:
            rest = "no other latent does" if len(encoded) == 1 else f"no other latent encodes {best}"
        else:
            does = f"so {'does latent' if len(others) == 1 else 'do latents'} {listed(named)}"
            rest = does if len(encoded) == 1 else f"{best}: {does}"
        return f"latent {self.latents[place]} encodes {found}; {rest}"


def meaning(
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    bins: int = BINS,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: TypesLike = None,
) -> Meaning:
    """Which latent encodes which factor, from histograms.

    For independent values, 2 x items x the estimated information is about chi-squared with (bins - 1)(values - 1)
    degrees of freedom, counting only bins and values that occur. More information than that is not chance.

    Args:
        codes: A `Representation` or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation`.
        bins: Number of bins of equal width, for latents and continuous factors.
        names, exclude, types: As in `MetricOptions`.
    """
    from scipy.stats import chi2

    data = metric_inputs(codes, factors, names=names, exclude=exclude, types=types)
    matrix, entropies = information_matrix(data, bins)
    values = [column.max() + 1 if kind else bins for column, kind in zip(data.factors.T, data.discrete, strict=True)]
    occupied = [len(np.unique(latent)) for latent in discretise(torch.from_numpy(data.codes), bins).numpy().T]
    degrees = np.outer(np.array(occupied) - 1, np.array(values) - 1).clip(min=1)
    limit = chi2.isf(SIGNIFICANCE, degrees) / (2 * len(data))
    bits = tuple((entropies / NATS_PER_BIT).tolist())
    return Meaning(matrix / NATS_PER_BIT, matrix > limit, bits, data.names, data.latents)


def listed(names: Sequence[str]) -> str:
    """The names as 'a, b and c'."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
