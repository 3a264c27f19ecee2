"""Cards: the findings of a diagnosis, each with a status, an explanation, advice and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from vaescope.checks import without_infinities
from vaescope.notebook import render_view

Status = Literal["bad", "warning", "note", "good", "not applicable"]
BAD: Final = "bad"
WARNING: Final = "warning"
NOTE: Final = "note"
GOOD: Final = "good"
NOT_APPLICABLE: Final = "not applicable"
SEVERITY: tuple[Status, ...] = (BAD, WARNING, NOTE, GOOD, NOT_APPLICABLE)


@dataclass(frozen=True)
class Card:
    """One finding.

    Attributes:
        title: What the card is about.
        status: 'bad', 'warning', 'note', 'good' or 'not applicable'.
        meaning: What was found, in one sentence.
        advice: What to do about it; empty if nothing needs to be done.
        rows: The numbers behind the finding, as rows of a table.
    """

    title: str
    status: Status
    meaning: str
    advice: str = ""
    rows: Sequence[Mapping[str, object]] = ()

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, object]:
        """The card as a JSON-compatible dictionary."""
        return {name: without_infinities(value) for name, value in asdict(self).items()}


def by_severity(cards: Iterable[Card]) -> tuple[Card, ...]:
    """Sort cards from the worst status to the best; cards with the same status keep their order."""
    return tuple(sorted(cards, key=lambda card: SEVERITY.index(card.status)))
