"""The mean against the sampled representation, by types of variables (Bonheme, sections 6.4.2-6.4.4, 6.5 and 8.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics import information, linalg
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.regime.combinations import FULL, MEAN, REPRESENTATIONS, SAMPLED, combinations, tables_of, types_of

MEASURES = ("total_correlation", "averaged_mutual_information", "effective_rank", "covariance_effective_rank")


@dataclass(frozen=True)
class Dependence:
    """How much the latents of a combination share; None throughout for fewer than two of them.

    Attributes:
        representation: mean or sampled.
        combination: full, or the types of its latents joined by +.
        latents: the places of its latents.
        total_correlation: of a Gaussian with the same covariance, in nats (eq. 6.3); may be infinite.
        averaged_mutual_information: over pairs of binned latents, in nats (eq. 6.9-6.10); the estimate for
            independent latents is about (bins - 1)^2 / (2 items), not 0.
        effective_rank: of the centred codes (section 6.4.2.3).
        covariance_effective_rank: of their covariance, which the thesis' code uses.
        correlation: latents x latents, 0 for a latent that does not vary (section 6.5).
        notes: what the numbers do not say.
    """

    representation: str
    combination: str
    latents: tuple[int, ...]
    total_correlation: float | None = None
    averaged_mutual_information: float | None = None
    effective_rank: float | None = None
    covariance_effective_rank: float | None = None
    correlation: Float[np.ndarray, "latents latents"] | None = field(default=None, repr=False, compare=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeanAndSampled(NotebookResult):
    """Every combination of types in both representations, and the traces of both covariances."""

    items: int
    types: tuple[str, ...]
    bins: int
    mean_trace: float
    sampled_trace: float
    entries: tuple[Dependence, ...]

    @property
    def trace_difference(self) -> float:
        """Tr Var[Z] - Tr Var[M]: 0 for active latents, 1 for each passive one (propositions 8.3.1-8.3.3)."""
        return self.sampled_trace - self.mean_trace

    def entry(self, representation: str, combination: str = FULL) -> Dependence:
        """What was found for one representation and one combination of types."""
        known = {(entry.representation, entry.combination): entry for entry in self.entries}
        if (representation, combination) not in known:
            choices = ", ".join(" ".join(key) for key in known)
            raise DataError(f"an entry must be one of {choices}; got {representation} {combination}.")
        return known[representation, combination]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each representation and combination, without the matrices of correlations."""
        return [
            {
                "representation": entry.representation,
                "combination": entry.combination,
                "latents": len(entry.latents),
                **{name: getattr(entry, name) for name in MEASURES},
                "notes": " ".join(entry.notes),
            }
            for entry in self.entries
        ]

    def summary(self) -> str:
        """One line: the trace difference beside the passive latents, and what each representation shares."""
        passive = self.types.count(PASSIVE)
        text = (
            f"The sampled codes vary by {self.trace_difference:.3g} more than the means "
            f"({passive} of {len(self.types)} latents passive)"
        )
        mean, sampled = (self.entry(name) for name in REPRESENTATIONS)
        if mean.total_correlation is None:
            return f"{text}; dependence is not applicable to one latent."
        return (
            f"{text}; total correlation {mean.total_correlation:.3g} nats in the means, "
            f"{sampled.total_correlation:.3g} in the samples; averaged mutual information "
            f"{mean.averaged_mutual_information:.3g} and {sampled.averaged_mutual_information:.3g}; "
            f"effective rank {mean.effective_rank:.3g} and {sampled.effective_rank:.3g}."
        )


def mean_and_sampled(codes: Any, types: Any, *, bins: int = information.BINS) -> MeanAndSampled:
    """Compare the two representations of the same items over every combination of types that occurs.

    Args:
        codes: a Representation, anything with `mean` and `sample`, or a pair of them, items x latents.
        types: 'active', 'mixed' or 'passive' for each latent, or anything that holds them as `types`.
        bins: of the histograms behind the mutual information.
    """
    bins = whole_number("bins", bins, 2, 1000)
    tables = tables_of(codes)
    items, latents = tables[MEAN].shape
    names = types_of(types, latents)
    if items <= latents:
        raise DataError(
            f"total correlation needs more items than latents, or the covariance is singular whatever the codes; "
            f"got {items} items of {latents} latents. Encode more items."
        )
    groups = combinations(names)
    entries: list[Dependence] = []
    traces: dict[str, float] = {}
    for name, table in tables.items():
        found = _Whole.of(table, bins)
        traces[name] = float(found.covariance.trace())
        entries += [_dependence(name, combination, places, found) for combination, places in groups.items()]
    return MeanAndSampled(items, names, bins, traces[MEAN], traces[SAMPLED], tuple(entries))


@dataclass(frozen=True)
class _Whole:
    """What one pass over all latents yields; any subset of latents is a part of each matrix."""

    covariance: Float[Tensor, "latents latents"]
    factor: Float[Tensor, "_ latents"]
    information: Float[Tensor, "latents latents"]

    @classmethod
    def of(cls, table: Tensor, bins: int) -> _Whole:
        shared = information.mutual_information_matrix(information.discretise(table, bins), bins)
        return cls(linalg.covariance(table).cpu(), linalg.centred_factor(table).cpu(), shared.cpu())


def _dependence(representation: str, combination: str, places: tuple[int, ...], whole: _Whole) -> Dependence:
    if len(places) < 2:
        reason = f"Not applicable: {combination} holds {len(places)} latent, dependence needs two."
        return Dependence(representation, combination, places, notes=(reason,))
    index = torch.tensor(places)
    covariance = whole.covariance[index][:, index]
    correlation = linalg.correlation(covariance)
    shared = information.total_correlation(covariance)
    matrix = correlation.matrix.numpy()
    matrix.flags.writeable = False
    return Dependence(
        representation,
        combination,
        places,
        shared,
        information.averaged_mutual_information(whole.information[index][:, index]),
        linalg.matrix_effective_rank(whole.factor[:, index]),
        linalg.matrix_effective_rank(covariance),
        matrix,
        _notes(places, correlation, shared),
    )


def _notes(places: tuple[int, ...], correlation: linalg.Correlation, shared: float) -> tuple[str, ...]:
    notes = []
    if correlation.constant:
        still = _listed(places[place] for place in correlation.constant)
        notes.append(f"Latents that do not vary, and so share nothing: {still}.")
    if math.isinf(shared):
        varies = [place for place in range(len(places)) if place not in correlation.constant]
        related = linalg.dependent_columns(correlation.matrix[varies][:, varies])
        bound = _listed(places[varies[place]] for place in related)
        notes.append(f"Total correlation is infinite: a linear relation ties the latents {bound} to each other.")
    return tuple(notes)


def _listed(places: Iterable[int]) -> str:
    return ", ".join(str(place) for place in places)
