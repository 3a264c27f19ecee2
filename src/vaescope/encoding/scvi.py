"""Models of scvi-tools: the posterior of cells by the package's public functions, and their expected counts.

scvi-tools is not imported: whoever has a model of it has imported it. Such a model encodes the cells of an AnnData with
their batches and covariates, which are more than one tensor. So the data set `Cells` gives the model references to
cells, and everything else their counts.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeGuard

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vaescope.codes.arrays import as_numpy
from vaescope.data import Dataset, Subset
from vaescope.data.cells import AnnData, CellMatrix, is_anndata
from vaescope.errors import ConfigurationError, DataError
from vaescope.models.recognition import NamedFunction, NoDecoder, first_line

PACKAGE = "scvi"
REGISTRATION = ("_scvi_uuid", "_scvi_manager_uuid")  # by which scvi-tools knows an AnnData
COUNTS, LABELS = "X", "labels"  # fields of the registry of scvi-tools
LIBRARY_CELLS = 10_000  # from which the median of total counts is taken
HASHED_CELLS = 1000  # at a time
# The decoder must need no more of a cell than this.
GENERATIVE = ("z", "library", "batch_index")


class AnnDataManager(Protocol):
    """What scvi-tools knows about an AnnData that a model was set up with."""

    @property
    def summary_stats(self) -> Mapping[str, int]:
        """Numbers of batches, labels and covariates."""

    def get_from_registry(self, registry_key: str) -> CellMatrix:
        """The values of a field for all cells."""


class ScviModel(Protocol):
    """The part of `scvi.model.base.BaseModelClass` that is used."""

    module: nn.Module
    adata: AnnData | None

    def get_latent_representation(
        self, adata: AnnData, *, indices: list[int], batch_size: int, return_dist: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the posterior of the cells at `indices`."""

    def get_anndata_manager(self, adata: AnnData, required: bool = False) -> AnnDataManager:
        """The manager of an AnnData."""


def is_scvi_model(model: object) -> TypeGuard[ScviModel]:
    """Whether this is a model of scvi-tools, or of a class derived from one."""
    return not isinstance(model, nn.Module | type) and hasattr(model, "module") and _from_scvi(model)


def refuse_scvi_module(module: object) -> None:
    """Raise an error for the torch module within a model of scvi-tools, which takes tables that the model makes."""
    if isinstance(module, nn.Module) and _from_scvi(module) and hasattr(module, "inference"):
        raise ConfigurationError(
            f"{type(module).__name__} is the module of a model of scvi-tools, which prepares the cells for it. Pass "
            "the model, not its attribute module."
        )


def _from_scvi(model: object) -> bool:
    return any(one.__module__.partition(".")[0] == PACKAGE for one in type(model).__mro__)


