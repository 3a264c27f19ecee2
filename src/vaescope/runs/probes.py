"""The probes in the history of a run: the types and rates of the latents on a few fixed items during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from vaescope.numerics.variable_type_names import PASSIVE, VARIABLE_TYPES

PROBE = "probe"  # the split of their rows
# Rows of a run's history hold `step`, `split` and any named value.
History = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class LatentRates:
    """The rate of every latent at the probes of a training.

    Attributes:
        steps: The training step of each probe.
        rates: The mean divergence of each latent from the prior at each probe, in nats.
        types: The types of the latents at each probe, one letter per latent: a(ctive), m(ixed) or p(assive).
    """

    steps: tuple[int, ...]
    rates: Float[np.ndarray, "probes latents"] = field(repr=False)
    types: tuple[str, ...]


def probes_of(history: History) -> list[Mapping[str, Any]]:
    """The rows of the probes, each with the counts of types."""
    return [row for row in history if row.get("split") == PROBE and all(kind in row for kind in VARIABLE_TYPES)]


def latent_rates(history: History) -> LatentRates | None:
    """The rate of every latent during training; None if fewer than two probes recorded it, see `no_latent_rates`."""
    probes = [row for row in probes_of(history) if "rates" in row]
    if len(probes) < 2:
        return None
    return LatentRates(
        tuple(row["step"] for row in probes),
        np.array([row["rates"] for row in probes], np.float64),
        tuple(row["types"] for row in probes),
    )


def no_latent_rates(history: History) -> str:
    """Why `latent_rates` is None, as a sentence."""
    probes = probes_of(history)
    if len(probes) >= 2 and sum("rates" in row for row in probes) < 2:
        return "The run was trained by a version of vaescope that did not record the rate of each latent."
    if len(probes) == 1:
        return "The types of the latents were probed only once; use a smaller monitor_every."
    return "The types of the latents were not probed during training."


def passive_since(history: History, latents: int) -> dict[int, int]:
    """Latent -> the step since which every probe found it passive, for latents that are passive at the end."""
    since: dict[int, int] = {}
    probes = [row for row in history if row.get("split") == PROBE and len(row.get("types", "")) == latents]
    for latent in range(latents):
        for probe in reversed(probes):
            if probe["types"][latent] != PASSIVE[0]:
                break
            since[latent] = probe["step"]
    return since
