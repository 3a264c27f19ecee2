"""Sparse matrices as data sets: the stored numbers of all rows, made dense by the batch."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.codes.arrays import as_tensor
from vaescope.data.annotations import Annotation, annotate
from vaescope.data.arrays import MAX_FLOAT32, check_items
from vaescope.data.dataset import Dataset, Factors
from vaescope.data.labels import Labels, as_labels, factor_codes
from vaescope.data.sources import Source
from vaescope.errors import DataError

CHUNK_NUMBERS = 2**22  # stored numbers that are checked at once
SPARSE_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


@runtime_checkable
class SparseMatrix(Protocol):
    """A sparse matrix or array of scipy in any format."""

    dtype: np.dtype[np.generic]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and of columns."""

    def tocsr(self) -> CompressedRows:
        """The same numbers row by row."""


class CompressedRows(SparseMatrix, Protocol):
    """A sparse matrix in compressed rows (CSR).

    Attributes:
        data, indices: The stored numbers of all rows, one row after another, and the column of each.
        indptr: The position of the first number of each row, and the end of the last.
        has_canonical_format: Whether the columns of each row ascend.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    has_canonical_format: bool

    def check_format(self, full_check: bool) -> None:
        """Raise a ValueError if positions or columns are out of range."""

    def copy(self) -> CompressedRows:
        """A copy."""

    def sum_duplicates(self) -> None:
        """Sort each row by column, and add up the numbers that share one."""


@dataclass(frozen=True, repr=False)
class SparseDataset(Dataset):
    """The rows of a sparse matrix as vectors.

    Attributes:
        values, columns: The stored numbers of all rows, one row after another, and the column of each.
        starts: The position of the first number of each row, and the end of the last.
        width: The largest number of stored numbers in a row.
    """

    name: str
    values: Tensor
    columns: Int[Tensor, "stored"]
    starts: Int[Tensor, "items+1"]
    width: int
    shape: tuple[int, ...]
    digest: str
    holds_counts: bool = False
    labels: Int[Tensor, "items"] | None = None
    label_names: tuple[str, ...] | None = None
    factor_table: Factors | None = None
    factor_codes: Int[Tensor, "items factors"] | None = None
    source: Source | None = field(default=None, compare=False)
    standardise: bool = False

    def __len__(self) -> int:
        return len(self.starts) - 1

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch columns"]:
        rows = index.to(self.values.device)
        # As wide as the longest row for each item: shapes that depend on the items cannot be compiled.
        place = self.starts[rows, None] + torch.arange(self.width, device=rows.device)
        is_stored = place < self.starts[rows + 1, None]
        place = place.clamp_max(len(self.values) - 1)
        columns = torch.where(is_stored, self.columns[place], 0).long()
        values = torch.where(is_stored, self.values[place], 0).float()
        return values.new_zeros(len(index), *self.shape).scatter_add_(1, columns, values).to(index.device)

    def to(self, device: torch.device | str) -> SparseDataset:
        moved = {name: getattr(self, name).to(device) for name in ("values", "columns", "starts")}
        return replace(self, **moved)

    @property
    def resident_bytes(self) -> int:
        return self.values.nbytes + self.columns.nbytes + self.starts.nbytes

    @property
    def fingerprint(self) -> str:
        return self.digest


def from_sparse(
    matrix: SparseMatrix,
    name: str = "matrix",
    *,
    labels: Annotation | Labels | None = None,
    factors: Annotation | None = None,
    factor_names: tuple[str, ...] | None = None,
    as_given: bool = False,
) -> SparseDataset:
    """A data set of the rows of a sparse matrix; compressed rows (CSR) are shared, other formats converted once.

    Args:
        matrix: Items x dimensions, of any format and any real numbers.
        labels, factors, factor_names: As in `from_array`.
        as_given: Whether the items are for a trained model: one item is enough, and all numbers may be equal.
    """
    if len(matrix.shape) != 2:
        raise DataError(f"{name}: a sparse array must be items x dimensions, got shape {matrix.shape}. Reshape it.")
    check_items(name, matrix.shape, as_given)
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"{name}: a sparse matrix must hold real numbers, got type {matrix.dtype}. Convert it.")
    rows = _canonical(matrix.tocsr(), name)
    lowest, highest, whole = _inspect(rows, name)
    if lowest == highest and not as_given:
        raise DataError(f"{name}: the items must differ, but all numbers are {lowest:g}. Check how they were read.")
    given = annotate(name, labels, factors, factor_names)
    known = None if given.labels is None else as_labels(given.labels, rows.shape[0], name)
    table, codes = (
        (None, None) if given.factors is None else factor_codes(given.factors, given.factor_names, rows.shape[0], name)
    )
    return SparseDataset(
        name,
        # One zero if nothing is stored, because there must be a number to read.
        as_tensor(rows.data, name) if len(rows.data) else torch.zeros(1),
        as_tensor(rows.indices, name) if len(rows.data) else torch.zeros(1, dtype=torch.int32),
        torch.from_numpy(rows.indptr.astype(np.int64)),
        int(np.diff(rows.indptr).max()),
        (rows.shape[1],),
        _digest(rows),
        holds_counts=whole and lowest >= 0 and highest > 1,
        labels=None if known is None else torch.from_numpy(known.numbers),
        label_names=None if known is None else known.names,
        factor_table=table,
        factor_codes=codes,
    )


def rows_of(tensor: Tensor) -> SparseMatrix:
    """A sparse tensor of torch as a sparse array of scipy, on the CPU."""
    import scipy.sparse

    if tensor.is_complex() or tensor.ndim != 2 or tensor.dense_dim():
        raise DataError(
            f"matrix: a sparse tensor must be items x dimensions of real numbers, got shape {tuple(tensor.shape)} of "
            f"type {tensor.dtype}. Reshape or convert it."
        )
    pairs = tensor.detach().cpu().to_sparse_coo().coalesce()
    values = pairs.values().float() if pairs.dtype in (torch.bfloat16, torch.float16) else pairs.values()
    found: SparseMatrix = scipy.sparse.csr_array((values.numpy(), pairs.indices().numpy()), tuple(tensor.shape))
    return found


def _canonical(rows: CompressedRows, name: str) -> CompressedRows:
    """The matrix with ascending columns in each row; the user's is not changed."""
    try:
        rows.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"{name}: a sparse matrix must have columns within its shape, but {error}.") from error
    if rows.has_canonical_format:
        return rows
    ordered = rows.copy()
    ordered.sum_duplicates()
    return ordered


