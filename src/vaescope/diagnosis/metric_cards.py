"""Cards about metrics: what the latents encode, and the scores of disentanglement."""

from __future__ import annotations

from vaescope.diagnosis.cards import GOOD, NOTE, Card
from vaescope.metrics import Measurements, Score
from vaescope.metrics.meaning import Meaning, listed


def meaning_card(found: Meaning) -> Card:
    """Which latents encode which factors."""
    counts = {name: len(found.carriers(name)) for name in found.factors}
    lost = [name for name, count in counts.items() if count == 0]
    summary, rows = f"{found.summary()[:1].upper()}{found.summary()[1:]}.", found.rows()
    if lost:
        advice = (
            f"No single latent encodes {listed(lost)}. Run `--metrics downstream_accuracy` to see whether they do "
            "jointly."
        )
        return Card("Meaning", NOTE, summary, advice, rows)
    if any(count > 1 for count in counts.values()):
        advice = "A factor that is spread over several latents cannot be changed through one of them."
        return Card("Meaning", NOTE, summary, advice, rows)
    return Card("Meaning", GOOD, summary, "", rows)


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
