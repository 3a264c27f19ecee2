"""Variable types as a torchmetrics metric, accumulated over batches and processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.codes.arrays import ArrayLike
from vaescope.errors import ConfigurationError, DataError
from vaescope.integrations import extra
from vaescope.integrations.batch import batch_statistics
from vaescope.models.moments import VARIANCE, Moments, Spread, moments_of
from vaescope.models.outputs import one_reader
from vaescope.models.readers import Call
from vaescope.numerics.moments import Spread as Extent
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.regime.statistics import EPSILON, VARIANCE_BINS, LatentStatistics, checked_tolerance
from vaescope.regime.variable_types import DELTA, VariableTypes, variable_types

with extra("torchmetrics"):
    from torchmetrics import Metric

SETTINGS = ("latents", "alpha", "epsilon")
ADVICE = "Pass update(mean, variance=...), update(mean, log_variance=...), or one posterior."
SUMS = ("kl", "negligible", "passive", "active", "histogram")


class VariableTypesMetric(Metric):
    """The numbers of active, mixed and passive latents, over all posteriors since the last reset.

    `update` takes the posterior of a batch in any form that `vaescope.wrap` reads, or a mean with its variance or
    log-variance by name. The size of the state depends on the number of latents, not of items. `compute` returns the
    three counts as tensors, ready for logging; `types` returns the type of each latent with its evidence. Both cover
    all processes.

    Args:
        latents: The number of latents.
        alpha, epsilon, delta: Thresholds of `variable_types`.
        options: Keyword arguments of `torchmetrics.Metric`.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = None

    settings: Float[Tensor, "3"]
    mean_spread: Float[Tensor, "3 latents"]
    variance_spread: Float[Tensor, "3 latents"]
    kl: Float[Tensor, "latents"]
    negligible: Int[Tensor, "latents"]
    passive: Int[Tensor, "latents"]
    histogram: Int[Tensor, "latents bins"]

    def __init__(
        self, latents: int, *, alpha: float = ALPHA, epsilon: float = EPSILON, delta: float = DELTA, **options: object
    ) -> None:
        # A cached result would survive `merge_state`, and computing it again is cheap.
        super().__init__(**{"compute_with_cache": False, **options})
        self.latents = whole_number("latents", latents, 1)
        self.alpha, self.epsilon = checked_tolerance("alpha", alpha), finite_number("epsilon", epsilon, above=0)
        self.delta = checked_tolerance("delta", delta)
        # The settings are a state, so that neither `merge_state` nor the groups of a MetricCollection mix metrics with
        # different thresholds. They come first, so that nothing is merged if they differ.
        settings = torch.tensor([float(getattr(self, name)) for name in SETTINGS], dtype=torch.float64)
        self.add_state("settings", settings, _equal_settings)
        for name in ("mean_spread", "variance_spread"):
            self.add_state(name, torch.zeros(3, self.latents, dtype=torch.float64), _merged)
        self.add_state("kl", torch.zeros(self.latents, dtype=torch.float64), "sum")
        for name in ("negligible", "passive", "active"):
            self.add_state(name, torch.zeros(self.latents, dtype=torch.int64), "sum")
        self.add_state("histogram", torch.zeros(self.latents, VARIANCE_BINS + 1, dtype=torch.int64), "sum")

    def update(
        self,
        posterior: object,
        *,
        variance: ArrayLike | None = None,
        log_variance: ArrayLike | None = None,
        std: ArrayLike | None = None,
        log_std: ArrayLike | None = None,
    ) -> None:
        """Add the posteriors of a batch.

        Args:
            posterior: Means, items x latents or items x channels x height x width, with one of the others; or a
                distribution of torch, a mapping with names such as mu and logvar, or a pair (mean, variance).
            variance, log_variance, std, log_std: The variances, their logarithms, the standard deviations, or their
                logarithms.
        """
        found = _posterior(
            posterior, {"variance": variance, "log_variance": log_variance, "std": std, "log_std": log_std}
        )
        part = batch_statistics(found, alpha=self.alpha, epsilon=self.epsilon)
        if part.latents != self.latents:
            raise DataError(f"The posteriors must have {self.latents} latents, got {part.latents}.")
        for name, spread in (("mean_spread", part.mean), ("variance_spread", part.variance)):
            state = getattr(self, name)
            setattr(self, name, _merged(torch.stack([state, _packed(spread).to(state.device)])))
        for name in SUMS:
            state = getattr(self, name)
            setattr(self, name, state + getattr(part, name).to(state.device))

    def compute(self) -> dict[str, Tensor]:
        """The number of latents of each type; NaN for fewer than two items.

        It does not raise an error then, because `forward` computes the value of each batch, and a last batch may have
        one item.
        """
        statistics = self._statistics()
        if statistics.count < 2:
            return {kind: torch.tensor(math.nan, device=self.device) for kind in VARIABLE_TYPES}
        counts = self._types_of(statistics).counts
        return {kind: torch.tensor(float(count), device=self.device) for kind, count in counts.items()}

    def types(self) -> VariableTypes:
        """The type of each latent under each rule, over all processes, each of which must call it."""
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=self.sync_on_compute):
            statistics = self._statistics()
        return self._types_of(statistics)

    def _types_of(self, statistics: LatentStatistics) -> VariableTypes:
        return variable_types(statistics, alpha=self.alpha, epsilon=self.epsilon, delta=self.delta)

    def _statistics(self) -> LatentStatistics:
        mean, variance = _unpacked(self.mean_spread.cpu()), _unpacked(self.variance_spread.cpu())
        sums = {name: getattr(self, name).cpu() for name in SUMS}
        return LatentStatistics(int(mean.count), mean, variance, **sums, alpha=self.alpha, epsilon=self.epsilon)


def _posterior(given: object, spreads: Mapping[Spread, ArrayLike | None]) -> Moments:
    """The posterior passed to `update`, in one of its forms."""
    named = {kind: values for kind, values in spreads.items() if values is not None}
    if len(named) > 1:
        raise ConfigurationError(f"update takes one of {', '.join(spreads)}, got {' and '.join(named)}.")
    for kind, values in named.items():
        return moments_of(given, values, kind)
    reader = one_reader(given, Call(spread=VARIANCE), "The posterior", ADVICE)
    if reader.prior is not None:
        raise DataError("The metric takes posteriors whose prior is N(0, 1), got one with its own. Use vs.diagnose.")
    return reader.posterior(given)


def _packed(spread: Extent) -> Float[Tensor, "3 latents"]:
    return torch.stack([torch.zeros_like(spread.mean) + spread.count, spread.mean, spread.squares])


def _unpacked(state: Float[Tensor, "3 latents"]) -> Extent:
    return Extent(int(state[0, 0]), state[1], state[2])


def _merged(states: Float[Tensor, "parts 3 latents"]) -> Float[Tensor, "3 latents"]:
    """The spread over all parts; a process without a batch contributes an empty part, which is skipped."""
    spreads = [spread for spread in map(_unpacked, states) if spread.count]
    return _packed(reduce(Extent.merge, spreads)) if spreads else states[0]


def _equal_settings(settings: Float[Tensor, "parts 3"]) -> Float[Tensor, "3"]:
    for name, column in zip(SETTINGS, settings.T.tolist(), strict=True):
        if len(set(column)) > 1:
            values = " and ".join(f"{value:g}" for value in sorted(set(column)))
            raise DataError(f"Metrics can be merged only if they agree in {name}, got {values}.")
    return settings[0]
