"""What similarity says about the numbers of active and passive latents (Bonheme, theorems 7.4.1 and 7.4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.codes import Representation
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import variable_type_codes
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.regime.combinations import types_of
from vaescope.similarity.cka import linear_cka
from vaescope.similarity.tables import finite_pair


@dataclass(frozen=True)
class Conservation(NotebookResult):
    """Two models' numbers of latents by type: what the theorems predict from their similarity, and what is there.

    Attributes:
        counts: how many latents are active, mixed and passive, in each of the two.
        alignment: the similarity of the theorems, averaged over the items; 1 where the variances of every item are
            proportional up to a rotation of the latents. None for different numbers of latents.
        cka: linear CKA of the variances over the items, the one of heatmaps; None where one does not vary.
        bound: the alignment above which equal numbers are predicted.
    """

    counts: tuple[dict[str, int], dict[str, int]]
    alignment: float | None
    cka: float | None
    bound: float

    @property
    def predicted(self) -> bool | None:
        """True where equal numbers follow; None where the theorems say nothing, as below the bound."""
        return True if self.alignment is not None and self.alignment > self.bound else None

    @property
    def measured(self) -> bool:
        """Whether there are equal numbers of active and of passive latents."""
        return all(self.counts[0][kind] == self.counts[1][kind] for kind in (ACTIVE, PASSIVE))

    @property
    def holds(self) -> bool | None:
        """Whether the prediction came true; None where there is none."""
        return self.measured if self.predicted else None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each type."""
        return [{"type": kind, "a": self.counts[0][kind], "b": self.counts[1][kind]} for kind in VARIABLE_TYPES]

    def summary(self) -> str:
        """Similarity, prediction and numbers in one line."""
        numbers = " and ".join(f"{side[ACTIVE]} active, {side[PASSIVE]} passive" for side in self.counts)
        if self.alignment is None:
            return f"different numbers of latents, about which the theorems say nothing: {numbers}"
        relation = "above" if self.predicted else "not above"
        verdict = {True: "equal numbers follow, and are there", False: "equal numbers follow, but are not there"}
        said = "nothing follows" if self.holds is None else verdict[self.holds]
        return f"alignment {self.alignment:.3f}, {relation} {self.bound:.3f}: {said} ({numbers})"


def conservation(
    a: Any, b: Any, *, types_a: Any = None, types_b: Any = None, bound: float | None = None
) -> Conservation:
    """Whether two models have equal numbers of active and passive latents, predicted from their variances and measured.

    Theorem 7.4.1: given two linear VAEs learned in a polarised regime with variance representations S and T, if
    CKA(S, T) = 1, then S and T have the same number of active and passive variables. Theorem 7.4.2: the same of two
    VAEs with non-linear variance representations S(x) and T(x). Below 1 there is no guarantee.

    In the proofs S is the posterior covariance of an item, a diagonal matrix of latents x latents, T = xi R S with a
    rotation R, and nothing is centred: a linear VAE's S is the same for all items. The similarity of the theorems is
    hence eq. 2.2 of S and T under the best rotation, here `alignment`: the cosine of their squared variances, each
    sorted. For n latents with variances of exactly 0 and 1, and a passive one on each side, numbers that differ leave
    at most sqrt((n - 1) / n). The default `bound` lies halfway from there to 1. Two limits of the theorems: with no
    passive latent on one side xi is free, and the smallest variances can be proportional to the largest; and CKA over
    the items, centred as in heatmaps, never sees passive latents, which do not vary: at 1 it leaves their number open.

    `a` and `b` are `Representation`s or variances, items x latents, of the same items; types, if not given, follow from
    the variances by the thesis' rule.
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


def _counts(variance: Float[Tensor, "items latents"], types: Any) -> dict[str, int]:
    if types is None:
        codes = variable_type_codes(variance.mean(0), variance.var(0, correction=0))
        types = [VARIABLE_TYPES[code] for code in codes.tolist()]
    found = types_of(types, variance.shape[1])
    return {kind: found.count(kind) for kind in VARIABLE_TYPES}


def _alignment(first: Float[Tensor, "items latents"], second: Float[Tensor, "items latents"]) -> float:
    squares = [side.square().sort(1).values for side in (first, second)]
    lengths = [torch.linalg.vector_norm(side, dim=1) for side in squares]
    for name, length in zip("ab", lengths, strict=True):
        if bool((length == 0).any()):
            raise DataError(
                f"{name} must have a latent with some variance for every item; a deterministic code has none."
            )
    cosines = (squares[0] * squares[1]).sum(1) / (lengths[0] * lengths[1])
    return float(cosines.mean().clamp(max=1.0))
