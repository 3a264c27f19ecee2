"""Codes of a data set: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.codes.arrays import Array, ArrayLike, as_tensor, channel_rows, class_numbers
from vaescope.codes.reading import numpy_archive
from vaescope.errors import DataError
from vaescope.files import open_output
from vaescope.notebook import render_view
from vaescope.numerics import counter

REQUIRED = ("mean", "variance", "sample")
PRIOR = ("prior_mean", "prior_variance")
FACTOR_NAMES = "factor_names"


@dataclass(frozen=True)
class Representation:
    """The codes of a model for each item of a data set.

    Attributes:
        mean: Means of the posteriors.
        variance: Variances of the posteriors; not their logarithms, not standard deviations.
        sample: One sample of each posterior.
        factors: The factors of variation of each item, as whole numbers from 0.
        labels: The class of each item.
        prior_mean: The prior's means, one row per item or one number per latent; None for N(0, 1).
        prior_variance: The prior's variances, likewise.
        positions: The height and width of spatial codes whose latents are channels: rows are the positions of the first
            item, then those of the second, and so on. None for codes with one row per item.
        factor_names: The name of each factor; None if they are not known.
    """

    mean: Float[Tensor, "items latents"]
    variance: Float[Tensor, "items latents"]
    sample: Float[Tensor, "items latents"]
    factors: Int[Tensor, "items factors"] | None = None
    labels: Int[Tensor, "items"] | None = None
    prior_mean: Float[Tensor, "*items latents"] | None = None
    prior_variance: Float[Tensor, "*items latents"] | None = None
    positions: tuple[int, ...] | None = field(default=None, kw_only=True)
    factor_names: tuple[str, ...] | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.mean)

    def _repr_html_(self) -> str | None:
        return render_view(self)

    @property
    def latents(self) -> int:
        """The number of latents."""
        return self.mean.shape[1]

    @property
    def item_count(self) -> int:
        """The number of items, each with one row for every position of its code."""
        return len(self) // math.prod(self.positions or ())

    def item_means(self) -> Float[Tensor, "items latents"]:
        """The mean of each latent for each item, averaged over the positions of spatial codes."""
        return self.mean if self.positions is None else self.mean.reshape(self.item_count, -1, self.latents).mean(1)

    def by_item(self, part: str = "mean") -> Float[Tensor, "items numbers"]:
        """The mean, variance or sample with one row per item, which holds all positions of spatial codes."""
        rows: Tensor = getattr(self, part)
        return rows if self.positions is None else rows.reshape(self.item_count, -1)

    def code(self, item: int) -> Float[Tensor, "latents *positions"]:
        """The mean code of an item in the shape that a decoder takes."""
        if self.positions is None:
            return self.mean[item]
        return self.by_item()[item].reshape(-1, self.latents).T.reshape(self.latents, *self.positions)

    @property
    def prior(self) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of a Gaussian prior other than N(0, 1); None for N(0, 1)."""
        if self.prior_mean is None or self.prior_variance is None:
            return None
        return self.prior_mean, self.prior_variance

    def in_units_of_prior(self) -> Representation:
        """The codes minus the prior's mean, divided by its standard deviation: their prior is N(0, 1)."""
        if self.prior is None:
            return self
        mean, variance = (part.to(self.mean.device) for part in self.prior)
        return replace(
            self,
            mean=(self.mean - mean) / variance.sqrt(),
            variance=self.variance / variance,
            sample=(self.sample - mean) / variance.sqrt(),
            prior_mean=None,
            prior_variance=None,
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike], *, name: str = "codes", seed: int = 0) -> Representation:
        """Codes in float64 on the CPU from arrays of any library.

        Args:
            arrays: The attributes by name. `mean` and `variance` are required; without `sample`, samples are drawn.
                Of spatial codes, items x channels x height x width, the channels are the latents and the positions are
                examples; they have neither factors nor labels. Flatten them to make all numbers latents.
            name: The name of the codes in error messages.
            seed: Random seed for sampling.
        """
        given = {part: as_tensor(values, part) for part, values in arrays.items() if part in (*REQUIRED, *PRIOR)}
        tables = {part: values.to("cpu", torch.float64).contiguous() for part, values in given.items()}
        mean = tables["mean"]
        if mean.ndim > 2:
            spatial = {part: one for part, one in tables.items() if one.shape == mean.shape}
            check_shapes({part: one.flatten(1) for part, one in tables.items() if one.ndim > 1}, name)
            if "sample" not in spatial:
                spatial["sample"] = _sampled(spatial["mean"], spatial["variance"], seed)
            rows = {part: channel_rows(one) for part, one in spatial.items()}
            return cls._of(rows, positions=tuple(mean.shape[2:]))
        check_shapes(tables, name)
        items = len(mean)
        if "sample" not in tables:
            tables["sample"] = _sampled(mean, tables["variance"], seed)
        factors, labels = (
            torch.from_numpy(class_numbers(arrays[part], items, name, part, ranks)) if part in arrays else None
            for part, ranks in (("factors", (1, 2)), ("labels", (1,)))
        )
        names = (
            tuple(map(str, np.asarray(arrays[FACTOR_NAMES])))
            if factors is not None and FACTOR_NAMES in arrays
            else None
        )
        return replace(cls._of(tables), factors=factors, labels=labels, factor_names=names)

    @classmethod
    def _of(cls, tables: Mapping[str, Tensor], positions: tuple[int, ...] | None = None) -> Representation:
        return cls(
            tables["mean"],
            tables["variance"],
            tables["sample"],
            prior_mean=tables.get("prior_mean"),
            prior_variance=tables.get("prior_variance"),
            positions=positions,
        )

    def save(self, path: str | Path) -> None:
        """Write the arrays to an .npz archive at exactly this path."""
        arrays = {name: np.asarray(value) for name, value in vars(self).items() if value is not None}
        with open_output(Path(path)) as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Representation:
        """Read what `save` wrote, in the types that were saved."""
        known = [field.name for field in fields(cls) if field.name not in ("positions", FACTOR_NAMES)]
        with numpy_archive(Path(path)) as archive:
            arrays = {name: as_tensor(archive[name], f"{path}: {name}") for name in known if name in archive}
            positions = tuple(map(int, archive["positions"])) if "positions" in archive else None
            names = tuple(archive[FACTOR_NAMES].tolist()) if FACTOR_NAMES in archive else None
        missing = [name for name in REQUIRED if name not in arrays]
        if missing:
            raise DataError(f"{path} must hold the arrays {', '.join(REQUIRED)}; {', '.join(missing)} is missing.")
        check_shapes(arrays, str(path))
        given = cls._of(arrays, positions)
        return replace(given, factors=arrays.get("factors"), labels=arrays.get("labels"), factor_names=names)


