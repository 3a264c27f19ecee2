"""Single-cell data: the cells of an AnnData, or of an .h5ad file, as vectors of counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from vaescope.codes.arrays import ArrayLike, as_numpy
from vaescope.codes.reading import reading
from vaescope.data.arrays import CHUNK_BYTES, ArrayDataset, from_array
from vaescope.data.dataset import Missing
from vaescope.data.labels import column_codes, column_labels
from vaescope.data.sources import passing
from vaescope.data.sparse import SparseDataset, SparseMatrix, from_sparse
from vaescope.errors import DataError, LikelihoodWarning

NOT_KNOWN = ("None", "nan", "<NA>", "NaT")
MAIN, RAW, COUNTS = "X", "raw", "counts"  # the matrix of an AnnData, that before selecting genes, a usual layer


class CellMatrix(Protocol):
    """Cells x genes: an array, a sparse matrix, or one in a file."""

    @property
    def shape(self) -> tuple[int, int]:
        """The number of cells and of genes."""

    def __getitem__(self, rows: object) -> object:
        """Some rows."""


class AnnotationTable(Protocol):
    """A table of pandas."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""

    def __getitem__(self, column: str) -> ArrayLike:
        """A column."""

    def copy(self) -> AnnotationTable:
        """A copy of it."""


class Raw(Protocol):
    """The part of `anndata.Raw` that is used."""

    X: object


class AnnData(Protocol):
    """The part of `anndata.AnnData` that is used."""

    X: object
    raw: Raw | None
    obs: AnnotationTable
    var: AnnotationTable
    layers: Mapping[str, object]
    obsm: Mapping[str, object]
    uns: Mapping[str, object]
    isbacked: bool

    def __init__(
        self,
        X: object,
        *,
        obs: AnnotationTable,
        var: AnnotationTable,
        layers: Mapping[str, object],
        obsm: Mapping[str, object],
        uns: Mapping[str, object],
    ) -> None: ...

    def copy(self) -> AnnData:
        """A copy of it."""

    def to_memory(self) -> AnnData:
        """The same without a file."""


@runtime_checkable
class _InFile(Protocol):
    """A sparse matrix in the file of a backed AnnData."""

    def to_memory(self) -> object:
        """The matrix in memory."""


def is_anndata(data: object) -> TypeGuard[AnnData]:
    """Whether this is an AnnData or a MuData."""
    return hasattr(data, "n_obs") and hasattr(data, "obs") and hasattr(data, "uns")


@dataclass(frozen=True)
class _Cells:
    """Where matrices and columns of cells come from.

    Attributes:
        name: What messages call the cells.
        matrices: Reads each matrix into memory.
        columns: The names of the columns.
        column: Reads a column.
    """

    name: str
    matrices: Mapping[str, Callable[[], object]]
    columns: Sequence[str]
    column: Callable[[str], ArrayLike]

    def values(self, column: str) -> np.ndarray:
        """A column."""
        if column not in self.columns:
            raise DataError(
                f"{self.name}: labels and factors must be columns of obs, which has "
                f"{', '.join(self.columns) or 'none'}, got {column!r}. Choose one of them."
            )
        values = np.asarray(self.column(column))
        if values.dtype != object:
            return values
        # Missing values are None, as in tables; pandas has three objects for them, depending on the column.
        known = [isinstance(entry, str) or str(entry) not in NOT_KNOWN for entry in values]
        return np.where(known, values, np.array(None, object))

    def open(
        self,
        layer: str | None,
        labels: str | ArrayLike | None,
        factors: Sequence[str] | None,
        missing: Missing | None,
        as_given: bool = False,
    ) -> ArrayDataset | SparseDataset:
        """The rows of a matrix as a data set."""
        chosen = MAIN if layer is None else layer
        if chosen not in self.matrices:
            raise DataError(
                f"{self.name}: layer must be one of {', '.join(self.matrices) or '(none is there)'}, got "
                f"{'no layer and no X' if layer is None else repr(layer)}. Pass {passing('layer', 'NAME')} to name one."
            )
        names = (factors,) if isinstance(factors, str) else tuple(factors or ())
        codes = [column_codes(self.values(column), self.name, column) for column in names]
        classes = column_labels(self.values(labels), self.name, labels) if isinstance(labels, str) else labels
        table, matrix = np.stack(codes, 1) if codes else None, self.matrices[chosen]()
        rows = matrix if isinstance(matrix, SparseMatrix) else as_numpy(matrix, self.name)
        if missing is not None and not isinstance(rows, np.ndarray):
            raise DataError(
                f"{self.name}: missing={missing!r} is for dense matrices; in a sparse one, numbers that are not stored "
                "are zero. Leave it out."
            )
        data: ArrayDataset | SparseDataset
        if isinstance(rows, np.ndarray):
            opened = partial(from_array, rows, self.name, image=False, missing=missing)
            data = opened(labels=classes, factors=table, factor_names=names or None, as_given=as_given)
            data = replace(data, holds_counts=_are_counts(rows))
        else:
            opener = partial(from_sparse, rows, self.name)
            data = opener(labels=classes, factors=table, factor_names=names or None, as_given=as_given)
        if layer is None and not data.holds_counts:
            self._warn_of_counts()
        return data

    def _warn_of_counts(self) -> None:
        """Say where the counts are, if X holds other numbers."""
        elsewhere = [name for name in (COUNTS, RAW) if name in self.matrices]
        if elsewhere:
            warnings.warn(
                f"{self.name}: X does not hold counts (whole numbers of at least 0); {elsewhere[0]!r} may. Pass "
                f"{passing('layer', elsewhere[0])} to train on it.",
                LikelihoodWarning,
                stacklevel=2,
            )


