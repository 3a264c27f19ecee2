"""The polarised regime while it forms: variable types and correlations on a fixed probe set (Bonheme, section 6.5)."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from vaescope.data.dataset import Dataset
from vaescope.errors import CollapseWarning
from vaescope.numerics import gaussian, linalg
from vaescope.numerics.moments import Spread
from vaescope.numerics.polarised import (
    PASSIVE,
    TYPES,
    CollapseWatch,
    collapse_sentence,
    regime_rate,
    relative_error,
    variable_type_codes,
)
from vaescope.objectives import strengths
from vaescope.training.engines import as_channels_last
from vaescope.training.plan import PRECISIONS, Member
from vaescope.training.step import Task

CHUNK = 256
LETTERS = "amp"  # one letter a latent, in the order of TYPES


class Monitor:
    """Looks at the same items every time; what it sees goes into the history.

    A model without a variance (a deterministic code) has no types, and is not looked at.
    """

    def __init__(self, task: Task, members: tuple[Member, ...], data: Dataset) -> None:
        self.task, self.members, self.data = task, members, data
        self.items = min(task.plan.monitor_items, len(data))
        self.has_types = "posterior" in task.noise
        self._encoder = _Encoder(task.module)
        self._watches = [CollapseWatch()] * len(members)

    @torch.no_grad()
    def look(self, parameters: Float[Tensor, "members size"], step: int) -> list[dict[str, Any]]:
        """For each member the counts of types, the type of each latent as a letter, rate, Delta_KL, correlations.

        `correlations` is the lower triangle, row by row, of the correlation matrix of the mean representation
        (figures 6.10 and 6.11); a constant latent correlates with nothing.
        """
        parts = [
            self._encode(parameters, torch.arange(start, min(start + CHUNK, self.items), device=parameters.device))
            for start in range(0, self.items, CHUNK)
        ]
        mean, variance = (torch.cat(columns, dim=1).cpu() for columns in zip(*parts, strict=True))
        rows = []
        for position, member in enumerate(self.members):
            own = slice(member.latents)
            rows.append(_observe(mean[position, :, own], variance[position, :, own]))
            self._warn_of_collapse(position, rows[-1], step)
        return rows

    def _encode(self, parameters: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        _, computed, _ = PRECISIONS[self.task.plan.precision]
        x = as_channels_last(self.data.batch(index)).to(computed)

        def encode(vector: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
            weights = self.task.layout.unpack(vector.to(computed))
            named = {f"model.{name}": weight for name, weight in weights.items()}
            return functional_call(self._encoder, {**named, "model.latent_mask": mask.to(computed)}, (x,))

        if len(parameters) > 1:
            return vmap(encode)(parameters, self.task.masks)
        mean, variance = encode(parameters[0], self.task.masks[0])
        return mean[None], variance[None]

    def _warn_of_collapse(self, position: int, row: dict[str, Any], step: int) -> None:
        """One sentence for each member, when collapse begins."""
        self._watches[position], what = self._watches[position].after(row, step, self.task.plan.steps)
        if what is None:
            return
        member = self.members[position]
        settings = ", ".join(f"{name} {value:g}" for name, value in strengths(member.objective).items())
        warnings.warn(collapse_sentence(what, step, f"seed {member.seed}, {settings}"), CollapseWarning, stacklevel=4)


class _Encoder(nn.Module):
    """The first half of a model, as a function of its parameters."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        posterior = self.model.encode(x)
        return posterior.mean, posterior.variance


def _observe(mean: Float[Tensor, "items latents"], variance: Float[Tensor, "items latents"]) -> dict[str, Any]:
    of_variance, of_mean = Spread.of(variance), Spread.of(mean)
    codes = variable_type_codes(of_variance.mean, of_variance.variance).tolist()
    rate = gaussian.kl_to_standard(mean.double(), variance.double().log()).mean(0)
    correlation = linalg.correlation(linalg.covariance(mean)).matrix
    below = torch.tril_indices(len(codes), len(codes), offset=-1)
    approximation = regime_rate(rate, of_variance.mean, of_mean.variance.sqrt())
    return {
        **{name: codes.count(position) for position, name in enumerate(TYPES)},
        "types": "".join(LETTERS[code] for code in codes),
        "rate": float(rate.sum()),
        "delta_kl": relative_error(float(rate.sum()), float(approximation)),
        "correlations": [round(value, 4) for value in correlation[below[0], below[1]].tolist()],
        **_strongest(correlation.abs().fill_diagonal_(0), codes),
    }


def _strongest(correlation: Float[Tensor, "latents latents"], codes: list[int]) -> dict[str, float]:
    """How strongly the passive latents correlate with another at most, on average; nothing without any."""
    passive = [latent for latent, code in enumerate(codes) if TYPES[code] == PASSIVE]
    if not passive or len(codes) < 2:
        return {}
    return {"passive_correlation": float(correlation[passive].max(1).values.mean())}
