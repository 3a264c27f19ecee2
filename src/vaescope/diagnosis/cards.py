"""Cards: the findings of a diagnosis, each with a status, an explanation, advice, claims and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import without_infinities
from vaescope.diagnosis.claims import (
    BAD,
    GOOD,
    NOT_APPLICABLE,
    NOTE,
    SEVERITY,
    WARNING,
    Claim,
    Status,
)
from vaescope.metrics.mutual_information import listed
from vaescope.notebook import render_view
from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES
from vaescope.regime import VariableTypes

__all__ = ["BAD", "GOOD", "NOTE", "NOT_APPLICABLE", "SEVERITY", "WARNING", "Card", "Status"]

WEAKER_KL = "lower the weight of the KL term, increase it gradually (warm-up) or allow some free bits"


@dataclass(frozen=True)
class Card:
    """One finding.

    Attributes:
        title: What the card is about.
        status: 'bad', 'warning', 'note', 'good' or 'not applicable'.
        meaning: What was found, in one sentence.
        advice: What to do about it; empty if nothing needs to be done.
        rows: The numbers behind the finding, as rows of a table.
        claims: What the card says, as data.
    """

    title: str
    status: Status
    meaning: str
    advice: str = ""
    rows: Sequence[Mapping[str, object]] = ()
    claims: tuple[Claim, ...] = ()

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, object]:
        """The card as a JSON-compatible dictionary."""
        return {name: without_infinities(value) for name, value in asdict(self).items()}


def by_severity(cards: Iterable[Card]) -> tuple[Card, ...]:
    """Sort cards from the worst status to the best; cards with the same status keep their order."""
    return tuple(sorted(cards, key=lambda card: SEVERITY.index(card.status)))


def is_deterministic(types: VariableTypes) -> bool:
    """Whether every variance is zero."""
    return not bool(types.statistics.variance.mean.any())


def collapsed_latents(types: VariableTypes) -> tuple[int, ...]:
    """The passive latents whose means do not vary either; the types depend on the variances alone."""
    return tuple(latent for latent in types.passive if types.by_rule["rolinek"][latent] == PASSIVE)


def prior_card(prior: str, measured: bool) -> Card:
    """Which prior the codes are compared with: their own if it is Gaussian, else N(0, 1), with a warning."""
    rows = [{"prior": prior, "measured_against": prior if measured else "standard"}]
    if measured:
        meaning = f"Types, collapse and rate are relative to this run's own prior ({prior})."
        return Card("Prior", NOTE, meaning, "", rows)
    meaning = f"The prior of this run is {prior}, but its codes are compared with N(0, 1) here."
    return Card("Prior", WARNING, meaning, "Interpret types, collapse and rate with care.", rows)


def model_card(summary: str) -> Card:
    """How a model of another library was interpreted."""
    return Card("Model", NOTE, f"{summary.rstrip('.')}.", "If this is wrong, say how to read it with `vaescope.wrap`.")


def positions_card(rates: Float[Tensor, "channels *positions"], items: int) -> Card:
    """How the rate of spatial codes is spread over their positions."""
    total = rates.double().sum(0)
    shape = " x ".join(map(str, total.shape))
    place = tuple(int(one) for one in np.unravel_index(int(total.argmax()), tuple(total.shape)))
    mean, whole, highest = (float(one) for one in (total.mean(), total.sum(), total.max()))
    meaning = (
        f"The latents are {len(rates)} channels, and the {shape} positions of {items} items are the examples. The rate "
        f"is {mean:.3g} nats at a position on average and {whole:.4g} nats for an item; it is highest at position "
        f"{place}, with {highest:.3g} nats."
    )
    rows = [
        {"position": str(tuple(map(int, where))), "rate": float(total[where])} for where in np.ndindex(*total.shape)
    ]
    return Card("Positions", NOTE, meaning, "", rows)


def groups_card(rates: Mapping[str, float], types: Mapping[str, VariableTypes]) -> Card:
    """How latents and rate are distributed over the groups of a hierarchical model."""
    total = sum(rates.values())
    unused = [name for name, found in types.items() if len(collapsed_latents(found)) == len(found.types)]
    rows = [{"group": name, "rate": rates[name], **types[name].counts} for name in types]
    counts = {kind: sum(found.counts[kind] for found in types.values()) for kind in VARIABLE_TYPES}
    latents = sum(counts.values())
    meaning = (
        f"Of {latents} latents in {len(types)} groups, {counts[ACTIVE]} are active, {counts[MIXED]} mixed, and "
        f"{counts[PASSIVE]} passive; the rates of the groups add up to {total:.4g} nats for an item."
    )
    if not unused:
        return Card("Groups", GOOD, meaning, "", rows)
    advice = f"{listed(unused)} equals its prior: remove it, {WEAKER_KL}, or train the groups one after another."
    return Card("Groups", BAD if len(unused) == len(types) else WARNING, meaning, advice, rows)


def latents_in_words(numbers: Sequence[int]) -> str:
    """'Latents 0, 2 to 4': three or more consecutive numbers as a range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in ranges]
    return f"Latent{'' if len(numbers) == 1 else 's'} {', '.join(parts)}"
