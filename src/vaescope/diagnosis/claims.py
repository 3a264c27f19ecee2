"""Claims: what a headline or a card says, as data, so that two of them can be checked for a contradiction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, Protocol, get_args

Status = Literal["bad", "warning", "note", "good", "not applicable"]
BAD: Final = "bad"
WARNING: Final = "warning"
NOTE: Final = "note"
GOOD: Final = "good"
NOT_APPLICABLE: Final = "not applicable"
SEVERITY: tuple[Status, ...] = get_args(Status)  # the worst first

State = Literal["diverged", "undertrained", "collapsed", "overfitted", "poor", "codes only", "fine"]
DIVERGED: Final = "diverged"
UNDERTRAINED: Final = "undertrained"
COLLAPSED: Final = "collapsed"
OVERFITTED: Final = "overfitted"
POOR: Final = "poor"
CODES_ONLY: Final = "codes only"
FINE: Final = "fine"

ClaimKind = Literal[
    "passive",  # these latents are passive
    "in use",  # these latents are active or mixed
    "collapsed",  # these latents equal the prior
    "removable",  # these latents can be removed
    "encodes",  # these latents encode factors, or predict them
    "types",  # the number of items over which types were counted
    "information",  # the codes carry this many nats
    "explained",  # reconstructions explain this share of the variance in the data
    "train longer",  # training was too short
    "loss level",  # the loss no longer changes
    "regime formed",
    "cause",  # the weight of the KL term is why latents collapsed
    "more latents",  # the model may need more
    "fewer latents",
    # Of several models:
    "used",  # this model uses these latents; their number
    "similarity",  # the mean similarity of the codes of these models
    "matched",  # these latents of the first of two models match one of the second each; their number
    "constant codes",  # the codes of this model are equal for all items
    "other items",  # these two models encode different items
    "equal numbers",  # these two models must and do have as many active and passive latents
    "losses differ",  # the losses of these models are not comparable
]
ALMOST_NO_INFORMATION = 1.0  # nats; codes of latents that all equal the prior carry less


@dataclass(frozen=True)
class Claim:
    """One thing that is said.

    Attributes:
        kind: What is claimed.
        latents: The latents that it is about.
        number: The number that it is about.
        severity: How bad it is.
        models: The names of the models that it is about; empty in the diagnosis of one model.
    """

    kind: ClaimKind
    latents: tuple[int, ...] = ()
    number: float | None = None
    severity: Status = NOTE
    models: tuple[str, ...] = ()


class Speaker(Protocol):
    """A card."""

    @property
    def title(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def claims(self) -> tuple[Claim, ...]: ...


class Leader(Protocol):
    """A headline."""

    @property
    def state(self) -> State: ...
    @property
    def claims(self) -> tuple[Claim, ...]: ...


class Typed(Protocol):
    """The types of the latents."""

    @property
    def types(self) -> tuple[str, ...]: ...
    @property
    def passive(self) -> tuple[int, ...]: ...


class Diagnosed(Protocol):
    """A diagnosis."""

    @property
    def headline(self) -> Leader: ...
    @property
    def cards(self) -> Iterable[Speaker]: ...
    @property
    def types(self) -> Typed: ...
    @property
    def has_objective(self) -> bool: ...


# Kinds of claims that no latent can have together.
OPPOSED: tuple[tuple[ClaimKind, ClaimKind], ...] = (
    ("passive", "in use"),
    ("passive", "encodes"),
    ("collapsed", "in use"),
    ("collapsed", "encodes"),
    ("removable", "in use"),
    ("removable", "encodes"),
)
# Kinds that cannot both be claimed, whatever they are about.
EXCLUSIVE: tuple[tuple[ClaimKind, ClaimKind], ...] = (
    ("train longer", "loss level"),
    ("train longer", "more latents"),
    ("train longer", "fewer latents"),
    ("train longer", "removable"),
    ("train longer", "cause"),
    ("more latents", "fewer latents"),
    ("more latents", "removable"),
    ("more latents", "collapsed"),
)
# Kinds whose number, or whose latents, must be the same wherever they are claimed.
SAME_NUMBER: tuple[ClaimKind, ...] = ("types", "information", "explained", "used", "similarity", "matched")
SAME_LATENTS: tuple[ClaimKind, ...] = ("passive", "in use", "collapsed", "removable")


def contradictions(diagnosis: Diagnosed) -> tuple[str, ...]:
    """What the headline and the cards of a diagnosis say that cannot both be true, one sentence each."""
    said = [("the headline", claim) for claim in diagnosis.headline.claims]
    said += [(card.title, claim) for card in diagnosis.cards for claim in card.claims]
    return (*between_claims(said), *_with_the_state(diagnosis, said))


def between_claims(said: list[tuple[str, Claim]]) -> Iterator[str]:
    """Pairs of claims about the same models that cannot both be true, each with the name of who says it."""
    for (one, first), (other, second) in combinations(said, 2):
        if first.models != second.models:
            continue
        both = f"{one} claims {first.kind!r} and {other} {second.kind!r}"
        kinds = {(first.kind, second.kind), (second.kind, first.kind)}
        shared = sorted(set(first.latents) & set(second.latents))
        if kinds & set(OPPOSED) and shared:
            yield f"{both} of the latents {shared}."
        if kinds & set(EXCLUSIVE):
            yield f"{both}."
        if first.kind != second.kind:
            continue
        if first.kind in SAME_NUMBER and first.number != second.number:
            yield f"{both} of {first.number} and {second.number}."
        if first.kind in SAME_LATENTS and first.latents != second.latents:
            yield f"{both} of {first.latents} and {second.latents}."


def _with_the_state(diagnosis: Diagnosed, said: list[tuple[str, Claim]]) -> Iterator[str]:
    """What the state of the headline excludes, and what it requires."""
    state, types = diagnosis.headline.state, diagnosis.types
    where = {claim.kind: name for name, claim in said}
    asks = [card.title for card in diagnosis.cards if any(claim.kind == "train longer" for claim in card.claims)]
    if asks and state != UNDERTRAINED:
        yield f"{asks[0]} asks for more training, and the headline is {state!r}."
    if state == UNDERTRAINED and not asks:
        yield "the headline asks for more training, and no card does."
    if "cause" in where and not diagnosis.has_objective:
        yield f"{where['cause']} claims a cause, and the objective is not known."
    for name, claim in said:
        if claim.kind == "collapsed" and not set(claim.latents) <= set(types.passive):
            yield f"{name} claims that latents collapsed that are not passive."
        if claim.kind == "passive" and claim.latents != types.passive:
            yield f"{name} claims other passive latents than the types of the diagnosis."
        everything = any(len(one.latents) == len(types.types) for _, one in said if one.kind == "collapsed")
        if everything and claim.kind == "information" and (claim.number or 0.0) >= ALMOST_NO_INFORMATION:
            yield f"all latents collapsed, and {name} claims {claim.number} nats of information."
    worst = [card.title for card in diagnosis.cards if card.status == BAD]
    if worst and state in (FINE, CODES_ONLY, UNDERTRAINED, OVERFITTED):
        yield f"the headline is {state!r}, and these cards are bad: {', '.join(worst)}."
    if state in (COLLAPSED, POOR, DIVERGED) and not any(card.status in (BAD, WARNING) for card in diagnosis.cards):
        yield f"the headline is {state!r}, and no card is worse than a note."
