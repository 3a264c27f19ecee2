"""Covariance, correlation and effective rank of codes, in float64 and in chunks (Bonheme, section 6.4.2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.moments import RunningMoments

CHUNK_NUMBERS = 2**20


def rows_per_chunk(columns: int) -> int:
    """The number of rows in a chunk of about `CHUNK_NUMBERS` entries."""
    return max(1, CHUNK_NUMBERS // max(1, columns))


def shifted(rows: Float[Tensor, "items columns"], chunk: int | None = None) -> Iterator[Float[Tensor, "_ columns"]]:
    """The rows minus the first row, in float64 chunks.

    The shift changes no covariance, makes constant columns exactly 0, and loses no digits to a large offset.
    """
    chunk = rows_per_chunk(rows.shape[1]) if chunk is None else chunk
    origin = rows[0].to(torch.float64)
    for start in range(0, len(rows), chunk):
        # A fixed layout makes the order of summation, and so the rounding, independent of the layout of the rows.
        yield rows[start : start + chunk].to(torch.float64).contiguous() - origin


def covariance(rows: Float[Tensor, "items columns"], chunk: int | None = None) -> Float[Tensor, "columns columns"]:
    """The unbiased covariance; exactly 0 in the rows and columns of constant columns."""
    return RunningMoments.over(shifted(rows, chunk)).covariance()


def centred_factor(rows: Float[Tensor, "items columns"], chunk: int | None = None) -> Float[Tensor, "_ columns"]:
    """An upper triangular R with R'R = A'A, A the centred rows, by a QR decomposition chunk by chunk.

    R[:, subset] has the singular values of A[:, subset], and keeps the small ones that A'A would round away.
    """
    mean = RunningMoments.over(shifted(rows, chunk)).mean
    factor = mean.new_zeros(0, rows.shape[1])
    for part in shifted(rows, chunk):
        factor = torch.linalg.qr(torch.cat([factor, part - mean]), mode="r").R
    return factor


def matrix_effective_rank(matrix: Float[Tensor, "rows columns"]) -> float:
    """exp H(p), p the singular values divided by their sum (section 6.4.2.3; Roy and Vetterli, 2007).

    It lies between 1 and the rank; it is 0 for a matrix of zeros.
    """
    values = torch.linalg.svdvals(matrix.to(torch.float64))
    total = values.sum()
    if total == 0:
        return 0.0
    return float(torch.exp(torch.special.entr(values / total).sum()))


def effective_rank(
    rows: Float[Tensor, "items columns"],
    of: Literal["representation", "covariance"] = "representation",
    chunk: int | None = None,
) -> float:
    """The effective rank of the centred rows (section 6.4.2.3) or of their covariance, as in the thesis' code."""
    return matrix_effective_rank(centred_factor(rows, chunk) if of == "representation" else covariance(rows, chunk))


@dataclass(frozen=True)
class Correlation:
    """A correlation matrix, and the constant columns, whose correlations are 0 (also with themselves)."""

    matrix: Float[Tensor, "columns columns"]
    constant: tuple[int, ...]


def correlation(covariance: Float[Tensor, "columns columns"]) -> Correlation:
    """Cov_ij / sqrt(Cov_ii Cov_jj)."""
    matrix = correlation_matrices(covariance)
    return Correlation(matrix, tuple((matrix.diagonal() == 0).nonzero().flatten().tolist()))


def correlation_matrices(covariances: Float[Tensor, "*many columns columns"]) -> Float[Tensor, "*many columns columns"]:
    """The correlations of one or more covariance matrices; 0 for constant columns."""
    covariances = covariances.to(torch.float64)
    deviation = covariances.diagonal(dim1=-2, dim2=-1).sqrt()
    varies = deviation > 0
    scale = torch.where(varies, deviation, torch.ones_like(deviation))
    matrices = (covariances / scale[..., None, :] / scale[..., None]).clamp(-1, 1)
    matrices = torch.where(varies[..., None, :] & varies[..., None], matrices, torch.zeros_like(matrices))
    matrices.diagonal(dim1=-2, dim2=-1).copy_(varies)
    return matrices


def rounding(columns: int) -> float:
    """The largest eigenvalue that rounding alone can cause in a singular correlation matrix."""
    return 64 * columns * torch.finfo(torch.float64).eps


def dependent_columns(correlation: Float[Tensor, "columns columns"]) -> tuple[int, ...]:
    """The columns that are part of a linear dependence: those in which the null space is not 0."""
    values, vectors = torch.linalg.eigh(correlation)
    null = vectors[:, values <= rounding(len(values))]
    return tuple((null.square().sum(1) > 1e-6).nonzero().flatten().tolist())


@contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 in float32 products and convolutions on a GPU in the block; the previous settings return."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


@contextmanager
def repeatable_convolutions() -> Iterator[None]:
    """Let cuDNN choose algorithms without timing them, and only those whose sums have one order, inside the block."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark, cudnn.deterministic = False, True
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before
