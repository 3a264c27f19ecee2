"""Cards about factors and labels: what latents encode, predictions from codes, and metrics."""

from __future__ import annotations

from collections.abc import Sequence

from vaescope.diagnosis.cards import GOOD, NOT_APPLICABLE, NOTE, Card, latents_in_words
from vaescope.diagnosis.claims import Claim
from vaescope.diagnosis.facts import Facts
from vaescope.diagnosis.regime_cards import MEANS_VS_SAMPLES
from vaescope.metrics import Meaning, Measurements, Score
from vaescope.metrics.mutual_information import listed
from vaescope.regime import MEAN


def downstream_card(facts: Facts) -> Card:
    """Whether factors or labels can be predicted from the active latents, and not from the passive ones."""
    found = facts.downstream
    assert found is not None
    advice = ""
    if facts.predicted_from_passive:
        advice = "Samples of the passive latents predict better than chance: use a lower alpha."
    elif (found.average(MEAN) or 0.0) <= facts.above_chance:
        advice = "The codes predict no better than chance: the targets are not encoded, or not linearly."
    return Card("Prediction from codes", NOTE if advice else GOOD, found.summary(), advice, found.rows())


def meaning_card(found: Meaning) -> Card:
    """Which latents encode which factors; passive latents are left out."""
    left_out = tuple(found.latents[place] for place in found.left_out)
    rows = found.rows()
    if len(left_out) == len(found.latents):
        return Card("Meaning", NOT_APPLICABLE, "No latent is in use, so none encodes a factor.", "", rows)
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
    encoding = {found.latents[place] for name in found.factors for place in found.carriers(name)}
    claims = (Claim("encodes", tuple(sorted(encoding))),)
    meaning = f"{summary[:1].upper()}{summary[1:]}.{left_out_in_words(left_out)}"
    return Card("Meaning", NOTE if advice else GOOD, meaning, advice, rows, claims)


def left_out_in_words(latents: Sequence[int]) -> str:
    """Why latents are left out, as a further sentence; empty without any."""
    if not latents:
        return ""
    verb = "is" if len(latents) == 1 else "are"
    return f" {latents_in_words(latents)} {verb} passive and left out: see the card {MEANS_VS_SAMPLES!r}."


def scores_card(found: Measurements, exclude: str | None) -> Card:
    """The scores, with those of noise and of the factors themselves for comparison."""
    scores = ", ".join(f"{score.metric} {score.score:.3f}" for score in found.scores)
    failed = " ".join(f"{name}: {reason}" for name, reason in found.left_out.items())
    without = f" (without {exclude} latents)" if exclude is not None and scores else ""
    return Card(
        "Metrics",
        NOTE,
        f"{scores}{without}." if scores else "No metric could be computed.",
        f"Not computed: {failed}" if failed else "",
        [row for score in found.scores for row in score.rows()],
    )


def importance_card(score: Score, found: Meaning) -> Card:
    """How much each of the scored latents contributes to the prediction of each factor (DCI).

    DCI predicts from means. Where the best latent has too small a rate to encode the factor, the card says so.
    """
    assert score.matrix is not None
    best = {
        name: (score.latents[int(column.argmax())], float(column.max()))
        for name, column in zip(score.factors, score.matrix.T, strict=True)
    }
    latents = len(found.latents)
    unable = {name for name in best if not found.may_encode(found.latents.index(best[name][0]), name)}
    rows = [
        {"latent": latent, **dict(zip(score.factors, row.tolist(), strict=True))}
        for latent, row in zip(score.latents, score.matrix, strict=True)
    ]
    shares = {name: f"{name}: {latent} ({share:.0%})" for name, (latent, share) in best.items()}
    words = ", ".join(text for name, text in shares.items() if name not in unable)
    left_out = tuple(latent for latent in range(latents) if latent not in score.latents)
    claims = (Claim("encodes", tuple(sorted({best[name][0] for name in best if name not in unable}))),)
    among = f" among the {len(score.latents)} in use" if left_out else ""
    meaning = f"Most predictive latents{among}: {words}." if words else ""
    if unable:
        weak = ", ".join(shares[name] for name in shares if name in unable)
        meaning += (
            f" From means only: {weak}; the rate of such a latent is too small for its samples to encode the factor, "
            f"see the card {MEANS_VS_SAMPLES!r}."
        )
    return Card("Importance", NOTE, meaning.strip(), "", rows, claims)
