"""Means vs. samples: dependence between latents by variable type (Bonheme, sections 6.4.2-6.4.4, 6.5 and 8.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.arrays import ArrayLike, as_table
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics import information, linalg
from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE
from vaescope.regime.variable_types import TypesLike, checked_types
from vaescope.tables import Row

FULL = "full"
MEAN, SAMPLED = "mean", "sampled"
REPRESENTATIONS = (MEAN, SAMPLED)
COMBINATIONS = ((ACTIVE,), (MIXED,), (PASSIVE,), (ACTIVE, MIXED), (ACTIVE, PASSIVE), (MIXED, PASSIVE))
MEASURES = ("total_correlation", "averaged_mutual_information", "effective_rank", "covariance_effective_rank")


@runtime_checkable
class MeanAndSample(Protocol):
    """Codes with a mean and a sampled representation, items x latents, such as a `Representation`."""

    @property
    def mean(self) -> ArrayLike: ...

    @property
    def sample(self) -> ArrayLike: ...


SampledCodes: TypeAlias = MeanAndSample | tuple[ArrayLike, ArrayLike]


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
    tables, names, groups = grouped_tables(codes, types)
    items, latents = tables[MEAN].shape
    if items <= latents:
        raise DataError(
            f"total correlation needs more items than latents, got {items} items and {latents} latents. "
            "Encode more items."
        )
    entries: list[Dependence] = []
    traces: dict[str, float] = {}
    for name, table in tables.items():
        # Matrices over all latents; those of any subset of latents are submatrices.
        covariance, factor = linalg.covariance(table).cpu(), linalg.centred_factor(table).cpu()
        shared = information.mutual_information_matrix(information.discretise(table, bins), bins).cpu()
        traces[name] = float(covariance.trace())
        for combination, places in groups.items():
            entry = Dependence(name, combination, places)
            if len(places) < 2:
                reason = f"Not applicable: {combination} has {len(places)} latent; dependence needs two."
                entries.append(replace(entry, notes=(reason,)))
                continue
            index = torch.tensor(places)
            part = covariance[index][:, index]
            correlation, total = linalg.correlation(part), information.total_correlation(part)
            matrix = correlation.matrix.numpy()
            matrix.flags.writeable = False
            measured = replace(
                entry,
                total_correlation=total,
                averaged_mutual_information=information.averaged_mutual_information(shared[index][:, index]),
                effective_rank=linalg.matrix_effective_rank(factor[:, index]),
                covariance_effective_rank=linalg.matrix_effective_rank(part),
                correlation=matrix,
                notes=_notes(places, correlation, total),
            )
            entries.append(measured)
    return MeanAndSampled(items, names, bins, traces[MEAN], traces[SAMPLED], tuple(entries))


def grouped_tables(
    codes: SampledCodes, types: TypesLike
) -> tuple[dict[str, Float[Tensor, "items latents"]], tuple[str, ...], dict[str, tuple[int, ...]]]:
    """The checked mean and sampled codes, the type of each latent, and the latents of each combination of types.

    The full representation is the first combination; the others are those of types that occur (section 6.4.4).
    """
    tables = mean_and_sample_tables(codes)
    names = checked_types(types, tables[MEAN].shape[1])
    groups = {FULL: tuple(range(len(names)))}
    for chosen in COMBINATIONS:
        if all(kind in names for kind in chosen):
            groups["+".join(chosen)] = tuple(place for place, kind in enumerate(names) if kind in chosen)
    return tables, names, groups


def mean_and_sample_tables(codes: SampledCodes) -> dict[str, Float[Tensor, "items latents"]]:
    """The mean and the sampled codes as checked tensors on their devices, in their types."""
    pair = (codes.mean, codes.sample) if isinstance(codes, MeanAndSample) else codes
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(
            "codes must be a Representation or a pair (mean, sample) of arrays, items x latents; "
            f"got {type(codes).__name__}. Encode the data first."
        )
    tables = {MEAN: as_table(pair[0], "mean", min_items=2), SAMPLED: as_table(pair[1], "sample", min_items=2)}
    shapes = [tuple(table.shape) for table in tables.values()]
    if shapes[0] != shapes[1]:
        raise DataError(
            f"mean and sample must be of one shape, items x latents; got {shapes[0]} and {shapes[1]}. "
            "Encode the same items with the same model."
        )
    return tables


def _notes(places: tuple[int, ...], correlation: linalg.Correlation, total: float) -> tuple[str, ...]:
    notes = []
    if correlation.constant:
        constant = ", ".join(str(places[place]) for place in correlation.constant)
        notes.append(f"Constant latents, which share no information: {constant}.")
    if math.isinf(total):
        varies = [place for place in range(len(places)) if place not in correlation.constant]
        related = linalg.dependent_columns(correlation.matrix[varies][:, varies])
        tied = ", ".join(str(places[varies[place]]) for place in related)
        notes.append(f"Total correlation is infinite: the latents {tied} are linearly dependent.")
    return tuple(notes)
