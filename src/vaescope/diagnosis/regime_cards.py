"""What the polarised regime of a model means: cards made from diagnostics and, where there is one, a history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, WARNING, Card
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.regime import (
    Collapse,
    DeltaKL,
    Downstream,
    MeanAndSampled,
    MutualInformation,
    VariableTypes,
    share_below,
)
from vaescope.regime.combinations import MEAN, SAMPLED
from vaescope.regime.information import ITEMS

FORMED = 0.03  # the share of the rate that Rolinek et al. (section 5.2) let the simplified one differ by
MANY = 0.5
NOTHING = 0.01  # nats
ERRORS = 3  # standard errors by which an accuracy must pass a guess
BIT = math.log(2)
USES = {"mixture": "for some examples only", "intermediate": "a little for all examples"}
LOOSEN = "lower the weight of the rate, raise it slowly (warm-up) or leave it some free bits"


def verdict(types: VariableTypes) -> str:
    """The types of the latents and what follows from them, in one sentence."""
    latents, dropped = len(types.types), len(collapsed(types))
    if is_deterministic(types):
        return "The codes have no variance, as those of a plain autoencoder: there is no posterior to collapse."
    if dropped == latents:
        trouble = "the posterior has collapsed and the codes say nothing about the data"
    elif dropped > MANY * latents:
        trouble = "most latents have collapsed"
    elif dropped:
        trouble = "the passive ones can be dropped" if dropped == len(types.passive) else "some latents have collapsed"
    else:
        trouble = "no latent has collapsed"
    return f"{types.summary()}; {trouble}."


def is_deterministic(types: VariableTypes) -> bool:
    """Whether every variance is 0."""
    return not bool(types.statistics.variance.mean.any())


def collapsed(types: VariableTypes) -> tuple[int, ...]:
    """The passive latents whose means stand still too; types are read from the variance alone."""
    return tuple(latent for latent in types.passive if types.by_rule["rolinek"][latent] == PASSIVE)


def types_card(types: VariableTypes) -> Card:
    """Which latents are of use."""
    title, meaning, rows = "Variable types", f"{types.summary()}.", types.rows()
    dropped = collapsed(types)
    moving, kept = [latent for latent in types.passive if latent not in dropped], len(types.types) - len(dropped)
    if is_deterministic(types):
        return Card(title, NOT_APPLICABLE, "Codes without a variance have no types.", "", rows)
    if moving:
        advice = f"{_latents(moving)} may be in use: the variance is the prior's, but the mean varies with the data."
        return Card(title, NOTE, meaning, advice, rows)
    if not dropped:
        advice = "" if types.mixed else "All latents are in use: there may be room for more of them."
        return Card(title, NOTE, meaning, advice, rows)
    if not kept:
        return Card(title, BAD, meaning, "", rows)
    others = "the other latent carries" if kept == 1 else f"the other {kept} carry"
    return Card(title, GOOD, meaning, f"{_latents(dropped)} can be dropped: {others} as much.", rows)


def collapse_card(found: Collapse, history: Sequence[dict[str, Any]] = (), settings: str = "") -> Card:
    """Which latents collapsed, since when, which term drove it, and what to change."""
    title, dropped, latents = "Posterior collapse", collapsed(found.types), len(found.rates)
    since = passive_since(history, latents)
    rows = [{**row, "passive_since": since.get(row["latent"])} for row in found.rows()]
    if is_deterministic(found.types):
        moving = f"{len(found.active_units)} of {latents}"
        meaning = f"Codes without a variance cannot collapse to a prior; {moving} latents vary with the data."
        return Card(title, NOT_APPLICABLE, meaning, "", rows)
    if not dropped:
        return Card(title, GOOD, "No latent has collapsed to the prior.", "", rows)
    when = _when(sorted({since[latent] for latent in dropped if latent in since}))
    weight = f"the rate ({settings})" if settings else "the rate"
    driver = f"{weight} outweighs what {'it' if len(dropped) == 1 else 'they'} would add to the reconstruction."
    if len(dropped) == latents:
        which = "The only latent equals" if latents == 1 else f"All {latents} latents equal"
        meaning = f"{which} the prior{when}, so the code says nothing about the data: {driver}"
        return Card(title, BAD, meaning, f"{LOOSEN.capitalize()}.", rows)
    meaning = f"{_latents(dropped)} ({len(dropped)} of {latents}) collapsed to the prior{when}: {driver}"
    if len(dropped) > MANY * latents:
        advice = f"If reconstructions are good, ask for fewer latents; if they are poor, {LOOSEN}."
        return Card(title, WARNING, meaning, advice, rows)
    advice = f"A VAE drops what it does not need; only if reconstructions are poor, {LOOSEN}."
    return Card(title, NOTE, meaning, advice, rows)


def prior_card(prior: str, measured: bool) -> Card:
    """What codes are measured against: their own prior if that is a Gaussian, else N(0, 1), with a warning."""
    title, rows = "Prior", [{"prior": prior, "measured_against": prior if measured else "standard"}]
    if measured:
        meaning = f"Types, collapse and rate are those under the run's own prior ({prior}), in its units."
        return Card(title, NOTE, meaning, "", rows)
    meaning = f"The prior of this run is {prior}, and what is said here measures its codes against N(0, 1)."
    return Card(title, WARNING, meaning, "Read types, collapse and rate with that in mind.", rows)


def rate_card(found: Collapse, information: MutualInformation | None) -> Card:
    """How much the codes carry."""
    title = "Information"
    rows = [{"rate_nats": found.rate, "rate_bits": found.rate_bits, "active_units": len(found.active_units)}]
    if information is None:
        return Card(title, NOT_APPLICABLE, "Codes with a variance of 0 have no finite rate.", "", rows)
    # Chance can take the estimate for codes that carry nothing below 0.
    carried, bound = max(information.information, 0.0), "at least " if information.saturated else ""
    meaning = (
        f"The codes carry {bound}{carried:.2f} nats ({carried / BIT:.2f} bits) about an example, at a rate of "
        f"{information.rate:.2f} nats."
    )
    sharper = information.saturated and information.items < ITEMS
    advice = "Encode more items for a sharper estimate." if sharper else ""
    nothing = carried < NOTHING or len(collapsed(found.types)) == len(found.rates)
    return Card(title, BAD if nothing else GOOD, meaning, advice, [{**rows[0], **information.rows()[0]}])


def mean_and_sampled_card(found: MeanAndSampled | None) -> Card:
    """Whether the mean representation may be used in place of the sampled one."""
    title = "Mean against sampled"
    if found is None:
        return Card(title, NOT_APPLICABLE, "Comparing the two representations needs more examples than latents.")
    mean, sampled = (found.entry(name).total_correlation for name in (MEAN, SAMPLED))
    if mean is None or sampled is None:
        return Card(title, NOT_APPLICABLE, "One latent has no other to depend on.", "", found.rows())
    meaning = f"The latents share {_nats(mean)} (total correlation) in the means and {_nats(sampled)} in the samples."
    passive = found.types.count(PASSIVE)
    advice = "Leave the passive latents out before measuring dependence on the means." if passive else ""
    return Card(title, NOTE if passive else GOOD, meaning, advice, found.rows())


def mixed_card(types: VariableTypes) -> Card:
    """What the mixed latents do."""
    title = "Mixed latents"
    if not types.mixed:
        return Card(title, NOT_APPLICABLE, "No latent is mixed.")
    rows = [{"latent": latent, "kind": types.mixed_kinds[latent]} for latent in types.mixed]
    parts = []
    for kind, use in USES.items():
        latents = [latent for latent in types.mixed if types.mixed_kinds[latent] == kind]
        verb = "is" if len(latents) == 1 else "are"
        parts += [f"{_latents(latents)} ({kind}) {verb} used {use}"] if latents else []
    meaning = f"{parts[0]}{''.join(f'; {part.lower()}' for part in parts[1:])}."
    return Card(title, NOTE, meaning, "Train longer, or look at which examples use them.", rows)


def formed_card(found: DeltaKL | None, history: Sequence[dict[str, Any]] = ()) -> Card:
    """Whether the regime has formed, and since when (Rolinek et al., eq. 30 and table 1)."""
    title = "Polarised regime"
    if found is None:
        return Card(title, NOT_APPLICABLE, "It needs an active latent and a variance above 0.")
    formed = found.value < FORMED
    looks = [row for row in history if "delta_kl" in row]
    share = share_below([row["delta_kl"] for row in looks], [row["step"] for row in looks]) if looks else 0.0
    since = f", as it was for the last {share:.0%} of training" if formed and share else ""
    state = "has formed" if formed else "has not formed yet"
    meaning = f"The regime {state}: the rate is {found.value:.1%} off what the regime predicts{since}."
    rows = [{**row, **({"share_below": share} if looks else {})} for row in found.rows()]
    return Card(title, GOOD if formed else NOTE, meaning, "" if formed else "Train longer.", rows)


def downstream_card(found: Downstream) -> Card:
    """Whether the types are borne out by what can be predicted from them."""
    title, guess = "Prediction from codes", found.guess("majority")
    above = guess + ERRORS * math.sqrt(guess * (1 - guess) / found.test_items)
    passive = found.average(SAMPLED, PASSIVE)
    if passive is not None and passive > above:
        advice = "The passive latents predict more than a guess: lower alpha."
        return Card(title, NOTE, found.summary(), advice, found.rows())
    if (found.average(MEAN) or 0.0) <= above:
        advice = "The codes predict no more than a guess: what is predicted is not in them, or not linearly."
        return Card(title, NOTE, found.summary(), advice, found.rows())
    return Card(title, GOOD, found.summary(), "", found.rows())


def passive_since(history: Sequence[dict[str, Any]], latents: int) -> dict[int, int]:
    """For each latent that ends passive, the step from which every look found it so."""
    looks = [row for row in history if row.get("split") == "probe" and len(row.get("types", "")) == latents]
    since: dict[int, int] = {}
    for latent in range(latents):
        for look in reversed(looks):
            if look["types"][latent] != PASSIVE[0]:
                break
            since[latent] = look["step"]
    return since


def _when(steps: Sequence[int]) -> str:
    if not steps:
        return ""
    return f", since step {steps[0]}" if len(steps) == 1 else f", since steps {steps[0]} to {steps[-1]}"


def _nats(value: float) -> str:
    return f"{value:.3g} nats" if math.isfinite(value) else "infinitely much"


def _latents(numbers: Sequence[int]) -> str:
    """Latents by number; three or more in a row by the first and the last."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in ranges]
    return f"Latent{'' if len(numbers) == 1 else 's'} {', '.join(parts)}"
