"""Total correlation and mutual information of codes, in nats (Bonheme, sections 6.4.2.1 and 6.4.2.2)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.errors import DataError
from vaescope.numerics.linalg import correlation, rounding, rows_per_chunk

BINS = 20
MAX_BINS = 2**15 - 1  # bins are numbered by 16-bit integers


def total_correlation(covariance: Float[Tensor, "latents latents"]) -> float:
    """(sum_j log Cov_jj - log det Cov) / 2, the total correlation of a Gaussian (eq. 6.3).

    Computed from the correlation matrix, so that no scale can overflow. Infinite if latents are linearly dependent;
    constant latents are independent of all others and add nothing (eq. 6.1).
    """
    _require_finite(covariance)
    found = correlation(covariance)
    varies = found.matrix.diagonal() > 0
    values = torch.linalg.eigvalsh(found.matrix[varies][:, varies])
    if not bool(varies.any()):
        return 0.0
    if float(values[0]) < -1e-6:
        raise DataError(
            f"covariance must have no negative eigenvalue, got {float(values[0]):g} for the correlations. "
            "Compute all entries from the same items."
        )
    if float(values[0]) <= rounding(len(values)):
        return math.inf
    return max(0.0, -0.5 * float(values.log().sum()))


def wasserstein_correlation(covariance: Float[Tensor, "latents latents"], *, normalise: bool = False) -> float:
    """2 (tr C - tr (D^1/2 C D^1/2)^1/2), the squared 2-Wasserstein distance of N(0, C) from N(0, D), D = diag C.

    Normalised, it is divided by tr C; 0 if that is 0.
    """
    _require_finite(covariance)
    covariance = covariance.double()
    deviation, trace = covariance.diagonal().sqrt(), float(covariance.trace())
    roots = torch.linalg.eigvalsh(deviation[:, None] * covariance * deviation).clamp(min=0).sqrt()
    distance = max(0.0, 2 * (trace - float(roots.sum())))
    return distance / trace if normalise and trace > 0 else distance


def _require_finite(covariance: Float[Tensor, "latents latents"]) -> None:
    if not bool(torch.isfinite(covariance).all()):
        raise DataError("covariance must be finite, but squares of the codes are too large. Rescale the codes.")


def checked_bins(bins: object) -> int:
    """A number of bins, or a `ConfigurationError`."""
    return whole_number("bins", bins, 2, MAX_BINS)


def discretise(rows: Float[Tensor, "items latents"], bins: int = BINS) -> Int[Tensor, "items latents"]:
    """The bin of each value, from 0: bins of equal width between the smallest and the largest value of the latent.

    As in numpy.histogram, the largest value is in the last bin.
    """
    codes = torch.empty(rows.shape, dtype=torch.int16, device=rows.device)
    for latent in range(rows.shape[1]):
        column = rows[:, latent].to(torch.float64).contiguous()
        low, high = column.min(), column.max()
        edges = low + torch.arange(bins, device=rows.device) * ((high - low) / bins)
        codes[:, latent] = (torch.searchsorted(edges, column, right=True) - 1).to(torch.int16)
    return codes


def entropy(counts: Int[Tensor, "*batch bins"]) -> Float[Tensor, "*batch"]:
    """-sum p log p, p the relative frequencies."""
    counts = counts.to(torch.float64)
    terms: Tensor = torch.special.entr(counts / counts.sum(-1, keepdim=True))
    return terms.sum(-1)


def mutual_information(joint: Int[Tensor, "*batch bins other"]) -> Float[Tensor, "*batch"]:
    """Mutual information of two discrete variables, from the counts of pairs of values (eq. 6.9)."""
    items = joint.sum((-2, -1), keepdim=True).to(torch.float64)
    # Products of integers are exact, so the information of independent counts is exactly 0.
    apart = (joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)).to(torch.float64)
    together = joint.to(torch.float64)
    ratio = items * together / apart.clamp(min=1)
    return torch.xlogy(together / items, ratio).sum((-2, -1)).clamp(min=0)


def mutual_information_matrix(
    codes: Int[Tensor, "items latents"], bins: int = BINS, chunk: int | None = None
) -> Float[Tensor, "latents latents"]:
    """Mutual information of each pair of discretised latents (eq. 6.9); entropies on the diagonal.

    `codes` are integers from 0 to bins - 1. Memory holds `chunk` rows and the counts of one latent with all others.
    """
    latents = codes.shape[1]
    matrix = torch.zeros(latents, latents, dtype=torch.float64, device=codes.device)
    for latent in range(latents):
        matrix[latent, latent:] = mutual_information(_joint_counts(codes, latent, bins, chunk))
    return matrix + matrix.triu(1).T


def averaged_mutual_information(matrix: Float[Tensor, "latents latents"]) -> float:
    """The mean of the entries off the diagonal (eq. 6.10)."""
    latents = len(matrix)
    if latents < 2:
        raise DataError(
            f"averaged mutual information is a mean over pairs of latents: it needs at least 2 latents, got {latents}."
        )
    apart = matrix - torch.diag(matrix.diagonal())
    return float(apart.sum()) / (latents * latents - latents)


def _joint_counts(
    codes: Int[Tensor, "items latents"], first: int, bins: int, chunk: int | None
) -> Int[Tensor, "others bins bins"]:
    """Counts of each pair of bins, for latent `first` with itself and with every later latent."""
    others = codes.shape[1] - first
    chunk = rows_per_chunk(others) if chunk is None else chunk
    offset = torch.arange(others, device=codes.device) * bins * bins
    counts = torch.zeros(others * bins * bins, dtype=torch.int64, device=codes.device)
    for start in range(0, len(codes), chunk):
        part = codes[start : start + chunk, first:].to(torch.int64)
        place = part[:, :1] * bins + part + offset
        counts += torch.bincount(place.flatten(), minlength=len(counts))
    return counts.view(others, bins, bins)
