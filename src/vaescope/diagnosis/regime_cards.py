"""Cards about the polarised regime, training and reconstructions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vaescope.diagnosis.cards import (
    BAD,
    GOOD,
    NOT_APPLICABLE,
    NOTE,
    WARNING,
    WEAKER_KL,
    Card,
    Status,
    latents_in_words,
)
from vaescope.diagnosis.claims import COLLAPSED, OVERFITTED, POOR, UNDERTRAINED, Claim
from vaescope.diagnosis.course import FALLING, LEVEL, RISING, Course
from vaescope.diagnosis.facts import GOOD_EXPLAINED, MIN_EXPLAINED, MIN_INFORMATION, MOST_LATENTS, Facts
from vaescope.diagnosis.headline import collapse_advice, course_in_words
from vaescope.diagnosis.reconstruction import NO_BETTER, explained_in_words
from vaescope.regime import MEAN, SAMPLED, MeanAndSampled, share_below
from vaescope.regime.information import MAX_ITEMS as INFORMATION_ITEMS
from vaescope.regime.variable_types import INTERMEDIATE, MIXTURE
from vaescope.runs.probes import passive_since

BIT = math.log(2)
CHECK_READING = "Check how the model is read: say it with `vaescope.wrap`."
MIXED_USES = {MIXTURE: "for some items only", INTERMEDIATE: "a little for all items"}
MEANS_VS_SAMPLES = "Means vs. samples"
PREDICTABLE_MEANS = (
    "The means of passive latents can often be predicted from other latents, but their samples, from which the decoder "
    "learns, are noise."
)


def types_card(facts: Facts) -> Card:
    """Which latents are in use, and which can be removed."""
    types, title = facts.types, "Variable types"
    if facts.deterministic:
        return Card(title, NOT_APPLICABLE, "Codes with zero variance have no types.", "", types.rows())
    determined = f"the data determine {max(types.well_determined, 0.0):.1f} latents (sum of 1 - variance; MacKay, 1992)"
    unit = "positions" if facts.spatial else "items"
    meaning = f"{types.summary()}, over {facts.items:,} {unit}; {determined}."
    claims = [Claim("passive", types.passive), Claim("types", number=facts.items)]
    moving = [latent for latent in types.passive if latent not in facts.collapsed]
    status: Status = NOTE
    advice = ""
    if len(facts.collapsed) == facts.latents:
        status = WARNING if facts.state == UNDERTRAINED else BAD
    elif facts.removable:
        rate, whole = math.fsum(facts.found.rates[latent] for latent in facts.removable), facts.found.rate
        nats = f"{rate:.2f} of {whole:.2f} nats" if math.isfinite(whole) else f"{rate:.2f} nats"
        they = "it holds" if len(facts.removable) == 1 else "they hold"
        status, advice = GOOD, f"{latents_in_words(facts.removable)} can be removed: {they} {nats} of the rate."
        claims.append(Claim("removable", facts.removable, severity=GOOD))
    elif facts.collapsed and facts.predicted_from_passive:
        advice = "Keep the passive latents: their samples predict the targets better than chance."
    elif facts.collapsed:
        advice = "Improve the reconstructions before you remove latents."
        if facts.state == UNDERTRAINED:
            advice = "Types still change while a model learns; remove latents when it is trained."
    elif not moving and not types.mixed and facts.state not in (UNDERTRAINED, POOR, OVERFITTED):
        advice = "All latents are in use; the model may need more of them."
        claims.append(Claim("more latents"))
    if moving:
        kept = f"{latents_in_words(moving)} may be in use: the variance is the prior's, but the mean varies."
        advice = f"{kept} {advice}".rstrip()
    return Card(title, status, meaning, advice, types.rows(), tuple(claims))


def collapse_card(facts: Facts) -> Card:
    """Which latents collapsed, since which probe, why if this is known, and what to change."""
    title, collapsed, latents, found = "Posterior collapse", facts.collapsed, facts.latents, facts.found
    since = passive_since(facts.history, latents)
    rows = [{**row, "passive_since": since.get(row["latent"])} for row in found.rows()]
    if facts.deterministic:
        meaning = (
            "Codes with zero variance cannot collapse to a prior; "
            f"{len(found.active_units)} of {latents} latents vary with the data."
        )
        return Card(title, NOT_APPLICABLE, meaning, "", rows)
    if not collapsed:
        return Card(title, GOOD, "No latent has collapsed to the prior.", "", rows)
    when = _since(sorted({since[latent] for latent in collapsed if latent in since}))
    claims = [Claim("collapsed", collapsed)]
    if len(collapsed) == latents:
        which = "The only latent equals" if latents == 1 else f"All {latents} latents equal"
        what = f"{which} the prior{when}"
    else:
        what = f"{latents_in_words(collapsed)} ({len(collapsed)} of {latents}) equal{_s(collapsed)} the prior{when}"
    if facts.state == UNDERTRAINED:
        return Card(title, NOTE, f"{what}; this may still change.", "Train longer.", rows, (*claims, _train_longer()))
    if facts.strengths and facts.course is not None and facts.course.trend == LEVEL:
        they = "it" if len(collapsed) == 1 else "they"
        what += f": the KL term ({facts.strengths}) outweighs what {they} would add to the reconstruction"
        claims.append(Claim("cause"))
    if len(collapsed) == latents:
        return Card(title, BAD, f"{what}.", collapse_advice(facts), rows, tuple(claims))
    weaker = collapse_advice(facts)
    if facts.is_poor:
        return Card(title, WARNING, f"{what}.", weaker, rows, tuple(claims))
    if facts.explained is not None and facts.explained >= GOOD_EXPLAINED:
        them = "it" if len(collapsed) == 1 else "them"
        advice = f"Reconstructions are good without {them}: the model needs fewer latents."
        return Card(title, NOTE, f"{what}.", advice, rows, (*claims, Claim("fewer latents")))
    conditional = f"If reconstructions are good, use fewer latents; if they are poor, {WEAKER_KL}."
    status: Status = WARNING if len(collapsed) > MOST_LATENTS * latents else NOTE
    return Card(title, status, f"{what}.", conditional, rows, tuple(claims))


def rate_card(facts: Facts) -> Card:
    """How much information the codes carry about the data; of spatial codes, that at one position."""
    found, information = facts.found, facts.information
    row = {"rate_nats": found.rate, "rate_bits": found.rate_bits, "active_units": len(found.active_units)}
    carried = facts.carried
    if information is None or carried is None:
        return Card("Information", NOT_APPLICABLE, "The rate of codes with a variance of zero is infinite.", "", [row])
    amount = f"{'at least ' if information.saturated else ''}{carried:.2f} nats ({carried / BIT:.2f} bits)"
    which = f"The code of one position carries {amount}" if facts.spatial else f"The codes carry {amount}"
    meaning = f"{which} of information about an item, at a rate of {information.rate:.2f} nats."
    improvable = information.saturated and information.items < INFORMATION_ITEMS
    advice = "Encode more items for a more precise estimate." if improvable else ""
    useless = carried < MIN_INFORMATION or len(facts.collapsed) == facts.latents
    status: Status = GOOD if not useless else WARNING if facts.state == UNDERTRAINED else BAD
    claims = (Claim("information", number=carried, severity=status),)
    return Card("Information", status, meaning, advice, [{**row, **information.rows()[0]}], claims)


def mean_and_sampled_card(found: MeanAndSampled | None, facts: Facts) -> Card:
    """Whether the means can replace the samples; None if there are too few items."""
    title = MEANS_VS_SAMPLES
    if found is None:
        return Card(title, NOT_APPLICABLE, "This comparison needs more items than latents.")
    mean, sampled = (found.entry(name).total_correlation for name in (MEAN, SAMPLED))
    if mean is None or sampled is None:
        return Card(title, NOT_APPLICABLE, "A single latent has no other to depend on.", "", found.rows())
    meaning = f"The total correlation of the latents is {_nats(mean)} in the means and {_nats(sampled)} in the samples."
    if not facts.types.passive:
        return Card(title, GOOD, meaning, "", found.rows())
    advice = f"{PREDICTABLE_MEANS} When you measure dependence between means, leave passive latents out."
    return Card(title, NOTE, meaning, advice, found.rows())


def mixed_card(facts: Facts) -> Card:
    """How the mixed latents are used."""
    title, types = "Mixed latents", facts.types
    if not types.mixed:
        return Card(title, NOT_APPLICABLE, "No latent is mixed.")
    parts, advice = [], ""
    for kind, use in MIXED_USES.items():
        latents = [latent for latent in types.mixed if types.mixed_kinds[latent] == kind]
        verb = "is" if len(latents) == 1 else "are"
        parts += [f"{latents_in_words(latents)} ({kind}) {verb} used {use}"] if latents else []
        if latents and kind == MIXTURE:
            advice = f"Inspect which items use {latents_in_words(latents).lower()}."
    rate, whole = math.fsum(facts.found.rates[latent] for latent in types.mixed), facts.found.rate
    they = "It holds" if len(types.mixed) == 1 else "They hold"
    nats = f" {they} {rate:.2f} of {whole:.2f} nats of the rate." if math.isfinite(whole) else ""
    meaning = f"{parts[0]}{''.join(f'; {part.lower()}' for part in parts[1:])}.{nats}"
    rows = [{"latent": latent, "kind": types.mixed_kinds[latent]} for latent in types.mixed]
    claims = (Claim("in use", facts.used),) if not types.active else ()
    if facts.state == UNDERTRAINED:
        return Card(title, NOTE, meaning, "Train longer: mixed latents often settle.", rows, (*claims, _train_longer()))
    return Card(title, NOTE, meaning, advice, rows, claims)


def formed_card(facts: Facts) -> Card:
    """Whether the polarised regime has formed, and since when (Rolinek et al., eq. 30 and table 1)."""
    title, found = "Polarised regime", facts.formed
    if found is None:
        return Card(title, NOT_APPLICABLE, "This check needs an active latent and variances above zero.")
    probes = [row for row in facts.history if "delta_kl" in row]
    share = share_below([row["delta_kl"] for row in probes], [row["step"] for row in probes]) if probes else 0.0
    rows = [{**row, **({"share_below": share} if probes else {})} for row in found.rows()]
    off = f"the rate is {found.value:.1%} off what the regime predicts"
    if facts.is_formed:
        since = f", as in the last {share:.0%} of training" if share else ""
        return Card(title, GOOD, f"The regime has formed: {off}{since}.", "", rows, (Claim("regime formed"),))
    meaning = f"The regime has not formed: {off}."
    if facts.state == UNDERTRAINED:
        return Card(title, WARNING, meaning, "Train longer.", rows, (_train_longer(),))
    advice = "Mixed latents keep it from forming; theory about the regime holds approximately at best."
    return Card(title, NOTE, meaning, advice, rows)


def course_card(facts: Facts) -> Card | None:
    """Whether the loss has levelled off; None without a history."""
    course = facts.course
    if course is None:
        return None
    numbers = {"change_nats": course.change, "lowest_nats": course.lowest, "lowest_step": course.lowest_step}
    rows = [{"trend": course.trend, "loss": course.loss, **numbers, "last_nats": course.last}]
    words = course_in_words(course)
    meaning = f"{words[:1].upper()}{words[1:]}."
    if course.trend == LEVEL:
        return Card("Training", GOOD, meaning, "", rows, (Claim("loss level"),))
    if course.trend == RISING:
        status, advice = _rise(course)
        return Card("Training", status, meaning, advice, rows)
    if facts.state == UNDERTRAINED:
        advice = "Train longer, or with a shorter schedule." if course.unsettled else "Train longer."
        return Card("Training", WARNING, meaning, advice, rows, (_train_longer(),))
    if course.trend == FALLING and facts.has_settled:
        settled = f"{meaning[:-1]}, but the regime has formed and the number of active latents no longer changes."
        return Card("Training", NOTE, settled, "More training would add detail to the reconstructions.", rows)
    if course.trend == FALLING:
        return Card("Training", NOTE, meaning, "More training alone is unlikely to wake collapsed latents.", rows)
    return Card("Training", NOTE, meaning, "Evaluate more often (evaluate_every) to see the course of the loss.", rows)


def _rise(course: Course) -> tuple[Status, str]:
    if course.overfitted:
        return WARNING, f"The training loss does not rise: the model overfits. Stop near step {course.lowest_step}."
    return BAD, "Use a lower learning rate, or train again with another seed."


def reconstruction_card(facts: Facts) -> Card:
    """How well items are reconstructed, compared with the mean item."""
    title, found = "Reconstruction", facts.reconstruction
    if found is None:
        return Card(title, NOT_APPLICABLE, facts.not_reconstructed)
    explained, scale = found.explained, " of log(1 + count)" if found.unit == "count" else f" per {found.unit}"
    meaning = (
        f"{explained_in_words(found, 'Reconstructions from mean codes')}: the mean squared error"
        f"{scale} is {found.error:.3g}, and {found.constant_error:.3g} for the mean item ({len(found.errors)} items)."
    )
    advice = ""
    if explained < NO_BETTER:
        status: Status = BAD
        advice = "" if facts.state == COLLAPSED else "Check the training." if facts.source == "run" else CHECK_READING
    elif explained < MIN_EXPLAINED:
        status, advice = WARNING, "Reconstructions keep little of what distinguishes the items."
    else:
        status = GOOD if explained >= GOOD_EXPLAINED else NOTE
    if status == BAD and facts.state == UNDERTRAINED:
        status, advice = WARNING, ""
    claims = (Claim("explained", number=explained, severity=status),)
    return Card(title, status, meaning, advice, found.rows(), claims)


def _train_longer() -> Claim:
    return Claim("train longer", severity=WARNING)


def _s(latents: Sequence[int]) -> str:
    return "s" if len(latents) == 1 else ""


def _since(steps: Sequence[int]) -> str:
    if not steps:
        return ""
    return f" (since step {steps[0]})" if len(steps) == 1 else f" (since steps {steps[0]} to {steps[-1]})"


def _nats(value: float) -> str:
    return f"{value:.3g} nats" if math.isfinite(value) else "infinite"
