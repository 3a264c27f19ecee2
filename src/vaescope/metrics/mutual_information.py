"""Mutual information between latents and factors: MIG, MIG-sup, modularity, and which latent encodes which factor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from vaescope.codes import CodesLike
from vaescope.metrics.inputs import FactorsLike, InputOptions, MetricInputs, metric_inputs
from vaescope.metrics.score import METRICS, MetricOptions, RawScore, Score, evaluate
from vaescope.notebook import NotebookResult
from vaescope.numerics.information import BINS, checked_bins, discretise, entropy, mutual_information

NATS_PER_BIT = math.log(2)
SIGNIFICANCE = 1e-4  # probability that a latent independent of a factor seems to encode it
MIN_SHARE_OF_ENTROPY = 0.1  # of a factor; a latent with less information about it does not encode it
MIN_SHARE_OF_BEST = 0.25  # latents with a smaller share of the best latent's information are not named
MAX_NAMED_LATENTS = 3  # others are counted


@METRICS.register(
    "mig", summary="does one latent hold more information about a factor than the next?", source="Chen et al. 2018"
)
def mig(codes: CodesLike, factors: FactorsLike = None, *, bins: int = BINS, **options: Unpack[MetricOptions]) -> Score:
    """The mean over factors of (I_1 - I_2) / H: the two largest mutual informations with a latent, and the entropy.

    All items count (10,000 in disentanglement_lib); more items make the score of noise smaller. The matrix has the
    mutual information of each latent and each factor, in nats.

    Args:
        bins: Number of bins of equal width, for latents and continuous factors.
        codes, factors, options: As in `evaluate`.
    """
    return evaluate("mig", _estimator(bins), partial(_gaps, bins=bins, axis=0), codes, factors, **options)


@METRICS.register(
    "mig_sup", summary="does a latent hold more information about one factor than the next?", source="Li et al. 2020"
)
def mig_sup(
    codes: CodesLike, factors: FactorsLike = None, *, bins: int = BINS, **options: Unpack[MetricOptions]
) -> Score:
    """The mean over latents of the gap between its two most informative factors (Li et al., 2020).

    Each mutual information is divided by the factor's entropy. With one factor there is no second to compare with, and
    the score is the mutual information itself. The arguments are those of `mig`.
    """
    return evaluate("mig_sup", _estimator(bins), partial(_gaps, bins=bins, axis=1), codes, factors, **options)


@METRICS.register(
    "modularity",
    summary="does a latent hold information about one factor alone?",
    source="Ridgeway and Mozer 2018",
    factors=2,
)
def modularity(
    codes: CodesLike, factors: FactorsLike = None, *, bins: int = BINS, **options: Unpack[MetricOptions]
) -> Score:
    """The mean over latents of 1 - (sum of I^2 over all factors except the best) / (I_best^2 (factors - 1)).

    I is the mutual information of the latent and a factor; the matrix has it, in nats. Latents without information are
    left out of the mean, and the part `uninformative` counts them (in disentanglement_lib each counts 0). With no other
    latents the score is 0. The arguments are those of `mig`.
    """
    return evaluate("modularity", _estimator(bins), partial(_modularity, bins=bins), codes, factors, **options)


@dataclass(frozen=True)
class Meaning(NotebookResult):
    """Mutual information in bits between each latent and each factor, and whether it is more than chance.

    A latent encodes a factor if their mutual information is more than chance and at least a tenth of the factor's
    entropy. Where rates are known, the same must hold of the latent's rate: by the data-processing inequality, a sample
    carries at most that about any factor, however well the mean predicts it.

    Attributes:
        bits: One row for each latent, one column for each factor.
        beyond_chance: Where independent values would give this much in one of ten thousand cases.
        entropies: The entropy of each factor in bits: the most that a latent can encode.
        factors: The names of the factors.
        latents: The indices of the latents in the representation.
        left_out: The rows of latents that are not considered, such as passive ones; see `leaving_out`.
        rates: The rate of each latent in nats; None if it is not considered, as for codes without a finite rate.
    """

    bits: Float[np.ndarray, "latents factors"] = field(repr=False)
    beyond_chance: Bool[np.ndarray, "latents factors"] = field(repr=False)
    entropies: tuple[float, ...]
    factors: tuple[str, ...]
    latents: tuple[int, ...]
    left_out: tuple[int, ...] = ()
    rates: tuple[float, ...] | None = None

    @property
    def encodes(self) -> Bool[np.ndarray, "latents factors"]:
        """Whether each latent encodes each factor."""
        found: np.ndarray = self.beyond_chance & (self.bits >= self._least) & self._rate_suffices
        return found

    def may_encode(self, place: int, factor: str) -> bool:
        """Whether the rate of the latent in a row is large enough for its samples to encode a factor."""
        return bool(self._rate_suffices[place, self.factors.index(factor)])

    @property
    def _least(self) -> Float[np.ndarray, "factors"]:
        """The bits about each factor from which on a latent encodes it."""
        return MIN_SHARE_OF_ENTROPY * np.array(self.entropies)

    @property
    def _rate_suffices(self) -> Bool[np.ndarray, "latents factors"]:
        if self.rates is None:
            return np.full(self.bits.shape, True)
        suffices: np.ndarray = np.array(self.rates)[:, None] / NATS_PER_BIT >= self._least
        return suffices

    def leaving_out(self, latents: Sequence[int]) -> Meaning:
        """The same, with latents that encode nothing.

        The means of passive latents can often be predicted from other latents, and so seem to encode factors; their
        samples are noise.
        """
        rows = tuple(place for place, latent in enumerate(self.latents) if latent in latents)
        beyond_chance = self.beyond_chance.copy()
        beyond_chance[list(rows)] = False
        return replace(self, beyond_chance=beyond_chance, left_out=rows)

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
            ("is", "are each", "encoded by one latent"): [name for name, count in counts.items() if count == 1],
            ("is", "are", "spread over several latents"): [name for name, count in counts.items() if count > 1],
            ("is", "are", "encoded by no latent"): [name for name, count in counts.items() if count == 0],
        }
        return "; ".join(
            f"{listed(names)} {one if len(names) == 1 else several} {words}"
            for (one, several, words), names in groups.items()
            if names
        )

    def carriers(self, factor: str) -> list[int]:
        """The rows of the latents that encode a factor, without those that encode much less than the best latent."""
        column = self.factors.index(factor)
        bits = np.where(self.encodes[:, column], self.bits[:, column], 0.0)
        order = np.argsort(-bits, kind="stable")
        return [int(place) for place in order if bits[place] > 0 and bits[place] >= MIN_SHARE_OF_BEST * bits.max()]

    def _sentence(self, place: int) -> str:
        encoded = [column for column, name in enumerate(self.factors) if place in self.carriers(name)]
        encoded.sort(key=lambda column: -self.bits[place, column])
        if place in self.left_out:
            return f"latent {self.latents[place]} is left out"
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
    **inputs: Unpack[InputOptions],
) -> Meaning:
    """Which latent encodes which factor, from histograms.

    For independent values, 2 x items x the estimated information is about chi-squared with (bins - 1)(values - 1)
    degrees of freedom, counting only bins and values that occur. More information than that is not chance.

    Args:
        codes: A `Representation` or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation`.
        bins: Number of bins of equal width, for latents and continuous factors.
        inputs: The keywords of `metric_inputs`, such as `names`, `discrete` and `rare`.
    """
    from scipy.stats import chi2

    checked_bins(bins)
    data = metric_inputs(codes, factors, **inputs)
    matrix, entropies = information_matrix(data, bins)
    values = [column.max() + 1 if kind else bins for column, kind in zip(data.factors.T, data.discrete, strict=True)]
    occupied = [len(np.unique(latent)) for latent in _binned_latents(data, bins)]
    degrees = np.outer(np.array(occupied) - 1, np.array(values) - 1).clip(min=1)
    limit = chi2.isf(SIGNIFICANCE, degrees) / (2 * len(data))
    bits = tuple((entropies / NATS_PER_BIT).tolist())
    return Meaning(matrix / NATS_PER_BIT, matrix > limit, bits, data.names, data.latents)


def information_matrix(
    data: MetricInputs, bins: int
) -> tuple[Float[np.ndarray, "latents factors"], Float[np.ndarray, "factors"]]:
    """The mutual information of each latent and each factor, and the entropy of each factor, in nats."""
    columns = [
        column.astype(np.int64) if kind else discretise(torch.from_numpy(column[:, None]), bins).numpy()[:, 0]
        for column, kind in zip(data.factors.T, data.discrete, strict=True)
    ]
    sizes = [int(column.max()) + 1 for column in columns]
    counts: list[list[np.ndarray]] = [[] for _ in columns]
    for latent in _binned_latents(data, bins):
        for found, column, values in zip(counts, columns, sizes, strict=True):
            found.append(np.bincount(latent * values + column, minlength=bins * values))
    matrix = np.empty((data.codes.shape[1], len(columns)))
    entropies = np.empty(len(columns))
    for place, (found, values) in enumerate(zip(counts, sizes, strict=True)):
        joint = torch.from_numpy(np.stack(found).reshape(-1, bins, values))
        matrix[:, place] = mutual_information(joint).numpy()
        entropies[place] = float(entropy(joint[0].sum(0)))
    return matrix, entropies


def _binned_latents(data: MetricInputs, bins: int) -> Iterator[Int[np.ndarray, "items"]]:
    """The bins of each latent in turn, since those of all would need as much memory as the codes."""
    for _, block in data.latent_blocks():
        yield from discretise(torch.from_numpy(block), bins).numpy().T.astype(np.int64)


def _estimator(bins: int) -> str:
    return f"{checked_bins(bins)} bins of equal width"


def _gaps(data: MetricInputs, seed: int, bins: int, axis: int) -> RawScore:
    matrix, entropies = information_matrix(data, bins)
    shares = matrix / entropies
    ordered = np.sort(shares, axis)
    first = np.take(ordered, -1, axis)
    gaps = first - np.take(ordered, -2, axis) if shares.shape[axis] > 1 else first
    by_factor = tuple(gaps.tolist()) if axis == 0 else None
    return RawScore(float(gaps.mean()), by_factor=by_factor, matrix=matrix)


def _modularity(data: MetricInputs, seed: int, bins: int) -> RawScore:
    data.require_several_factors()
    matrix = information_matrix(data, bins)[0]
    squares = matrix[matrix.max(1) > 0] ** 2
    best = squares.max(1, initial=0)
    by_latent = 1 - (squares.sum(1) - best) / (best * (len(data.names) - 1))
    parts = {"uninformative": float(len(matrix) - len(squares))}
    return RawScore(float(by_latent.mean()) if len(by_latent) else 0.0, parts, matrix=matrix)


def listed(names: Sequence[str]) -> str:
    """The names as 'a, b and c'."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