def _sampled(mean: Tensor, variance: Tensor, seed: int) -> Tensor:
    """One sample of each posterior; the noise of an item depends on the seed and its position."""
    items = torch.arange(len(mean))
    noise = counter.normal(torch.tensor(seed), "encode", torch.tensor(0), items, mean[0].numel() if len(mean) else 0)
    # A negative variance is an error that the diagnostics report with its place.
    return mean + variance.clamp_min(0).sqrt() * noise.double().reshape(mean.shape)


# Codes of one kind: those of a representation are its means.
CodesLike: TypeAlias = Representation | ArrayLike


def means_of(codes: CodesLike) -> ArrayLike:
    """The means of a `Representation`, or the codes as they are."""
    return codes.mean if isinstance(codes, Representation) else codes


def check_shapes(arrays: Mapping[str, Array], owner: str = "") -> None:
    """Check that all codes have the same shape, the prior that shape or one number per latent, and other arrays one row
    per item.
    """
    start = f"{owner}: " if owner else ""
    whole = tuple(arrays["mean"].shape)
    if len(whole) != 2:
        raise DataError(f"{start}mean must be a table, items x latents, got the shape {whole}.")
    for part, values in arrays.items():
        shape = tuple(values.shape)
        if part.startswith("prior"):
            if shape not in (whole, whole[1:]):
                raise DataError(
                    f"{start}{part} must have the shape of mean, {whole}, or one number for each of the {whole[1]} "
                    f"latents, got the shape {shape}."
                )
        elif shape[:1] != whole[:1] or (part in REQUIRED and shape != whole):
            match = "be tables of one shape, items x latents" if part in REQUIRED else "have one row per item"
            raise DataError(f"{start}mean and {part} must {match}, got {whole} and {shape}.")
    priors = [part for part in PRIOR if part in arrays]
    if len(priors) == 1:
        raise DataError(f"{owner} must hold both {' and '.join(PRIOR)} or neither, got {priors[0]} alone.")
