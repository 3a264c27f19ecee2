"""Cards: the findings of a diagnosis, each with a status, an explanation, advice and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, get_args

from vaescope.checks import without_infinities
from vaescope.diagnosis.subject import History
from vaescope.metrics import Measurements, Score
from vaescope.metrics.mutual_information import Meaning, listed
from vaescope.notebook import render_view
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.regime import (
    MEAN,
    SAMPLED,
    Collapse,
    DeltaKL,
    Downstream,
    MeanAndSampled,
    MutualInformation,
    VariableTypes,
    share_below,
)
from vaescope.regime.information import MAX_ITEMS as INFORMATION_ITEMS

Status = Literal["bad", "warning", "note", "good", "not applicable"]
BAD: Final = "bad"
WARNING: Final = "warning"
NOTE: Final = "note"
GOOD: Final = "good"
NOT_APPLICABLE: Final = "not applicable"
SEVERITY: tuple[Status, ...] = get_args(Status)  # the worst first

MAX_FORMED_DELTA = 0.03  # relative error of the rate below which the regime has formed (Rolinek et al., section 5.2)
MOST_LATENTS = 0.5  # share of latents above which collapse is a warning
MIN_INFORMATION = 0.01  # nats; below it the codes carry nothing
CHANCE_ERRORS = 3  # standard errors by which an accuracy must exceed chance
BIT = math.log(2)
MIXED_USES = {"mixture": "for some items only", "intermediate": "a little for all items"}
WEAKER_KL = "lower the weight of the KL term, increase it gradually (warm-up) or allow some free bits"


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


def verdict(types: VariableTypes) -> str:
    """The types of the latents and what follows from them, in one sentence."""
    latents, collapsed = len(types.types), len(collapsed_latents(types))
    if is_deterministic(types):
        return "The codes have zero variance, like those of a plain autoencoder, so there is no posterior to collapse."
    if collapsed == latents:
        consequence = "the posterior has collapsed and the codes carry no information about the data"
    elif collapsed > MOST_LATENTS * latents:
        consequence = "most latents have collapsed"
    elif collapsed:
        all_passive = collapsed == len(types.passive)
        consequence = "the passive latents can be removed" if all_passive else "some latents have collapsed"
    else:
        consequence = "no latent has collapsed"
    return f"{types.summary()}; {consequence}."


def is_deterministic(types: VariableTypes) -> bool:
    """Whether every variance is zero."""
    return not bool(types.statistics.variance.mean.any())


def collapsed_latents(types: VariableTypes) -> tuple[int, ...]:
    """The passive latents whose means do not vary either; the types depend on the variances alone."""
    return tuple(latent for latent in types.passive if types.by_rule["rolinek"][latent] == PASSIVE)


def types_card(types: VariableTypes) -> Card:
    """Which latents are in use."""
    removable = collapsed_latents(types)
    moving = [latent for latent in types.passive if latent not in removable]
    kept = len(types.types) - len(removable)
    status: Status = NOTE
    meaning, advice = f"{types.summary()}.", ""
    if is_deterministic(types):
        meaning, status = "Codes with zero variance have no types.", NOT_APPLICABLE
    elif moving:
        advice = f"{_latents(moving)} may be in use: the variance is the prior's, but the mean varies with the data."
    elif not removable:
        advice = "" if types.mixed else "All latents are in use; the model may need more of them."
    elif not kept:
        status = BAD
    else:
        others = "the other latent carries" if kept == 1 else f"the other {kept} carry"
        status, advice = GOOD, f"{_latents(removable)} can be removed: {others} all the information."
    return Card("Variable types", status, meaning, advice, types.rows())


def collapse_card(found: Collapse, history: History = (), strengths: str = "") -> Card:
    """Which latents collapsed, since which step, why, and what to change.

    `strengths` names the weights of the objective, such as 'beta 4'.
    """
    title, collapsed, latents = "Posterior collapse", collapsed_latents(found.types), len(found.rates)
    since = passive_since(history, latents)
    rows = [{**row, "passive_since": since.get(row["latent"])} for row in found.rows()]
    if is_deterministic(found.types):
        meaning = (
            "Codes with zero variance cannot collapse to a prior; "
            f"{len(found.active_units)} of {latents} latents vary with the data."
        )
        return Card(title, NOT_APPLICABLE, meaning, "", rows)
    if not collapsed:
        return Card(title, GOOD, "No latent has collapsed to the prior.", "", rows)
    when = _since(sorted({since[latent] for latent in collapsed if latent in since}))
    term = f"the KL term ({strengths})" if strengths else "the KL term"
    cause = f"{term} outweighs what {'it' if len(collapsed) == 1 else 'they'} would add to the reconstruction."
    if len(collapsed) == latents:
        which = "The only latent equals" if latents == 1 else f"All {latents} latents equal"
        meaning = f"{which} the prior{when}, so the codes carry no information about the data: {cause}"
        return Card(title, BAD, meaning, f"{WEAKER_KL.capitalize()}.", rows)
    meaning = f"{_latents(collapsed)} ({len(collapsed)} of {latents}) collapsed to the prior{when}: {cause}"
    if len(collapsed) > MOST_LATENTS * latents:
        advice = f"If reconstructions are good, use fewer latents; if they are poor, {WEAKER_KL}."
        return Card(title, WARNING, meaning, advice, rows)
    advice = f"A VAE switches off latents that it does not need. Only if reconstructions are poor, {WEAKER_KL}."
    return Card(title, NOTE, meaning, advice, rows)


def prior_card(prior: str, measured: bool) -> Card:
    """Which prior the codes are compared with: their own if it is Gaussian, else N(0, 1), with a warning."""
    rows = [{"prior": prior, "measured_against": prior if measured else "standard"}]
    if measured:
        meaning = f"Types, collapse and rate are relative to this run's own prior ({prior})."
        return Card("Prior", NOTE, meaning, "", rows)
    meaning = f"The prior of this run is {prior}, but its codes are compared with N(0, 1) here."
    return Card("Prior", WARNING, meaning, "Interpret types, collapse and rate with care.", rows)


def rate_card(found: Collapse, information: MutualInformation | None) -> Card:
    """How much information the codes carry about the data."""
    row = {"rate_nats": found.rate, "rate_bits": found.rate_bits, "active_units": len(found.active_units)}
    if information is None:
        return Card("Information", NOT_APPLICABLE, "The rate of codes with a variance of zero is infinite.", "", [row])
    # The estimate for codes that carry nothing can fall below 0 by chance.
    carried, bound = max(information.information, 0.0), "at least " if information.saturated else ""
    meaning = (
        f"The codes carry {bound}{carried:.2f} nats ({carried / BIT:.2f} bits) of information about an item, at a rate "
        f"of {information.rate:.2f} nats."
    )
    improvable = information.saturated and information.items < INFORMATION_ITEMS
    advice = "Encode more items for a more precise estimate." if improvable else ""
    useless = carried < MIN_INFORMATION or len(collapsed_latents(found.types)) == len(found.rates)
    return Card("Information", BAD if useless else GOOD, meaning, advice, [{**row, **information.rows()[0]}])


def mean_and_sampled_card(found: MeanAndSampled | None) -> Card:
    """Whether the means may be used in place of the samples; None means that there are too few items."""
    title = "Means vs. samples"
    if found is None:
        return Card(title, NOT_APPLICABLE, "This comparison needs more items than latents.")
    mean, sampled = (found.entry(name).total_correlation for name in (MEAN, SAMPLED))
    if mean is None or sampled is None:
        return Card(title, NOT_APPLICABLE, "A single latent has no other to depend on.", "", found.rows())
    meaning = f"The total correlation of the latents is {_nats(mean)} in the means and {_nats(sampled)} in the samples."
    has_passive = PASSIVE in found.types
    advice = "Exclude the passive latents before measuring dependence on the means." if has_passive else ""
    return Card(title, NOTE if has_passive else GOOD, meaning, advice, found.rows())


def mixed_card(types: VariableTypes) -> Card:
    """How the mixed latents are used."""
    title = "Mixed latents"
    if not types.mixed:
        return Card(title, NOT_APPLICABLE, "No latent is mixed.")
    parts = []
    for kind, use in MIXED_USES.items():
        latents = [latent for latent in types.mixed if types.mixed_kinds[latent] == kind]
        verb = "is" if len(latents) == 1 else "are"
        parts += [f"{_latents(latents)} ({kind}) {verb} used {use}"] if latents else []
    meaning = f"{parts[0]}{''.join(f'; {part.lower()}' for part in parts[1:])}."
    rows = [{"latent": latent, "kind": types.mixed_kinds[latent]} for latent in types.mixed]
    return Card(title, NOTE, meaning, "Train longer, or inspect which items use them.", rows)


def formed_card(found: DeltaKL | None, history: History = ()) -> Card:
    """Whether the polarised regime has formed, and since when (Rolinek et al., eq. 30 and table 1)."""
    title = "Polarised regime"
    if found is None:
        return Card(title, NOT_APPLICABLE, "This check needs an active latent and variances above zero.")
    formed = found.value < MAX_FORMED_DELTA
    probes = [row for row in history if "delta_kl" in row]
    share = share_below([row["delta_kl"] for row in probes], [row["step"] for row in probes]) if probes else 0.0
    since = f", as in the last {share:.0%} of training" if formed and share else ""
    state = "has formed" if formed else "has not formed yet"
    meaning = f"The regime {state}: the rate is {found.value:.1%} off what the regime predicts{since}."
    rows = [{**row, **({"share_below": share} if probes else {})} for row in found.rows()]
    return Card(title, GOOD if formed else NOTE, meaning, "" if formed else "Train longer.", rows)


def downstream_card(found: Downstream) -> Card:
    """Whether factors or labels can be predicted from the active latents, and not from the passive ones."""
    chance = found.guess("majority")
    above_chance = chance + CHANCE_ERRORS * math.sqrt(chance * (1 - chance) / found.test_items)
    passive = found.average(SAMPLED, PASSIVE)
    advice = ""
    if passive is not None and passive > above_chance:
        advice = "The passive latents predict better than chance: use a lower alpha."
    elif (found.average(MEAN) or 0.0) <= above_chance:
        advice = "The codes predict no better than chance: the targets are not encoded, or not linearly."
    return Card("Prediction from codes", NOTE if advice else GOOD, found.summary(), advice, found.rows())


def meaning_card(found: Meaning) -> Card:
    """Which latents encode which factors."""
    counts = {name: len(found.carriers(name)) for name in found.factors}
    lost = [name for name, count in counts.items() if count == 0]
    advice = ""
    if lost:
        advice = (
            f"No single latent encodes {listed(lost)}. Run `--metrics downstream_accuracy` to see whether they do "
            "jointly."
        )
    elif any(count > 1 for count in counts.values()):
        advice = "A factor that is spread over several latents cannot be changed through one of them."
    summary = found.summary()
    return Card("Meaning", NOTE if advice else GOOD, f"{summary[:1].upper()}{summary[1:]}.", advice, found.rows())


def scores_card(found: Measurements) -> Card:
    """The scores, with those of noise and of the factors themselves for comparison."""
    scores = ", ".join(f"{score.metric} {score.score:.3f}" for score in found.scores)
    failed = " ".join(f"{name}: {reason}" for name, reason in found.left_out.items())
    return Card(
        "Metrics",
        NOTE,
        f"{scores}." if scores else "No metric could be computed.",
        f"Not computed: {failed}" if failed else "",
        [row for score in found.scores for row in score.rows()],
    )


def importance_card(score: Score) -> Card:
    """How much each latent contributes to the prediction of each factor (DCI)."""
    assert score.matrix is not None
    best = [
        f"{name}: {score.latents[column.argmax()]} ({column.max():.0%})"
        for name, column in zip(score.factors, score.matrix.T, strict=True)
    ]
    rows = [
        {"latent": latent, **dict(zip(score.factors, row.tolist(), strict=True))}
        for latent, row in zip(score.latents, score.matrix, strict=True)
    ]
    return Card("Importance", NOTE, f"Most predictive latents: {', '.join(best)}.", "", rows)


def passive_since(history: History, latents: int) -> dict[int, int]:
    """Latent -> the step since which every probe found it passive, for latents that are passive at the end."""
    probes = [row for row in history if row.get("split") == "probe" and len(row.get("types", "")) == latents]
    since: dict[int, int] = {}
    for latent in range(latents):
        for probe in reversed(probes):
            if probe["types"][latent] != PASSIVE[0]:
                break
            since[latent] = probe["step"]
    return since


def _since(steps: Sequence[int]) -> str:
    if not steps:
        return ""
    return f", since step {steps[0]}" if len(steps) == 1 else f", since steps {steps[0]} to {steps[-1]}"


def _nats(value: float) -> str:
    return f"{value:.3g} nats" if math.isfinite(value) else "infinite"


def _latents(numbers: Sequence[int]) -> str:
    """'Latents 0, 2 to 4': three or more consecutive numbers as a range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in ranges]
    return f"Latent{'' if len(numbers) == 1 else 's'} {', '.join(parts)}"
