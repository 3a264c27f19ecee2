"""The headline of a diagnosis: what matters most about the model, in one sentence, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from vaescope.checks import without_infinities
from vaescope.diagnosis.cards import WEAKER_KL, Card
from vaescope.diagnosis.claims import (
    BAD,
    CODES_ONLY,
    COLLAPSED,
    DIVERGED,
    FINE,
    OVERFITTED,
    POOR,
    UNDERTRAINED,
    WARNING,
    Claim,
    State,
)
from vaescope.diagnosis.course import FALLING, LEVEL, UNKNOWN, Course
from vaescope.diagnosis.facts import GOOD_EXPLAINED, MOST_LATENTS, Facts
from vaescope.diagnosis.reconstruction import explained_in_words

MAX_SHARE = 0.99  # of the rate; more is not written as 100%
NO_VARIANCE = "The codes have zero variance, like those of a plain autoencoder, so there is no posterior to collapse."


@dataclass(frozen=True)
class Headline:
    """What matters most.

    Attributes:
        state: 'diverged', 'undertrained', 'collapsed', 'overfitted', 'poor' (reconstructions), 'codes only' (nothing
            is known about training and reconstructions) or 'fine'.
        sentence: What was found.
        advice: What to do about it; empty if nothing needs to be done.
        claims: What the sentence says, as data.
    """

    state: State
    sentence: str
    advice: str = ""
    claims: tuple[Claim, ...] = ()

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".rstrip()

    def plain(self) -> dict[str, object]:
        """The headline as a JSON-compatible dictionary."""
        return {name: without_infinities(value) for name, value in asdict(self).items()}


def headline(facts: Facts) -> Headline:
    """The headline of what is known about a subject."""
    state = facts.state
    if state == DIVERGED:
        return _diverged(facts)
    if state == UNDERTRAINED:
        return _undertrained(facts)
    if state == COLLAPSED:
        return _collapsed(facts)
    if state == POOR:
        return _poor(facts)
    if state == OVERFITTED:
        return _overfitted(facts)
    sentence = verdict(facts)
    if state == CODES_ONLY:
        advice = "Codes alone do not show whether the model is trained long enough and reconstructs well."
        return Headline(state, sentence, advice, _types_claims(facts))
    explained = [] if facts.explained is None else [Claim("explained", number=facts.explained)]
    if facts.reconstruction is not None:
        words = explained_in_words(facts.reconstruction)
        sentence = f"{sentence} {words[:1].upper()}{words[1:]}{_share_of_active(facts)}."
    return Headline(state, sentence, "", (*_types_claims(facts), *explained))


def verdict(facts: Facts) -> str:
    """The types of the latents and what follows from them, in one sentence."""
    if facts.deterministic:
        return NO_VARIANCE
    collapsed, types = len(facts.collapsed), facts.types
    if collapsed > MOST_LATENTS * facts.latents:
        consequence = "most latents have collapsed"
    elif collapsed:
        consequence = "some latents have collapsed"
    else:
        consequence = "no latent has collapsed"
    if facts.removable:
        consequence = f"{_removable_in_words(facts)} can be removed"
    return f"{types.summary()}; {consequence}."


def _share_of_active(facts: Facts) -> str:
    """How much of the rate the active latents hold, where others are in use too: many mixed latents may hold little."""
    active, rate = facts.types.active, facts.found.rate
    if not active or not facts.types.mixed or not math.isfinite(rate):
        return ""
    share = math.fsum(facts.found.rates[latent] for latent in active) / rate
    amount = "over 99%" if share > MAX_SHARE else f"{share:.0%}"
    return f", and the active latent{' holds' if len(active) == 1 else 's hold'} {amount} of the rate"


def _removable_in_words(facts: Facts) -> str:
    one = len(facts.removable) == 1
    if facts.removable == facts.types.passive:
        return "the passive latent" if one else "the passive latents"
    return "the one that has collapsed" if one else "those that have collapsed"


def _types_claims(facts: Facts) -> tuple[Claim, ...]:
    """The claims of the verdict."""
    if facts.deterministic:
        return ()
    claims = [Claim("passive", facts.types.passive), Claim("types", number=facts.items)]
    if facts.removable:
        claims.append(Claim("removable", facts.removable))
    return tuple(claims)


def _diverged(facts: Facts) -> Headline:
    course = facts.course
    assert course is not None
    sentence = f"Training diverged: {rise_in_words(course)}."
    return Headline(DIVERGED, sentence, "Use a lower learning rate, or train again with another seed.")


def rise_in_words(course: Course) -> str:
    """From which lowest value a loss rose to which last one."""
    if not math.isfinite(course.last):
        return "the loss is not finite at the end"
    return (
        f"the {course.loss} rose from {course.lowest:.4g} nats at step {course.lowest_step} to {course.last:.4g} nats "
        "at the end"
    )


def _undertrained(facts: Facts) -> Headline:
    """The symptoms of a short training."""
    symptoms = [course_in_words(facts.course)] if facts.course is not None and facts.course.trend != LEVEL else []
    if facts.formed is not None and not facts.is_formed:
        symptoms.append(f"the polarised regime has not formed (rate {facts.formed.value:.1%} off)")
    claims, already = [Claim("train longer", severity=WARNING)], ""
    if facts.reconstruction is not None:
        claims.append(Claim("explained", number=facts.explained))
        words = explained_in_words(facts.reconstruction)
        if facts.reconstruction.explained < GOOD_EXPLAINED:
            symptoms.append(words)
        else:
            already = f"; {words} so far"
    *first, last = symptoms
    listed = f"{', '.join(first)}, and {last}" if first else last
    sentence = f"Not trained long enough: {listed}{already}."
    if facts.deterministic:
        return Headline(UNDERTRAINED, sentence, "Train longer.", tuple(claims))
    claims += [Claim("passive", facts.types.passive), Claim("types", number=facts.items)]
    advice = f"Train longer before you judge the types: so far, {facts.types.summary()}."
    return Headline(UNDERTRAINED, sentence, advice, tuple(claims))


def course_in_words(course: Course) -> str:
    """How the loss ended, as a clause."""
    if course.trend == UNKNOWN:
        return course.reason
    if course.trend == FALLING:
        return f"the {course.loss} still falls, by {-course.change:.3g} nats over the last third of training"
    if course.trend == LEVEL:
        return f"the {course.loss} has levelled off, at {course.last:.4g} nats"
    return rise_in_words(course)


def _collapsed(facts: Facts) -> Headline:
    """Total collapse, codes that are equal for all items, or collapse of most latents with poor reconstructions."""
    collapsed, latents = len(facts.collapsed), facts.latents
    carried = "" if facts.carried is None else f" ({facts.carried:.2f} nats)"
    claims = [] if facts.carried is None else [Claim("information", number=facts.carried, severity=BAD)]
    if collapsed == latents:
        which = "the only latent equals" if latents == 1 else f"all {latents} latents equal"
        sentence = f"The posterior has collapsed: {which} the prior, so the codes carry almost no information{carried}."
    elif collapsed > MOST_LATENTS * latents and facts.reconstruction is not None and facts.is_poor:
        sentence = (
            f"Most of the posterior has collapsed: {collapsed} of {latents} latents equal the prior, and "
            f"{explained_in_words(facts.reconstruction)}."
        )
        claims = [Claim("explained", number=facts.explained, severity=BAD)]
    else:
        sentence = f"The codes carry no information about the items{carried}: they hardly differ between items."
        return Headline(COLLAPSED, sentence, "Check the encoder and what it is given.", tuple(claims))
    claims.append(Claim("collapsed", facts.collapsed, severity=BAD))
    return Headline(COLLAPSED, sentence, collapse_advice(facts), tuple(claims))


def collapse_advice(facts: Facts) -> str:
    """What to change if too many latents have collapsed; where the objective is not known, this is conditional."""
    if facts.strengths:
        return f"{WEAKER_KL[:1].upper()}{WEAKER_KL[1:]}."
    return f"If the objective has a KL term, {WEAKER_KL}."


def _poor(facts: Facts) -> Headline:
    """Poor reconstructions of a model whose loss does not fall."""
    assert facts.reconstruction is not None
    level = facts.course is not None and facts.course.trend == LEVEL
    although = ", although the loss has levelled off" if level else ""
    codes = NO_VARIANCE if facts.deterministic else f"{facts.types.summary()}."
    sentence = f"Poor reconstructions: {explained_in_words(facts.reconstruction)}{although}. {codes}"
    advice = "Use a larger net or more latents"
    advice += f", or {WEAKER_KL}." if facts.strengths else ", or check how the model is read."
    claims = [Claim("explained", number=facts.explained, severity=WARNING), *_types_claims(facts)]
    return Headline(POOR, sentence, advice, tuple(claims))


def _overfitted(facts: Facts) -> Headline:
    course = facts.course
    assert course is not None
    sentence = f"The model overfits: {rise_in_words(course)}, while the training loss does not rise."
    advice = f"Stop near step {course.lowest_step}, or use more data or a smaller net."
    return Headline(OVERFITTED, f"{sentence} {verdict(facts)}", advice, _types_claims(facts))


def groups_headline(groups: Mapping[str, Headline], card: Card) -> Headline:
    """The headline of several groups of latents: the state that they share; one group that collapsed is no collapse."""
    states = {found.state for found in groups.values()}
    state = next(iter(states)) if len(states) == 1 else CODES_ONLY if CODES_ONLY in states else FINE
    return Headline(state, card.meaning, card.advice)
