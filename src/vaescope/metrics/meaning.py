"""What each latent carries, in bits and in words: the information between latents and factors, above chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from vaescope.metrics.inputs import labelled
from vaescope.metrics.mig import information_matrix
from vaescope.notebook import NotebookResult
from vaescope.numerics.information import BINS, discretise

BIT = math.log(2)
CHANCE = 1e-4  # how rarely a latent may seem to carry a factor it is independent of
MINOR = 0.25  # a share of the best latent's information below which another is not worth naming
MANY = 3  # latents that are named; of more, their number is said


@dataclass(frozen=True)
class Meaning(NotebookResult):
    """Information in bits between each latent and each factor, and whether it is more than chance.

    Attributes:
        bits: One row for each latent, one column for each factor.
        beyond_chance: Where independent values would give so much once in ten thousand times.
        entropies: Of the factors, in bits: the most that can be carried.
        factors: The names of the factors.
        latents: The places of the latents in the representation.
    """

    bits: Float[np.ndarray, "latents factors"] = field(repr=False)
    beyond_chance: Bool[np.ndarray, "latents factors"] = field(repr=False)
    entropies: tuple[float, ...]
    factors: tuple[str, ...]
    latents: tuple[int, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each latent: the bits of every factor, and what it carries in words."""
        words = self.sentences()
        return [
            {"latent": latent, **dict(zip(self.factors, row.round(4).tolist(), strict=True)), "carries": text}
            for latent, row, text in zip(self.latents, self.bits, words, strict=True)
        ]

    def sentences(self) -> list[str]:
        """One for each latent: the factors it carries, and which other latents carry the first of them."""
        return [self._sentence(place) for place in range(len(self.latents))]

    def summary(self) -> str:
        """How many factors are carried by one latent alone, by several, by none."""
        carriers = [len(self.carriers(name)) for name in self.factors]
        alone, several, none = (
            [name for name, count in zip(self.factors, carriers, strict=True) if holds(count)]
            for holds in (lambda count: count == 1, lambda count: count > 1, lambda count: count == 0)
        )
        parts = []
        for names, words in (
            (alone, "carried by one latent"),
            (several, "spread over several"),
            (none, "carried by none"),
        ):
            if names:
                parts.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} {words}")
        return "; ".join(parts)

    def carriers(self, factor: str) -> list[int]:
        """The rows of the latents that carry a factor: beyond chance, and not little beside what the best carries."""
        column = self.factors.index(factor)
        bits = np.where(self.beyond_chance[:, column], self.bits[:, column], 0.0)
        order = np.argsort(-bits, kind="stable")
        return [int(place) for place in order if bits[place] > 0 and bits[place] >= MINOR * bits.max()]

    def _sentence(self, place: int) -> str:
        own = [column for column in range(len(self.factors)) if place in self.carriers(self.factors[column])]
        own.sort(key=lambda column: -self.bits[place, column])
        if not own:
            return f"latent {self.latents[place]} carries no factor"
        carried = listed([f"{self.factors[column]} ({self.bits[place, column]:.2f} bits)" for column in own])
        others = [self.latents[other] for other in self.carriers(self.factors[own[0]]) if other != place]
        named = [str(other) for other in others[:MANY]] + ([f"{len(others) - MANY} more"] if len(others) > MANY else [])
        shared = f"so {'does latent' if len(others) == 1 else 'do latents'} {listed(named)}"
        more = f"{self.factors[own[0]]}: {shared}" if len(own) > 1 else shared
        nothing = "nothing else does" if len(own) == 1 else f"nothing else carries {self.factors[own[0]]}"
        return f"latent {self.latents[place]} carries {carried}; {more if others else nothing}"


def meaning(
    codes: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: Any = None,
) -> Meaning:
    """What each latent carries of each factor, from histograms of `bins` of equal width.

    Of independent values, 2 items times the estimate is about chi-squared with (bins - 1)(values - 1) degrees of
    freedom, bins and values that do not occur left out, which tells information from chance.
    """
    from scipy.stats import chi2

    data = labelled(codes, factors, names=names, exclude=exclude, types=types)
    matrix, entropies = information_matrix(data, bins)
    values = [column.max() + 1 if kind else bins for column, kind in zip(data.factors.T, data.discrete, strict=True)]
    occupied = [len(latent.unique()) for latent in discretise(torch.from_numpy(data.codes), bins).T]
    degrees = np.outer(np.array(occupied) - 1, np.array(values) - 1).clip(min=1)
    limit = chi2.isf(CHANCE, degrees) / (2 * len(data))
    return Meaning(matrix / BIT, matrix > limit, tuple((entropies / BIT).tolist()), data.names, data.latents)


def listed(names: Any) -> str:
    """a, b and c."""
    words = list(names)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
