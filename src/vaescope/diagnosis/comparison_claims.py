"""Whether what the summary and the cards of a comparison say can all be true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

from vaescope.diagnosis.claims import Claim, ClaimKind, Speaker, between_claims
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE


class Compared(Protocol):
    """A comparison."""

    @property
    def claims(self) -> tuple[Claim, ...]: ...
    @property
    def cards(self) -> Iterable[Speaker]: ...
    @property
    def table(self) -> Sequence[Mapping[str, object]]: ...


def comparison_contradictions(found: Compared) -> tuple[str, ...]:
    """What the summary, the cards and the table of a comparison say that cannot all be true, one sentence each."""
    said = [("the summary", claim) for claim in found.claims]
    said += [(card.title, claim) for card in found.cards for claim in card.claims]
    rows = {str(row["name"]): row for row in found.table}
    return (*between_claims(said), *_with_the_table(said, rows), *_between_models(said))


def _with_the_table(said: Sequence[tuple[str, Claim]], rows: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for name, claim in said:
        known = [rows[model] for model in claim.models]
        if claim.kind == "used" and [claim.number] != [_used(row) for row in known]:
            yield f"{name} claims {claim.number} latents in use of {claim.models[0]}, the table {_used(known[0])}."
        if claim.kind == "used" and claim.latents and len(claim.latents) != claim.number:
            yield f"{name} claims {claim.number} latents in use of {claim.models[0]}, and lists {claim.latents}."
        if claim.kind == "matched" and (claim.number or 0) > min(map(_used, known)):
            yield f"{name} claims more matched latents of {' and '.join(claim.models)} than both use."
        if claim.kind == "equal numbers" and any(len({row[kind] for row in known}) > 1 for kind in (ACTIVE, PASSIVE)):
            yield f"{name} claims equal numbers of latents of {' and '.join(claim.models)}, and the table differs."
        if claim.kind == "losses differ" and any("test_loss" in row for row in rows.values()):
            yield f"{name} claims that losses cannot be compared, and the table has them side by side."


def _between_models(said: Sequence[tuple[str, Claim]]) -> Iterator[str]:
    """What is claimed of models whose codes cannot be compared."""
    constant = {claim.models[0] for claim in _of(said, "constant codes")}
    apart = {frozenset(claim.models) for claim in _of(said, "other items")}
    for name, claim in said:
        excluded = sorted(constant & set(claim.models))
        if claim.kind == "similarity" and excluded:
            yield f"{name} claims a similarity of models with constant codes: {', '.join(excluded)}."
        if claim.kind == "matched" and claim.number and excluded:
            yield f"{name} claims matched latents of models with constant codes: {', '.join(excluded)}."
        if claim.kind == "matched" and frozenset(claim.models) in apart:
            yield f"{name} claims matched latents of models that encode different items."
        pairs = [frozenset(pair) for pair in combinations(claim.models, 2)]
        if claim.kind == "similarity" and pairs and all(pair in apart for pair in pairs):
            yield f"{name} claims a similarity of models that encode different items."


def _of(said: Sequence[tuple[str, Claim]], kind: ClaimKind) -> Iterator[Claim]:
    return (claim for _, claim in said if claim.kind == kind)


def _used(row: Mapping[str, object]) -> int:
    return int(str(row["latents"])) - int(str(row[PASSIVE]))
