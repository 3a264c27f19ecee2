"""Codes of a data set: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.codes.arrays import Array, ArrayLike, as_tensor, class_numbers
from vaescope.codes.reading import numpy_archive
from vaescope.errors import DataError
from vaescope.files import open_output
from vaescope.numerics import counter

REQUIRED = ("mean", "variance", "sample")
PRIOR = ("prior_mean", "prior_variance")


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
    """

    mean: Float[Tensor, "items latents"]
    variance: Float[Tensor, "items latents"]
    sample: Float[Tensor, "items latents"]
    factors: Int[Tensor, "items factors"] | None = None
    labels: Int[Tensor, "items"] | None = None
    prior_mean: Float[Tensor, "*items latents"] | None = None
    prior_variance: Float[Tensor, "*items latents"] | None = None

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def latents(self) -> int:
        """The number of latents."""
        return self.mean.shape[1]

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
            name: What error messages call the codes.
            seed: Random seed for sampling.
        """
        given = {part: as_tensor(values, part) for part, values in arrays.items() if part in (*REQUIRED, *PRIOR)}
        tables = {part: values.to("cpu", torch.float64).contiguous() for part, values in given.items()}
        check_shapes(tables, name)
        items, latents = tables["mean"].shape
        if "sample" not in tables:
            noise = counter.normal(torch.tensor(seed), "encode", torch.tensor(0), torch.arange(items), latents)
            # A negative variance is an error that the diagnostics report with its place.
            tables["sample"] = tables["mean"] + tables["variance"].clamp_min(0).sqrt() * noise.double()
        factors, labels = (
            torch.from_numpy(class_numbers(arrays[part], items, name, part, ranks)) if part in arrays else None
            for part, ranks in (("factors", (1, 2)), ("labels", (1,)))
        )
        return cls(**tables, factors=factors, labels=labels)

    def save(self, path: str | Path) -> None:
        """Write the arrays to an .npz archive at exactly this path."""
        arrays = {name: value.numpy() for name, value in vars(self).items() if value is not None}
        with open_output(Path(path)) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Representation:
        """Read what `save` wrote, in the types that were saved."""
        known = [field.name for field in fields(cls)]
        with numpy_archive(Path(path)) as archive:
            arrays = {name: as_tensor(archive[name], f"{path}: {name}") for name in known if name in archive}
        missing = [name for name in REQUIRED if name not in arrays]
        if missing:
            raise DataError(f"{path} must hold the arrays {', '.join(REQUIRED)}; {', '.join(missing)} is missing.")
        check_shapes(arrays, str(path))
        return cls(**arrays)


# Codes of one kind: those of a representation are its means.
CodesLike: TypeAlias = Representation | ArrayLike


def means_of(codes: CodesLike) -> ArrayLike:
    """The means of a `Representation`, or the codes as they are."""
    return codes.mean if isinstance(codes, Representation) else codes


def check_shapes(arrays: Mapping[str, Array], owner: str = "") -> None:
    """Codes have one shape; the prior has it too, or one number per latent; other arrays have one row per item."""
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