@dataclass(frozen=True, repr=False, eq=False)
class Cells(Dataset):
    """The cells of an AnnData as vectors of counts; the model that encodes them gets references.

    Attributes:
        adata: The AnnData, as the model knows it.
        given: The AnnData that the user passed.
        counts: The field of the AnnData that the model was trained on.
        place: The number of the data set among those of the model.
    """

    adata: AnnData
    given: AnnData
    counts: CellMatrix
    place: int
    shape: tuple[int, ...]
    labels: Int[Tensor, "cells"] | None = None
    name: str = field(default="cells", init=False)

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch genes"]:
        return _rows(self.counts, index.cpu()).to(index.device)

    def encoder_input(self, index: Int[Tensor, "batch"]) -> Int[Tensor, "batch 2"]:
        """References: the number of the data set among those of the model, and that of the cell."""
        return torch.stack([torch.full_like(index, self.place), index], 1)

    def to(self, device: torch.device | str) -> Cells:
        return self

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the counts."""
        digest = hashlib.sha256(repr((len(self), self.shape)).encode())
        for rows in self.chunks(HASHED_CELLS):
            digest.update(rows.numpy().tobytes())
        return digest.hexdigest()


class ScviAdapter:
    """How a model of scvi-tools opens, encodes and decodes cells."""

    def __init__(self, model: ScviModel) -> None:
        self.model, self.module = model, model.module
        self._opened: list[Cells] = []
        parameters = inspect.signature(model.get_latent_representation).parameters
        if not {"indices", "return_dist"} <= set(parameters):
            raise ConfigurationError(
                f"{type(model).__name__} of scvi-tools gives no mean and variance for each latent: its "
                "get_latent_representation has no argument return_dist. Pass (mean, variance) instead of the model."
            )

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The number of genes."""
        return self._opened[0].shape

    def open(self, data: object = None) -> Dataset:
        """Cells of an AnnData; default: of that which the model was set up with.

        Another AnnData is not changed: scvi-tools registers a copy, which shares the counts.
        """
        if isinstance(data, Subset):
            return Subset.of(self.open(data.base), data.index)
        given = data.given if isinstance(data, Cells) else data
        given = self.model.adata if given is None else given
        if given is None:
            raise DataError(f"{type(self.model).__name__} was loaded without an AnnData. Pass one.")
        if not is_anndata(given):
            raise DataError(
                f"a model of scvi-tools encodes the cells of an AnnData, got {type(given).__name__}. Pass an AnnData "
                "with the genes and columns that the model was set up with, or no data for those it was trained on."
            )
        for known in self._opened:
            if known.given is given:
                return known
        self._opened.append(self._registered(given))
        return self._opened[-1]

    def _registered(self, given: AnnData) -> Cells:
        adata = given if given is self.model.adata else _shared(given)
        try:
            self._posterior(adata, [0])
            manager = self.model.get_anndata_manager(adata, required=True)
            counts = manager.get_from_registry(COUNTS)
            has_labels = manager.summary_stats.get("n_labels", 1) > 1
            labels = manager.get_from_registry(LABELS) if has_labels else None
        except Exception as error:
            raise DataError(
                f"{type(self.model).__name__} of scvi-tools cannot encode these cells: {first_line(error)}."
            ) from error
        numbers = None if labels is None else torch.as_tensor(as_numpy(labels, LABELS)).reshape(-1).long()
        return Cells(adata, given, counts, len(self._opened), (int(counts.shape[1]),), numbers)

    def _posterior(self, adata: AnnData, cells: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return self.model.get_latent_representation(adata, indices=cells, batch_size=len(cells), return_dist=True)

    @property
    def encoder(self) -> NamedFunction:
        """The posterior of referred cells."""

        def encode(references: Tensor) -> dict[str, Tensor]:
            if references.is_floating_point():
                raise ConfigurationError(
                    f"{type(self.model).__name__} of scvi-tools encodes cells with their batches and covariates, not "
                    "counts alone. Pass an AnnData to vs.encode."
                )
            (place,) = references[:, 0].unique().tolist()
            moments = self._posterior(self._opened[place].adata, references[:, 1].tolist())
            mean, variance = (torch.from_numpy(values).to(references.device) for values in moments)
            return {"mean": mean, "variance": variance}

        softmax = " before the softmax" if getattr(self.module, "latent_distribution", "") == "ln" else ""
        return NamedFunction(f"get_latent_representation(return_dist=True){softmax}", encode)

    @property
    def decoder(self) -> NamedFunction | NoDecoder:
        """The expected counts of codes, for a cell of median library size in the first batch."""
        generative = getattr(self.module, "generative", None)
        if generative is None:
            return NoDecoder("its module has no function generative")
        parameters = inspect.signature(generative).parameters
        more = [name for name, one in parameters.items() if one.default is one.empty and name not in GENERATIVE]
        if more or not set(GENERATIVE) <= parameters.keys():
            return NoDecoder(f"its decoder takes {', '.join(parameters)}")
        stats = self.model.get_anndata_manager(self._opened[0].adata, required=True).summary_stats
        if stats.get("n_extra_categorical_covs", 0) or stats.get("n_extra_continuous_covs", 0):
            return NoDecoder("its decoder takes the covariates of a cell, too")
        if getattr(self.module, "use_size_factor_key", False):
            return NoDecoder("its decoder takes the size factor of a cell, too")
        library = self._median_library()

        def decode(z: Tensor) -> object:
            log_library = torch.full((len(z), 1), np.log(library), dtype=z.dtype, device=z.device)
            batch = torch.zeros(len(z), 1, dtype=torch.long, device=z.device)
            return generative(z=z, library=log_library, batch_index=batch)["px"]

        words = f"module.generative(z), the expected counts of a cell with {library:,.0f} counts in batch 0"
        return NamedFunction(words, decode)

    def _median_library(self) -> float:
        cells = self._opened[0]
        index = torch.linspace(0, len(cells) - 1, min(len(cells), LIBRARY_CELLS)).long()
        totals = [cells.batch(part).double().sum(1) for part in index.split(HASHED_CELLS)]
        return max(float(torch.cat(totals).quantile(0.5)), 1.0)


def _shared(adata: AnnData) -> AnnData:
    """An AnnData of the same arrays whose tables are its own, so that scvi-tools can add columns to them."""
    if hasattr(adata, "mod"):
        return adata.copy()
    held = adata.to_memory() if adata.isbacked else adata
    uns = {name: value for name, value in held.uns.items() if name not in REGISTRATION}
    return type(held)(
        X=held.X,
        obs=held.obs.copy(),
        var=held.var.copy(),
        layers=dict(held.layers),
        obsm=dict(held.obsm),
        uns=uns,
    )


def _rows(counts: CellMatrix, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch genes"]:
    """Some rows of an array, a sparse matrix or a file, which wants them in ascending order."""
    unique, inverse = index.unique(return_inverse=True)
    part = counts[unique.numpy()]
    dense = part.toarray() if hasattr(part, "toarray") else part
    return torch.from_numpy(as_numpy(dense, "counts").astype(np.float32))[inverse]
