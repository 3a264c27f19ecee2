"""The polarised regime during training: variable types and correlations on a fixed probe set (Bonheme, section 6.5)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from vaescope.errors import CollapseWarning
from vaescope.models import TrainableModel
from vaescope.models.module import evaluation_mode, gaussian_prior
from vaescope.numerics import counter, gaussian, linalg
from vaescope.numerics.polarised import (
    CollapseWatch,
    collapse_sentence,
    prior_relative_type_codes,
    regime_rate,
    relative_error,
    variable_type_codes,
)
from vaescope.numerics.variable_type_names import PASSIVE, VARIABLE_TYPES
from vaescope.objectives import in_words
from vaescope.training.batches import Batches
from vaescope.training.checkpoint import State
from vaescope.training.engines import captured
from vaescope.training.ensemble import Ensemble
from vaescope.training.plan import PRECISIONS, Member

CHUNK_ITEMS = 256
LETTERS = "amp"  # one letter per latent, in the order of VARIABLE_TYPES

HistoryValue: TypeAlias = float | str | list[float]


class Monitor:
    """Measures the types of the latents on a fixed set of items, for the history.

    A model without a variance (a deterministic code) has no types.
    """

    def __init__(self, ensemble: Ensemble, members: tuple[Member, ...], data: Batches) -> None:
        self.ensemble, self.members, self.data = ensemble, members, data
        self.items = len(data)
        self.has_types = "posterior" in ensemble.noise
        self._encoder = _Encoder(ensemble.model)
        self._watches = [CollapseWatch()] * len(members)
        self._graph: tuple[torch.cuda.CUDAGraph, Tensor] | None = None

    @torch.no_grad()
    def probe(self, state: State) -> list[dict[str, HistoryValue]]:
        """For each member the counts of types, the type of each latent as a letter, rate, Delta_KL, correlations.

        `rates` has the rate of each latent in nats, whose sum is `rate`. `correlations` is the lower triangle, row by
        row, of the correlation matrix of the mean representation (figures 6.10 and 6.11); a constant latent correlates
        with nothing.
        """
        with evaluation_mode(self.ensemble.model):
            replayed = state.parameters.is_cuda and not self.ensemble.one_by_one
            table = (self._replayed(state) if replayed else self._table(state)).cpu()
        latents = self.ensemble.latents
        widths = (latents, latents, 1, 1, latents * (latents - 1) // 2)
        rows: list[dict[str, HistoryValue]] = []
        for position, (line, member) in enumerate(zip(table, self.members, strict=True)):
            codes, rates, (rate,), (approximation,), correlations = (part.tolist() for part in line.split(widths))
            # Masked latents come after the member's own.
            types = "".join(LETTERS[int(code)] for code in codes[: member.latents])
            own = correlations[: member.latents * (member.latents - 1) // 2]
            counts = {name: types.count(letter) for name, letter in zip(VARIABLE_TYPES, LETTERS, strict=True)}
            rows.append(
                {
                    **counts,
                    "types": types,
                    "rate": rate,
                    "rates": [round(value, 4) for value in rates[: member.latents]],
                    "delta_kl": relative_error(rate, approximation),
                    "correlations": [round(value, 4) for value in own],
                    **_passive_correlation(own, types),
                }
            )
            self._warn_of_collapse(position, counts, state.step)
        return rows

    def _replayed(self, state: State) -> Tensor:
        """The table, by a graph: the tensors of the state stay in place while their values change."""
        if self._graph is None:
            self._graph = captured(lambda: self._table(state))
        graph, table = self._graph
        graph.replay()
        return table

    def _table(self, state: State) -> Float[Tensor, "members columns"]:
        device = state.parameters.device
        parts = [
            self._encode(state, torch.arange(start, min(start + CHUNK_ITEMS, self.items), device=device))
            for start in range(0, self.items, CHUNK_ITEMS)
        ]
        exact = counter.float64_device(device)
        return _observe(*(torch.cat(columns, dim=1).to(exact) for columns in zip(*parts, strict=True)))

    def _encode(self, state: State, index: Tensor) -> tuple[Tensor, ...]:
        ensemble, computed = self.ensemble, PRECISIONS[self.ensemble.plan.precision].computed
        x = ensemble.given(ensemble.shared_items(self.data, index))
        condition = tuple(values.to(computed) for values in self.data.condition(index).values())

        def encode(vector: Tensor, buffers: Mapping[str, Tensor], mask: Tensor) -> tuple[Tensor, ...]:
            parameters, held = ensemble.weights(vector).model, ensemble.held(buffers)
            named = {**parameters, **held, "latent_mask": mask.to(computed)}
            found: tuple[Tensor, ...] = functional_call(
                self._encoder, {f"model.{name}": value for name, value in named.items()}, (x, *condition)
            )
            return found

        return ensemble.for_each_member(encode, state.parameters, state.buffers, ensemble.inputs.masks)

    def _warn_of_collapse(self, position: int, counts: Mapping[str, int], step: int) -> None:
        """One warning for each member, when collapse begins."""
        self._watches[position], what = self._watches[position].after(counts, step, self.ensemble.plan.steps)
        if what is None:
            return
        member = self.members[position]
        settings = in_words(member.objective)
        warnings.warn(collapse_sentence(what, step, f"seed {member.seed}, {settings}"), CollapseWarning, stacklevel=4)


class _Encoder(nn.Module):
    """The first half of a model, as a function of its parameters."""

    def __init__(self, model: TrainableModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, condition: Tensor | None = None) -> tuple[Tensor, ...]:
        """Mean and variance of the posterior, and of the prior if it is a Gaussian other than N(0, 1)."""
        posterior, prior = self.model.encode(x, condition), gaussian_prior(self.model, condition)
        if prior is None:
            return posterior.mean, posterior.variance
        rows = (part.expand_as(posterior.mean) for part in (prior.mean, prior.variance))
        return posterior.mean, posterior.variance, *rows


def _observe(
    mean: Float[Tensor, "members items latents"],
    variance: Float[Tensor, "members items latents"],
    prior_mean: Float[Tensor, "members items latents"] | None = None,
    prior_variance: Float[Tensor, "members items latents"] | None = None,
) -> Float[Tensor, "members columns"]:
    """For all members at once: the type and the rate of each latent, the whole rate, its approximation in the regime,
    the correlations.
    """
    # A variance that underflowed to 0 has the logarithm of the smallest number above 0, and a rate that is finite.
    smallest = torch.finfo(variance.dtype).smallest_normal * torch.finfo(variance.dtype).eps
    mean, variance = mean.double(), variance.double()
    absolute = _moments(variance)
    if prior_mean is None or prior_variance is None:
        moved, ratio = mean, variance
        codes = variable_type_codes(*absolute)
    else:
        unit = prior_variance.double()
        moved, ratio = (mean - prior_mean.double()) / unit.sqrt(), variance / unit
        codes = prior_relative_type_codes(absolute, unit.mean(1), _moments(ratio), moved.square().mean(1))
    rate = gaussian.kl_to_standard(moved, ratio.clamp(min=smallest).log()).mean(1)
    approximation = regime_rate(rate, ratio.mean(1), moved.std(1, correction=0))
    # Subtracting the first item makes a constant latent exactly 0.
    shifted = mean - mean[:, :1]
    centred = shifted - shifted.mean(1, keepdim=True)
    correlations = linalg.correlation_matrices(centred.mT @ centred)
    below = torch.tril_indices(mean.shape[2], mean.shape[2], offset=-1, device=mean.device)
    columns = [codes, rate, rate.sum(1, keepdim=True), approximation[:, None], correlations[:, below[0], below[1]]]
    return torch.cat(columns, dim=1)


def _moments(values: Float[Tensor, "members items latents"]) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each latent over the items."""
    return values.mean(1), values.var(1, correction=0)


def _passive_correlation(correlations: list[float], types: str) -> dict[str, float]:
    """Mean, over passive latents, of their strongest correlation with another latent; empty without passive latents."""
    latents, letter = len(types), LETTERS[VARIABLE_TYPES.index(PASSIVE)]
    passive = [latent for latent in range(latents) if types[latent] == letter]
    if not passive or latents < 2:
        return {}
    strengths = np.zeros((latents, latents))
    strengths[np.tril_indices(latents, -1)] = np.abs(correlations)
    strongest = np.maximum(strengths, strengths.T).max(0).tolist()
    return {"passive_correlation": sum(strongest[latent] for latent in passive) / len(passive)}
