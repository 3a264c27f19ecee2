"""Which latent of one model corresponds to which latent of another: the best one-to-one matching by correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from vaescope.checks import whole_number
from vaescope.codes import CodesLike, means_of
from vaescope.codes.arrays import as_table
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics.correlation import cross_correlations
from vaescope.tables import Row

MIN_MATCH = 0.8  # absolute correlation from which two latents count as the same
MIN_MATCHED_ITEMS = 30  # of fewer items, correlations are high by chance


@dataclass(frozen=True)
class LatentPair:
    """A latent of each model, and the correlation of their means, which is negative if they point opposite ways."""

    one: int
    other: int
    correlation: float

    @property
    def matches(self) -> bool:
        """Whether the two count as the same latent."""
        return abs(self.correlation) >= MIN_MATCH


@dataclass(frozen=True)
class LatentMatching(NotebookResult):
    """The one-to-one matching of the latents of two models with the greatest sum of absolute correlations.

    Attributes:
        pairs: One for each latent of the model with fewer latents, the strongest correlation first.
        latents: The latents of each model that were compared.
        correlations: The correlation of each compared latent of one model with each of the other.
    """

    pairs: tuple[LatentPair, ...]
    latents: tuple[tuple[int, ...], tuple[int, ...]]
    correlations: Float[np.ndarray, "latents others"] = field(repr=False, compare=False)

    @property
    def matched(self) -> int:
        """The number of pairs that count as the same latent."""
        return sum(pair.matches for pair in self.pairs)

    @property
    def most(self) -> int:
        """The number of latents of the model that has more: the most that could match."""
        return max(map(len, self.latents))

    @property
    def share(self) -> float:
        """The matched share of these latents; 0 if no model has latents."""
        return self.matched / self.most if self.most else 0.0

    def rows(self) -> list[Row]:
        """One row for each pair."""
        return [{**vars(pair), "match": pair.matches} for pair in self.pairs]

    def summary(self) -> str:
        """How many latents match."""
        return f"{self.matched} of {self.most} latents match (correlation of at least {MIN_MATCH:g})"


def match_latents(
    a: CodesLike, b: CodesLike, latents_a: Sequence[int] | None = None, latents_b: Sequence[int] | None = None
) -> LatentMatching:
    """Match the latents of two models by the absolute correlation of their means over the same items.

    Args:
        a, b: Representations of the same items, items x latents.
        latents_a, latents_b: The latents to match, such as those in use. Default: all.
    """
    from scipy.optimize import linear_sum_assignment

    tables = [as_table(means_of(codes), name).double().cpu().numpy() for codes, name in ((a, "a"), (b, "b"))]
    if len(tables[0]) != len(tables[1]):
        raise DataError(
            f"representations must be of the same items, a has {len(tables[0])} and b has {len(tables[1])}. Encode the "
            "same items with both."
        )
    chosen = [
        tuple(range(table.shape[1]) if latents is None else _checked(latents, table.shape[1]))
        for table, latents in zip(tables, (latents_a, latents_b), strict=True)
    ]
    correlations = cross_correlations(*(table[:, list(latents)] for table, latents in zip(tables, chosen, strict=True)))
    rows, columns = linear_sum_assignment(np.abs(correlations), maximize=True)
    pairs = [
        LatentPair(chosen[0][row], chosen[1][column], float(correlations[row, column]))
        for row, column in zip(rows, columns, strict=True)
    ]
    pairs.sort(key=lambda pair: -abs(pair.correlation))
    return LatentMatching(tuple(pairs), (chosen[0], chosen[1]), correlations)


def _checked(latents: Sequence[int], count: int) -> list[int]:
    return [whole_number("latent", one, 0, count - 1) for one in latents]
