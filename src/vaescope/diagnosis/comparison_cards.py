"""The cards and the headline of a comparison: what was compared, and whether the models learned the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float

from vaescope.codes import Representation
from vaescope.diagnosis.cards import GOOD, NOT_APPLICABLE, NOTE, WARNING, Card
from vaescope.diagnosis.claims import Claim
from vaescope.diagnosis.names import Settings, differing, setting_words
from vaescope.metrics import Score, udr
from vaescope.metrics.mutual_information import listed
from vaescope.regime import VariableTypes
from vaescope.similarity import LatentMatching, conservation
from vaescope.similarity.matching import MIN_MATCH

# The lowest similarity of each description, highest first.
SHARED_INFORMATION = {0.85: "nearly the same", 0.5: "partly the same", 0.0: "largely different"}
SHARED_LATENTS = {0.8: "the same latents", 0.4: "partly the same latents", 0.0: "different latents"}

Matchings = Mapping[tuple[int, int], LatentMatching]


def describe(value: float, descriptions: dict[float, str]) -> str:
    """The first description whose bound the value reaches, or the last one."""
    return next((text for bound, text in descriptions.items() if value >= bound), list(descriptions.values())[-1])


def answer(similarity: float, share: float | None) -> str:
    """Whether models learned the same, in a few words.

    Args:
        similarity: The mean similarity of their codes.
        share: The mean share of latents that match; None if latents were not matched.
    """
    same, partly, _ = SHARED_INFORMATION
    if similarity < same:
        return "Partly" if similarity >= partly else "No"
    if share is None or share >= next(iter(SHARED_LATENTS)):
        return "Yes"
    return f"Same information, {describe(share, SHARED_LATENTS)}"


def matched_words(matchings: Sequence[LatentMatching]) -> str:
    """How many latents match, as the end of a sentence; empty if no pair of models has latents in use."""
    known = [one for one in matchings if one.most]
    if not known:
        return ""
    if len(known) == 1:
        (one,) = known
        return f"{one.matched} of {one.most} latents match{'es' if one.matched == 1 else ''}"
    return f"{np.mean([one.share for one in known]):.0%} of the latents match on average"


def settings_card(names: Sequence[str], settings: Sequence[Settings], comparable: bool) -> Card:
    """The settings in which the compared runs differ, and whether their losses can be compared."""
    title, found = "What differs", differing(settings)
    runs = sum(bool(one) for one in settings)
    if runs < 2:
        return Card(title, NOT_APPLICABLE, "Settings are known of runs only, and fewer than two models are runs.")
    rows = [
        {"name": name, **{setting: one.get(setting) for setting in found}}
        for name, one in zip(names, settings, strict=True)
        if one
    ]
    which = listed([setting_words(name) for name in found]) if found else "none of their settings"
    meaning = f"The runs differ in {which}."
    if comparable:
        return Card(title, NOTE, meaning, "", rows)
    advice = "Compare rate and distortion; the losses are not comparable."
    return Card(title, NOTE, meaning, advice, rows, (Claim("losses differ", models=tuple(names)),))


def usage_card(names: Sequence[str], types: Sequence[VariableTypes]) -> Card:
    """Whether the models use the same number of latents, which limits how similar their codes can be."""
    latents = [tuple(in_use(one)) for one in types]
    claims = tuple(Claim("used", own, len(own), models=(name,)) for name, own in zip(names, latents, strict=True))
    used = [len(own) for own in latents]
    rows = [{"name": name, "used": count, **one.counts} for name, count, one in zip(names, used, types, strict=True)]
    meaning, advice = f"All models use {used[0]} latents.", ""
    if len(set(used)) > 1:
        span = f"{min(used)} {'and' if len(used) == 2 else 'to'} {max(used)}"
        meaning = f"The models use {span} latents, which limits how similar their codes can be."
        advice = "Compare models that use the same number of latents."
    return Card("Latents in use", NOTE, meaning, advice, rows, claims)


def in_use(types: VariableTypes) -> list[int]:
    """The latents that are not passive."""
    passive = set(types.passive)
    return [latent for latent in range(len(types.types)) if latent not in passive]


def matching_card(names: Sequence[str], matchings: Matchings, ranking: Score | None, reason: str) -> Card:
    """Which latents the models share.

    Args:
        names: The names of the models.
        matchings: The matching of each pair of models.
        ranking: The UDR of the models; None if it could not be computed.
        reason: Why there are no matchings; empty if there are.
    """
    title = "Matched latents"
    if reason:
        return Card(title, NOT_APPLICABLE, reason)
    rows = [
        {"one": names[i], "other": names[j], "matched": found.matched, "of": found.most, "share": found.share}
        for (i, j), found in matchings.items()
    ]
    words = matched_words(list(matchings.values()))
    if not words:
        return Card(title, NOT_APPLICABLE, "No model uses a latent, so there is nothing to match.", "", rows)
    rows += [] if ranking is None else [{"one": name, "udr": ranking.parts[name]} for name in names]
    udr_words = "" if ranking is None else f" UDR: {ranking.score:.2f} (1 = one-to-one)."
    meaning = f"{words} (one-to-one, with an absolute correlation of at least {MIN_MATCH:g}).{udr_words}"
    return Card(title, NOTE, meaning, "", rows, matched_claims(names, matchings))


def matched_claims(names: Sequence[str], matchings: Matchings) -> tuple[Claim, ...]:
    """How many latents of each pair of models match, and which of the first model."""
    return tuple(
        Claim(
            "matched",
            tuple(sorted(pair.one for pair in found.pairs if pair.matches)),
            found.matched,
            models=(names[i], names[j]),
        )
        for (i, j), found in matchings.items()
        if found.most
    )


def constant_card(names: Sequence[str]) -> Card | None:
    """Models that are excluded from the similarity because their codes are equal for all items; None if none are."""
    if not names:
        return None
    meaning = f"The codes of {listed(names)} are equal for all items, so they cannot be compared with others."
    claims = tuple(Claim("constant codes", severity=WARNING, models=(name,)) for name in names)
    return Card("Constant codes", WARNING, meaning, "Diagnose them: they carry no information.", claims=claims)


def items_card(names: Sequence[str], items: Sequence[str], foreign: Sequence[str]) -> Card | None:
    """Models that encode other items than the first one, and models that were trained on other data; None if none.

    Args:
        names: The names of the models.
        items: A description of the items that each model encodes.
        foreign: The names of the models that were trained on other data than they encode here.
    """
    if len(set(items)) > 1:
        groups = {one: [name for name, other in zip(names, items, strict=True) if other == one] for one in items}
        parts = [f"{one} for {listed(members)}" for one, members in groups.items()]
        meaning = f"The models encode different items: {'; '.join(parts)}. Similarity needs the same items."
        rows = [{"name": name, "items": one} for name, one in zip(names, items, strict=True)]
        pairs = combinations(zip(names, items, strict=True), 2)
        claims = [
            Claim("other items", severity=WARNING, models=(one, other))
            for (one, its), (other, others) in pairs
            if its != others
        ]
        advice = "Types and rates are those on each model's own data."
        return Card("Not comparable", WARNING, meaning, advice, rows, tuple(claims))
    if foreign:
        meaning = f"All models encode {items[0]}. Trained on other data: {listed(foreign)}."
        return Card("Data", NOTE, meaning, "Pass data to compare the models on other items.")
    return None


def theory_card(names: Sequence[str], codes: Sequence[Representation], types: Sequence[VariableTypes]) -> Card:
    """Whether models with similar variances have equal numbers of active and passive latents, as they must."""
    title, rows = "Agreement with theory", []
    # The theorems do not cover deterministic codes.
    random = [place for place, one in enumerate(codes) if bool((one.variance > 0).any(1).all())]
    for i, j in combinations(random, 2):
        if codes[i].positions != codes[j].positions or len(codes[i]) != len(codes[j]):
            continue
        found = conservation(codes[i], codes[j], types_a=types[i], types_b=types[j])
        row = {"alignment": found.alignment, "bound": found.bound, "follows": found.predicted, "holds": found.holds}
        rows.append({"one": names[i], "other": names[j], **row})
    similar = [row for row in rows if row["follows"]]
    if not similar:
        meaning = "No two models have variances so similar that their numbers of active and passive latents must agree."
        return Card(title, NOT_APPLICABLE, meaning, "", rows)
    agreeing = sum(bool(row["holds"]) for row in similar)
    pairs = "1 pair has" if len(similar) == 1 else f"{len(similar)} pairs have"
    meaning = (
        f"{pairs} variances so similar that the numbers of active and passive latents must agree (Bonheme, theorem "
        f"7.4.2); they agree for {agreeing} of {len(similar)}."
    )
    claims = tuple(
        Claim("equal numbers", severity=GOOD, models=(str(row["one"]), str(row["other"])))
        for row in similar
        if row["holds"]
    )
    if agreeing < len(similar):
        advice = "Where they do not agree, a model is not fully polarised: diagnose both."
        return Card(title, WARNING, meaning, advice, rows, claims)
    return Card(title, GOOD, meaning, "", rows, claims)


def udr_of(names: Sequence[str], codes: Sequence[Representation]) -> Score | None:
    """The UDR, which selects latents by their KL divergence; None where variances are 0."""
    return None if any(bool((one.variance == 0).any()) for one in codes) else udr(codes, names=names)


def measure_name(measure: str) -> str:
    """A measure of similarity as people write it: 'CKA', 'Procrustes'."""
    return measure.upper() if measure == "cka" else measure.capitalize()


def similarity_words(
    matrix: Float[np.ndarray, "models models"], names: Sequence[str], measure: str, representation: str
) -> tuple[str, str]:
    """How similar the codes of the models are, and the most and the least similar pair of three or more models.

    Both are empty if no two models can be compared.
    """
    pairs = [(float(matrix[i, j]), names[j], names[i]) for i in range(len(names)) for j in range(i)]
    known = sorted(pair for pair in pairs if not np.isnan(pair[0]))
    if not known:
        return "", ""
    mean = float(np.mean([similarity for similarity, *_ in known]))
    name = measure_name(measure)
    of = "" if representation == "mean" else f" of the {representation}s"
    text = f"{describe(mean, SHARED_INFORMATION)} information ({name}{of} {mean:.2f}"
    if len(known) == 1:
        return f"{text})", ""
    low, high = (f"{one} and {other} ({value:.2f})" for value, one, other in (known[0], known[-1]))
    return f"{text} on average, {known[0][0]:.2f} to {known[-1][0]:.2f})", f"Most similar: {high}; least similar: {low}"
