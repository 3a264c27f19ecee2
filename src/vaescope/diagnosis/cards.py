"""Cards: what a diagnosis says to a person, one at a time, with the numbers behind it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from vaescope.checks import without_infinities
from vaescope.notebook import render_view

GOOD, NOTE, WARNING, BAD, NOT_APPLICABLE = "good", "note", "warning", "bad", "not applicable"
SEVERITY = (BAD, WARNING, NOTE, GOOD, NOT_APPLICABLE)


@dataclass(frozen=True)
class Card:
    """A title, a status, one sentence of meaning, one of advice, and the rows of data behind them."""

    title: str
    status: str
    meaning: str
    advice: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, Any]:
        """The card as a table for machines."""
        return without_infinities(asdict(self))


def by_severity(cards: list[Card]) -> tuple[Card, ...]:
    """The worst first; cards of one status keep their order."""
    return tuple(sorted(cards, key=lambda card: SEVERITY.index(card.status)))
