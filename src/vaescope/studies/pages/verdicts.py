"""The words that pages open with: claims and verdicts, scale and cost; and the index, which counts them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vaescope.studies.claims import FAILS, UNTESTED, tally
from vaescope.studies.kept import command_in_full, cost_of
from vaescope.studies.results import JsonTable
from vaescope.studies.settings import PAPER

CUT = re.compile(r"\(of the training (.*)\)")
DOCUMENTS = {
    "bonheme": "Bonheme's thesis",
    "clapham": "Clapham and Grzes",
    "mathieu": "Mathieu and others",
    "pastrana": "Pastrana",
    "rolinek": "Rolinek and others",
}
HOW = (
    "Every verdict follows from a rule in the code, which compares numbers of the study's JSON. A claim holds where "
    "all comparisons of its rule agree, holds in part where some do, and does not hold where none does. Means of seeds "
    "differ where they are more than two standard errors of their difference apart; a published number with a spread "
    "agrees with ours within two standard errors, which have the seeds of both sides. A claim for which there are only "
    "quick stand-ins, or no data, is not tested here."
)


def is_quick(plain: JsonTable) -> bool:
    """Whether a study has quick stand-ins alone, whose numbers are no results."""
    return (
        bool(plain["claims"]) and plain["scale"] != PAPER and all(one["verdict"] == UNTESTED for one in plain["claims"])
    )


def scale_text(plain: JsonTable) -> str:
    """How much was trained, in words."""
    if plain["scale"] != PAPER:
        return "quick stand-in"
    cut = CUT.search(plain["scale_words"])
    if cut is None:
        return "as published"
    shares = [part.split(" on ") for part in cut.group(1).split(", ")]
    return f"{', '.join(f'{float(share):.0%} of the training on {name}' for share, name in shares)}"


def is_shortened(plain: JsonTable) -> bool:
    """Whether some of the training was cut."""
    return CUT.search(plain["scale_words"]) is not None


def scale_and_cost(plain: JsonTable) -> str:
    """What was run and what it costs, and the same in full."""
    full = command_in_full(plain["study"])
    if is_quick(plain):
        return f"Only a quick stand-in was run, whose numbers are no results. To test: {_with_cost(full)}."
    made = " and ".join(map(_with_cost, plain["made_by"]))
    whole = f" In full: {_with_cost(full)}." if is_shortened(plain) else ""
    return f"Scale: {scale_text(plain)}. Made by {made}.{whole}"


def verdict_text(claim: Mapping[str, str]) -> tuple[str, str, str]:
    """The verdict, the claim with its place, and the reason."""
    return claim["verdict"].capitalize(), f"{claim['claim'].rstrip('.')} ({claim['where']}).", claim["why"]


def summary_sentences(kept: Sequence[JsonTable]) -> str:
    """What holds of the documents, in a few sentences."""
    claims = [one["verdict"] for plain in kept for one in plain["claims"]]
    tested = [verdict for verdict in claims if verdict != UNTESTED]
    cut = [one for plain in kept if is_shortened(plain) for one in plain["claims"] if one["verdict"] != UNTESTED]
    quick = [plain for plain in kept if is_quick(plain)]
    parts = [f"{tally(claims)}."]
    if tested and cut:
        parts.append(
            f"Of the {len(tested)} that are tested, {len(cut)} rest on training that was shortened on some data."
        )
    if quick:
        parts.append(f"{len(quick)} of {len(kept)} studies have only been run as quick stand-ins, which test nothing.")
    for name, title in DOCUMENTS.items():
        own = [one["verdict"] for plain in kept if plain["study"].startswith(f"{name}-") for one in plain["claims"]]
        if own:
            total, counts = tally(own).split(": ")
            parts.append(f"{title} ({total}): {counts}.")
    return " ".join(parts)


def failed_claims(kept: Sequence[JsonTable]) -> list[tuple[JsonTable, Mapping[str, str]]]:
    """The study and the claim, for every claim that does not hold."""
    return [(plain, one) for plain in kept for one in plain["claims"] if one["verdict"] == FAILS]


def _with_cost(command: str) -> str:
    cost = cost_of(command)
    return f"`{command}`{f' ({cost})' if cost else ''}"
