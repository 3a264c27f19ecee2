"""What the latents mean and how well they are told apart: cards made from metrics."""

from __future__ import annotations

from typing import Any

from vaescope.diagnosis.cards import GOOD, NOTE, Card
from vaescope.metrics import Measurements, Score
from vaescope.metrics.meaning import Meaning, listed


def meaning_card(found: Meaning) -> Card:
    """Which latents carry which factors, and what is carried by none."""
    carriers = {name: found.carriers(name) for name in found.factors}
    lost = [name for name, places in carriers.items() if not places]
    shared = [name for name, places in carriers.items() if len(places) > 1]
    meaning = f"{found.summary()[:1].upper()}{found.summary()[1:]}."
    rows = found.rows()
    if lost:
        advice = (
            f"No latent by itself tells of {listed(lost)}, as with an angle of shapes that differ; whether all do "
            "together, the metric downstream_accuracy says."
        )
        return Card("Meaning", NOTE, meaning, advice, rows)
    if shared:
        return Card("Meaning", NOTE, meaning, "A factor that is spread over latents cannot be changed by one.", rows)
    return Card("Meaning", GOOD, meaning, "", rows)


def scores_card(found: Measurements) -> Card:
    """The scores of disentanglement and geometry, each with its scale, and why others could not be had."""
    rows = [row for score in found.scores for row in score.rows()]
    words = [f"{score.metric} {score.score:.3f}" for score in found.scores]
    meaning = f"{', '.join(words)}." if words else "None could be computed."
    left_out = " ".join(f"{name}: {reason}" for name, reason in found.left_out.items())
    return Card("Metrics", NOTE, meaning, f"Left out are {left_out}" if left_out else "", rows)


def importance_card(score: Score) -> Card:
    """How much each latent matters to the prediction of each factor."""
    assert score.matrix is not None
    rows = [
        {"latent": latent, **dict(zip(score.factors, map(float, row), strict=True))}
        for latent, row in zip(score.latents, score.matrix, strict=True)
    ]
    best = [f"{name} on latent {_most(rows, name)['latent']} ({_most(rows, name)[name]:.0%})" for name in score.factors]
    return Card("Importance", NOTE, f"Predictions rest most, for {listed(best)}.", "", rows)


def _most(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return max(rows, key=lambda row: row[name])
