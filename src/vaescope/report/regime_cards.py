"""What the polarised regime of a model means: cards made from diagnostics and, where there is one, a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vaescope.numerics.polarised import PASSIVE
from vaescope.regime import Collapse, DeltaKL, Downstream, MeanAndSampled, MutualInformation, VariableTypes
from vaescope.report.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, WARNING, Card

FORMED = 0.03  # the share of the rate that Rolinek et al. (section 5.2) let the simplified one differ by
MANY = 0.5
CURE = "Lower the weight of the rate, raise it slowly (warm-up), leave it some free bits, or ask for fewer latents."


def types_card(types: VariableTypes) -> Card:
    """Which latents are of use."""
    used = len(types.active) + len(types.mixed)
    if not types.passive:
        advice = "All latents are in use; there may be room for more of them."
        return Card("Variable types", NOTE, f"{types.summary()}.", advice, types.rows())
    advice = f"{_latents(types.passive)} could be dropped: {used or 1} latents carry the same."
    return Card("Variable types", GOOD if used else BAD, f"{types.summary()}.", advice, types.rows())


def collapse_card(found: Collapse, history: Sequence[dict[str, Any]] = (), settings: str = "") -> Card:
    """Which latents collapsed, since when, which term drove it, and what to change."""
    passive, latents = found.types.passive, len(found.rates)
    since = passive_since(history, latents)
    rows = [{**row, "passive_since": since.get(row["latent"])} for row in found.rows()]
    if not passive:
        return Card("Posterior collapse", GOOD, f"No latent has collapsed; {found.summary()}.", "", rows)
    when = sorted({since[latent] for latent in passive if latent in since})
    dated = f", since step {when[0]}" if len(when) == 1 else f", since steps {when[0]} to {when[-1]}" if when else ""
    driver = (
        f" The rate{f' ({settings})' if settings else ''} outweighs what these latents would add to the reconstruction."
    )
    if len(passive) == latents:
        what = f"All {latents} latents equal the prior{dated}: the code says nothing about the data.{driver}"
        return Card("Posterior collapse", BAD, what, CURE, rows)
    what = f"{_latents(passive)} of {latents} collapsed to the prior{dated}.{driver}"
    if found.share_collapsed > MANY:
        return Card("Posterior collapse", WARNING, what, CURE, rows)
    return Card("Posterior collapse", NOTE, what, "That is how a VAE drops what it does not need.", rows)


def rate_card(found: Collapse, information: MutualInformation | None) -> Card:
    """How much the codes carry."""
    rows = [{"rate_nats": found.rate, "rate_bits": found.rate_bits, "active_units": len(found.active_units)}]
    if information is None:
        return Card("Information", NOT_APPLICABLE, "Codes without a variance have no finite rate.", "", rows)
    rows = [{**rows[0], **information.rows()[0]}]
    advice = "Encode more items for a sharper estimate." if information.saturated else ""
    return Card("Information", GOOD if found.rate > 0 else BAD, f"{information.summary()}.", advice, rows)


def mean_and_sampled_card(found: MeanAndSampled | None) -> Card:
    """Whether the mean representation may be used in place of the sampled one."""
    title = "Mean against sampled"
    if found is None:
        return Card(title, NOT_APPLICABLE, "There are too few items to compare the two representations.")
    passive = found.types.count(PASSIVE)
    status = NOTE if passive else GOOD
    advice = "Leave the passive latents out before measuring dependence on the means." if passive else ""
    return Card(title, status, found.summary(), advice, found.rows())


def mixed_card(types: VariableTypes) -> Card:
    """What the mixed latents do."""
    title = "Mixed latents"
    if not types.mixed:
        return Card(title, NOT_APPLICABLE, "No latent is mixed.")
    kinds = {latent: types.mixed_kinds[latent] for latent in types.mixed}
    words = ", ".join(f"{latent} ({kind})" for latent, kind in kinds.items())
    rows = [{"latent": latent, "kind": kind} for latent, kind in kinds.items()]
    meaning = f"Latents {words} are neither fully used nor dropped: a mixture is active for some examples only."
    return Card(title, NOTE, meaning, "Train longer, or look at which examples use them.", rows)


def formed_card(found: DeltaKL | None) -> Card:
    """Whether the regime has formed (Rolinek et al., eq. 30)."""
    title = "Polarised regime"
    if found is None:
        return Card(title, NOT_APPLICABLE, "No latent is active enough to tell.")
    formed = found.value < FORMED
    meaning = f"{found.summary()}; the regime has {'formed' if formed else 'not formed yet'}."
    return Card(title, GOOD if formed else NOTE, meaning, "" if formed else "Train longer.", found.rows())


def downstream_card(found: Downstream) -> Card:
    """Whether the types are borne out by what can be predicted from them."""
    return Card("Prediction from codes", GOOD, f"{found.summary()}", "", found.rows())


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


def _latents(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"Latent {listed}" if len(numbers) == 1 else f"Latents {listed}"
