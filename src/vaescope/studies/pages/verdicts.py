"""The words that pages open with: claims and verdicts, scale and cost; and the index, which counts them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from vaescope.studies.claims import FAILS, UNTESTED, VERDICTS, tally
from vaescope.studies.kept import command_in_full, cost_of
from vaescope.studies.results import JsonTable
from vaescope.studies.settings import PAPER

CUT = re.compile(r"\(of the training (.*)\)")
SEEDS = re.compile(r" --seeds (\d+)")
SHORTENED = "tested on pages with shortened training"
DOCUMENTS = {
    "bonheme": "Bonheme's thesis",
    "clapham": "Clapham and Grzes",
    "mathieu": "Mathieu and others",
    "pastrana": "Pastrana",
    "rolinek": "Rolinek and others",
}
HOW = (
    "Every verdict follows from a rule in the code, which compares numbers of the study's JSON. A claim holds where "
    "all comparisons of its rule agree, holds in part where some do, and does not hold where none does. Means of "
    "seeds differ where they are more than two standard errors of their difference apart; a published number with a "
    "spread agrees with ours within two standard errors, which have the seeds of both sides. A claim for which there "
    "are only quick stand-ins, or no data, is not tested here. 'Trained in full' means as long as in the source; what"
    " else differs from it, such as nets and seeds, is on the page."
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
    cost = cost_of(command_in_full(plain["study"]))
    if cost is not None and cost.minutes == 0:
        return "nothing is trained"
    seeds = {found[1] for command in plain["made_by"] if (found := SEEDS.search(command))}
    return f"{_training(plain)}{f', {seeds.pop()} seeds' if len(seeds) == 1 else ''}"


def _training(plain: JsonTable) -> str:
    """The share of the training on each data set, shares that are equal together."""
    cut = CUT.search(plain["scale_words"])
    if cut is None:
        return "trained in full"
    shares: dict[str, list[str]] = {}
    for part in cut.group(1).split(", "):
        share, name = part.split(" on ")
        shares.setdefault(f"{100 * float(share):.2g}%", []).append(name)
    parts = [f"{share} of the training on {_listed(names)}" for share, names in shares.items()]
    trained = {row.get("data") for row in plain["rows"] if row["ours"] is not None}
    others = ["all of it on other data"] if len(trained) > sum(map(len, shares.values())) else []
    return ", ".join([*parts, *others])


def _listed(names: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def scale_or_reason(plain: JsonTable, claim: Mapping[str, str]) -> str:
    """For a tested claim how much was trained, for another why it was not tested."""
    if claim["verdict"] != UNTESTED:
        return scale_text(plain)
    if not is_quick(plain):
        return claim["why"]
    cost = cost_of(command_in_full(plain["study"]))
    return f"not run: {cost}" if cost is not None else "not run"


def is_shortened(plain: JsonTable) -> bool:
    """Whether some of the training was cut."""
    return CUT.search(plain["scale_words"]) is not None


def scale_and_cost(plain: JsonTable) -> str:
    """What was run and what it costs, and the same in full."""
    full = command_in_full(plain["study"])
    if is_quick(plain):
        return f"Only a quick stand-in was run, whose numbers are no results. To test: {_with_cost(full)}."
    made = " and ".join(map(_with_cost, plain["made_by"]))
    whole = f" In full: {_with_cost(full)}." if is_shortened(plain) or _has_fewer_seeds(plain) else ""
    return f"Scale: {scale_text(plain)}. Made by {made}.{whole}"


def _has_fewer_seeds(plain: JsonTable) -> bool:
    """Whether the study costs more with its own number of seeds."""
    full, *made = (cost_of(command) for command in (command_in_full(plain["study"]), *plain["made_by"]))
    minutes = [cost.minutes for cost in made if cost is not None and cost.minutes is not None]
    return full is not None and full.minutes is not None and bool(minutes) and full.minutes > sum(minutes)


def verdict_text(claim: Mapping[str, str]) -> tuple[str, str, str]:
    """The verdict, the claim with its place, and the reason."""
    return claim["verdict"].capitalize(), f"{claim['claim'].rstrip('.')} ({claim['where']}).", claim["why"]


def summary_sentences(kept: Sequence[JsonTable]) -> str:
    """What holds of all documents, in a few sentences."""
    claims = _verdicts(kept)
    tested, cut = _tested(kept), _tested([plain for plain in kept if is_shortened(plain)])
    quick = [plain for plain in kept if is_quick(plain)]
    absent = [plain for plain in quick if (cost := cost_of(command_in_full(plain["study"]))) and cost.minutes is None]
    parts = [f"{tally(claims)}."]
    if tested and cut:
        parts.append(f"Of the {len(tested)} that are tested, {len(cut)} are on pages with shortened training.")
    if quick:
        lack = f" For {len(absent)} of these the data could not be had." if absent else ""
        parts.append(f"{len(quick)} of {len(kept)} studies were only run as quick stand-ins, which test nothing.{lack}")
    return " ".join(parts)


def by_document(kept: Sequence[JsonTable]) -> dict[str, list[JsonTable]]:
    """The studies of each document, under its name."""
    found: dict[str, list[JsonTable]] = {}
    for plain in kept:
        name = plain["study"].partition("-")[0]
        found.setdefault(DOCUMENTS.get(name, name), []).append(plain)
    return found


def count_rows(kept: Sequence[JsonTable]) -> list[dict[str, str]]:
    """How many claims of each document have each verdict, and how many tested ones rest on shortened training."""
    rows = []
    for title, own in by_document(kept).items():
        counts = Counter(_verdicts(own))
        cut = _tested([plain for plain in own if is_shortened(plain)])
        numbers = {"claims": counts.total(), **{one: counts[one] for one in VERDICTS}, SHORTENED: len(cut)}
        rows.append({"document": title, **{name: str(number) for name, number in numbers.items()}})
    return rows


def _verdicts(kept: Sequence[JsonTable]) -> list[str]:
    return [one["verdict"] for plain in kept for one in plain["claims"]]


def _tested(kept: Sequence[JsonTable]) -> list[str]:
    return [verdict for verdict in _verdicts(kept) if verdict != UNTESTED]


def failed_claims(kept: Sequence[JsonTable]) -> list[tuple[JsonTable, Mapping[str, str]]]:
    """The study and the claim, for every claim that does not hold."""
    return [(plain, one) for plain in kept for one in plain["claims"] if one["verdict"] == FAILS]


def _with_cost(command: str) -> str:
    cost = cost_of(command)
    return f"`{command}`{f' ({cost})' if cost else ''}"
