"""Means vs. samples: dependence between latents by variable type (Bonheme, sections 6.4.2-6.4.4, 6.5 and 8.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics import information, linalg
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.regime.combinations import (
    FULL,
    MEAN,
    REPRESENTATIONS,
    SAMPLED,
    SampledCodes,
    TypesLike,
    checked_types,
    combinations,
    mean_and_sample_tables,
)
from vaescope.tables import Row

MEASURES = ("total_correlation", "averaged_mutual_information", "effective_rank", "covariance_effective_rank")


@dataclass(frozen=True)
class Dependence:
    """Dependence between the latents of one combination of types; measures are None for fewer than two latents.

    Attributes:
        representation: "mean" or "sampled".
        combination: "full", or variable types joined by "+".
        latents: The latents, by number.
        total_correlation: Of a Gaussian with the same covariance, in nats (eq. 6.3); may be infinite.
        averaged_mutual_information: Over pairs of binned latents, in nats (eq. 6.9-6.10); about
            (bins - 1)^2 / (2 items), not 0, for independent latents.
        effective_rank: Of the centred codes (section 6.4.2.3).
        covariance_effective_rank: Of their covariance, which the thesis' code uses.
        correlation: The correlation matrix, 0 for constant latents (section 6.5).
        notes: Remarks on the measures.
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
    """Dependence between latents in the mean and the sampled representation.

    Attributes:
        items: The number of items.
        types: The variable type of each latent.
        bins: The number of bins of the histograms behind the mutual information.
        mean_trace: The trace of the covariance of the means.
        sampled_trace: The trace of the covariance of the samples.
        entries: One entry for each representation and combination of types.
    """

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
        """The entry of one representation and one combination of types."""
        known = {(entry.representation, entry.combination): entry for entry in self.entries}
        if (representation, combination) not in known:
            choices = ", ".join(" ".join(key) for key in known)
            raise DataError(f"entry must be one of {choices}; got {representation} {combination}.")
        return known[representation, combination]

    def rows(self) -> list[Row]:
        """One row for each representation and combination, without the correlation matrices."""
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
        """The trace difference, the number of passive latents, and the dependence in both representations."""
        passive = self.types.count(PASSIVE)
        text = (
            f"The sampled codes vary by {self.trace_difference:.3g} more than the means "
            f"({passive} of {len(self.types)} latents passive)"
        )
        mean, sampled = (self.entry(name) for name in REPRESENTATIONS)
        if mean.total_correlation is None:
            return f"{text}; dependence needs at least two latents."
        return (
            f"{text}; total correlation {mean.total_correlation:.3g} nats in the means, "
            f"{sampled.total_correlation:.3g} in the samples; averaged mutual information "
            f"{mean.averaged_mutual_information:.3g} and {sampled.averaged_mutual_information:.3g}; "
            f"effective rank {mean.effective_rank:.3g} and {sampled.effective_rank:.3g}."
        )


def mean_and_sampled(codes: SampledCodes, types: TypesLike, *, bins: int = information.BINS) -> MeanAndSampled:
    """Compare dependence between latents in the means and in the samples, for each combination of types that occurs.

    Args:
        codes: A `Representation`, anything else with `mean` and `sample`, or a pair (mean, sample), items x latents.
        types: "active", "mixed" or "passive" for each latent, or a result with `types`, such as `VariableTypes`.
        bins: The number of bins of the histograms behind the mutual information.
    """
    bins = whole_number("bins", bins, 2, 1000)
    tables = mean_and_sample_tables(codes)
    items, latents = tables[MEAN].shape
    names = checked_types(types, latents)
    if items <= latents:
        raise DataError(
            f"total correlation needs more items than latents, got {items} items and {latents} latents. "
            "Encode more items."
        )
    groups = combinations(names)
    entries: list[Dependence] = []
    traces: dict[str, float] = {}
    for name, table in tables.items():
        found = _AllLatents.of(table, bins)
        traces[name] = float(found.covariance.trace())
        entries += [_dependence(name, combination, places, found) for combination, places in groups.items()]
    return MeanAndSampled(items, names, bins, traces[MEAN], traces[SAMPLED], tuple(entries))


@dataclass(frozen=True)
class _AllLatents:
    """Matrices over all latents, in which the matrices of any subset of latents are submatrices."""

    covariance: Float[Tensor, "latents latents"]
    factor: Float[Tensor, "_ latents"]
    information: Float[Tensor, "latents latents"]

    @classmethod
    def of(cls, table: Tensor, bins: int) -> _AllLatents:
        shared = information.mutual_information_matrix(information.discretise(table, bins), bins)
        return cls(linalg.covariance(table).cpu(), linalg.centred_factor(table).cpu(), shared.cpu())


def _dependence(representation: str, combination: str, places: tuple[int, ...], whole: _AllLatents) -> Dependence:
    if len(places) < 2:
        reason = f"Not applicable: {combination} has {len(places)} latent; dependence needs two."
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
        constant = _listed(places[place] for place in correlation.constant)
        notes.append(f"Constant latents, which share no information: {constant}.")
    if math.isinf(shared):
        varies = [place for place in range(len(places)) if place not in correlation.constant]
        related = linalg.dependent_columns(correlation.matrix[varies][:, varies])
        tied = _listed(places[varies[place]] for place in related)
        notes.append(f"Total correlation is infinite: the latents {tied} are linearly dependent.")
    return tuple(notes)


def _listed(places: Iterable[int]) -> str:
    return ", ".join(str(place) for place in places)