def from_anndata(
    adata: AnnData,
    name: str = "cells",
    *,
    layer: str | None = None,
    labels: str | ArrayLike | None = None,
    factors: Sequence[str] | None = None,
    missing: Missing | None = None,
    as_given: bool = False,
) -> ArrayDataset | SparseDataset:
    """The cells of an AnnData, one item each; a sparse matrix stays sparse, and one in a file is read into memory.

    Args:
        layer: The name of a layer, or 'raw' for the matrix before genes were selected. Default: X.
        labels: The class of each cell: a column of obs, or a value for each cell.
        factors: Columns of obs that say something else about a cell, such as its batch; values are numbered.
        missing: 'mask' if numbers of a dense matrix may be NaN: see `from_array`.
        as_given: As in `from_sparse`.
    """
    if hasattr(adata, "mod"):
        raise DataError(f"{name}: cells must be an AnnData, got a MuData of several. Pass one: mdata['rna'].")
    matrices: dict[str, Callable[[], object]] = {} if adata.X is None else {MAIN: lambda: _in_memory(adata.X)}
    if adata.raw is not None:
        raw = adata.raw
        matrices[RAW] = lambda: _in_memory(raw.X)
    matrices |= {key: partial(_in_memory, found) for key, found in adata.layers.items()}
    cells = _Cells(name, matrices, list(adata.obs.columns), adata.obs.__getitem__)
    return cells.open(layer, labels, factors, missing, as_given)


def open_h5ad(
    path: Path,
    *,
    layer: str | None = None,
    labels: str | ArrayLike | None = None,
    factors: Sequence[str] | None = None,
    missing: Missing | None = None,
) -> ArrayDataset | SparseDataset:
    """The cells of an .h5ad file; of its matrices and columns, only those that are used are read.

    The options are those of `from_anndata`.
    """
    try:
        import h5py
        from anndata.io import read_elem
    except ModuleNotFoundError as error:
        raise DataError(
            f"reading {path} needs the package anndata, which is not installed. Run: pip install 'vaescope[anndata]'"
        ) from error
    with reading(path, "an .h5ad file"), h5py.File(path, "r") as file:
        places = {MAIN: MAIN, RAW: f"{RAW}/{MAIN}"} | {key: f"layers/{key}" for key in file.get("layers", ())}
        matrices = {key: partial(read_elem, file[place]) for key, place in places.items() if place in file}
        columns = list(file["obs"].attrs["column-order"])
        cells = _Cells(str(path), matrices, columns, lambda column: read_elem(file[f"obs/{column}"]))
        return cells.open(layer, labels, factors, missing)


def _in_memory(matrix: object) -> object:
    """A matrix that may be in the file of a backed AnnData, in memory."""
    if isinstance(matrix, np.ndarray):  # of a slice of an AnnData, it is a subclass
        return np.asarray(matrix)
    return matrix.to_memory() if isinstance(matrix, _InFile) else matrix


def _are_counts(table: np.ndarray) -> bool:
    """Whether all numbers are whole and at least 0, and some are above 1."""
    rows = max(1, CHUNK_BYTES // max(1, table[:1].nbytes))
    parts = (table[start : start + rows] for start in range(0, len(table), rows))
    return bool(table.max() > 1) and all(bool((part >= 0).all() and (part == np.rint(part)).all()) for part in parts)