def _inspect(rows: CompressedRows, name: str) -> tuple[float, float, bool]:
    """The minimum and the maximum, and whether all numbers are whole."""
    has_zeros = len(rows.data) < math.prod(rows.shape)
    minimum, maximum, whole = (0.0, 0.0, True) if has_zeros else (np.inf, -np.inf, True)
    for start, stop in _spans(len(rows.data)):
        chunk = rows.data[start:stop]
        low, high = float(chunk.min()), float(chunk.max())
        if not (low >= -MAX_FLOAT32 and high <= MAX_FLOAT32):
            position = start + int((~(np.abs(chunk) <= MAX_FLOAT32)).argmax())
            item = int(np.searchsorted(rows.indptr, position, side="right")) - 1
            raise DataError(
                f"{name}: every number must be finite in single precision, but item {item} contains a NaN, an infinity "
                "or a number above 3e38. Drop such items or fill in the values."
            )
        minimum, maximum = min(minimum, low), max(maximum, high)
        whole = whole and (chunk.dtype.kind != "f" or bool((chunk == np.rint(chunk)).all()))
    return minimum, maximum, whole


def _digest(rows: CompressedRows) -> str:
    """A hash of the content, whatever the type of the positions."""
    digest = hashlib.sha256(f"sparse {rows.data.dtype.str}{rows.shape}".encode())
    for part, kind in ((rows.indptr, np.int64), (rows.indices, np.int64), (rows.data, rows.data.dtype)):
        for start, stop in _spans(len(part)):
            digest.update(np.ascontiguousarray(part[start:stop], dtype=kind).data)
    return digest.hexdigest()


def _spans(numbers: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, numbers, CHUNK_NUMBERS), numbers])) if numbers else []
