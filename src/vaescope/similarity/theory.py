"""Similarity and the numbers of active and passive latents (Bonheme, theorems 7.4.1 and 7.4.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import variable_type_codes
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.regime import VariableTypes
from vaescope.regime.variable_types import checked_types
from vaescope.similarity.cka import linear_cka
from vaescope.similarity.tables import finite_pair
from vaescope.tables import Row


@dataclass(frozen=True)
class Conservation(NotebookResult):
    """The numbers of latents by type of two models: predicted by the theorems from their similarity, and actual.

    Attributes:
        counts: Number of active, mixed and passive latents of each model.
        alignment: The similarity of the theorems, averaged over the items; 1 if the variances of every item are
            proportional up to a rotation of the latents. None for different numbers of latents.
        cka: Linear CKA of the variances over the items, as in heatmaps; None if one of the two does not vary.
        bound: The alignment above which equal numbers are predicted.
    """

    counts: tuple[dict[str, int], dict[str, int]]
    alignment: float | None
    cka: float | None
    bound: float

    @property
    def predicted(self) -> bool | None:
        """True if equal numbers are predicted; None if the theorems do not apply, as below the bound."""
        return True if self.alignment is not None and self.alignment > self.bound else None

    @property
    def measured(self) -> bool:
        """Whether the numbers of active and of passive latents are equal."""
        return all(self.counts[0][kind] == self.counts[1][kind] for kind in (ACTIVE, PASSIVE))

    @property
    def holds(self) -> bool | None:
        """Whether the prediction is true; None if there is none."""
        return self.measured if self.predicted else None

    def rows(self) -> list[Row]:
        """One row for each type."""
        return [{"type": kind, "a": self.counts[0][kind], "b": self.counts[1][kind]} for kind in VARIABLE_TYPES]

    def summary(self) -> str:
        """Similarity, prediction and numbers of latents in one line."""
        numbers = " and ".join(f"{side[ACTIVE]} active, {side[PASSIVE]} passive" for side in self.counts)
        if self.alignment is None:
            return f"different numbers of latents, which the theorems do not cover: {numbers}"
        relation = "above" if self.predicted else "not above"
        verdicts = {
            None: "no prediction",
            True: "equal numbers predicted and found",
            False: "equal numbers predicted, not found",
        }
        return f"alignment {self.alignment:.3f}, {relation} {self.bound:.3f}: {verdicts[self.holds]} ({numbers})"


def conservation(
    a: Representation | ArrayLike,
    b: Representation | ArrayLike,
    *,
    types_a: VariableTypes | Sequence[str] | None = None,
    types_b: VariableTypes | Sequence[str] | None = None,
    bound: float | None = None,
) -> Conservation:
    """Compare the numbers of active and passive latents of two models with what their variances predict.

    Theorem 7.4.1: given two linear VAEs learned in a polarised regime with variance representations S and T, if
    CKA(S, T) = 1, then S and T have the same number of active and passive variables. Theorem 7.4.2 says the same of two
    VAEs with non-linear variance representations S(x) and T(x). Below 1 there is no guarantee.

    In the proofs S is the posterior covariance of an item, a diagonal matrix of latents x latents, T = xi R S with a
    rotation R, and nothing is centred: a linear VAE's S is the same for all items. The similarity of the theorems is
    therefore eq. 2.2 of S and T under the best rotation, here `alignment`: the cosine of their sorted squared
    variances. For n latents with variances of exactly 0 and 1, and a passive one on each side, different numbers leave
    at most sqrt((n - 1) / n). The theorems have two limits: with no passive latent on one side xi is free, and the
    smallest variances can be proportional to the largest; and CKA over the items, centred as in heatmaps, never sees
    passive latents, which do not vary, so that at 1 it leaves their number open.

    Args:
        a, b: `Representation`s or variances, items x latents, of the same items.
        types_a, types_b: The types of the latents. Default: found from the variances by the rule of the thesis.
        bound: The alignment above which equal numbers are predicted. Default: halfway from sqrt((n - 1) / n) to 1.
    """
    first, second = finite_pair(*(side.variance if isinstance(side, Representation) else side for side in (a, b)))
    for name, side in (("a", first), ("b", second)):
        if bool((side < 0).any()):
            raise DataError(f"{name} must hold variances, got {float(side.min()):g}. Pass exp(log-variance).")
    counts = tuple(_counts(side, types) for side, types in ((first, types_a), (second, types_b)))
    latents = first.shape[1]
    limit = (1 + math.sqrt((latents - 1) / latents)) / 2 if bound is None else finite_number("bound", bound, at_least=0)
    alignment = _alignment(first, second) if latents == second.shape[1] else None
    varies = all(bool((side != side[0]).any()) for side in (first, second))
    return Conservation((counts[0], counts[1]), alignment, linear_cka(first, second) if varies else None, limit)


def _counts(variance: Float[Tensor, "items latents"], types: VariableTypes | Sequence[str] | None) -> dict[str, int]:
    if types is None:
        codes = variable_type_codes(variance.mean(0), variance.var(0, correction=0))
        types = [VARIABLE_TYPES[code] for code in codes.tolist()]
    found = checked_types(types, variance.shape[1])
    return {kind: found.count(kind) for kind in VARIABLE_TYPES}


def _alignment(first: Float[Tensor, "items latents"], second: Float[Tensor, "items latents"]) -> float:
    squares = [side.square().sort(1).values for side in (first, second)]
    lengths = [torch.linalg.vector_norm(side, dim=1) for side in squares]
    for name, length in zip("ab", lengths, strict=True):
        if bool((length == 0).any()):
            raise DataError(
                f"{name} must have a latent with a positive variance for every item; a deterministic code has none."
            )
    cosines = (squares[0] * squares[1]).sum(1) / (lengths[0] * lengths[1])
    return float(cosines.mean().clamp(max=1.0))
