"""Live decoding in the page: the exported decoder, codes to start from, and a slider for each latent."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data import Dataset
from vaescope.data.conditions import LABEL, conditions_of
from vaescope.diagnosis.subject import Subject
from vaescope.markup import Markup, json_script
from vaescope.models import LatentModule
from vaescope.numerics import counter
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.reporting.assets import render
from vaescope.reporting.decoder import export_decoder
from vaescope.reporting.latent_table import LatentRow, in_display_order, latent_name
from vaescope.reporting.pictures import drawn_note
from vaescope.reporting.reconstructions import Reconstructions
from vaescope.reporting.style import TYPE_STYLES, type_label

PRIOR_DRAWS = 64
MIN_RANGE = 3.0  # standard deviations that a slider covers on both sides of 0, at least
SLIDER_STEPS = 200


def live_section(subject: Subject, rows: Sequence[LatentRow], decoded: Reconstructions, seed: int = 0) -> Markup:
    """The pictures, buttons and sliders, which `live.js` connects to the exported decoder.

    Args:
        subject: The model and its items.
        rows: What is known about each latent.
        decoded: The items to start from.
        seed: The random seed of the codes drawn from the prior.

    Raises:
        NotExported: The page cannot run the decoder.
    """
    model, items = subject.model, subject.items
    decoder = export_decoder(model)
    assert isinstance(model, LatentModule)
    assert items is not None
    places = decoded.places
    conditions = conditions_of(model, items) if decoder.condition else None
    draws = _prior_draws(model, items, conditions is not None, seed)
    data = {
        "decoder": decoder.plain(),
        "examples": _start_codes(subject.codes.mean[places], None if conditions is None else conditions[places]),
        "draws": draws,
        "items": None if items.is_image else items.batch(places).flatten(1).tolist(),
    }
    ranges = slider_ranges(subject.codes.sample)
    sliders = []
    for row in in_display_order(rows):
        low, high = ranges[row.latent]
        ends = {"low": f"{low:.4f}", "high": f"{high:.4f}", "step": f"{(high - low) / SLIDER_STEPS:.6f}"}
        sliders.append({**slider_words(row), **ends})
    return render(
        "decoding.html",
        id="live",
        is_vector=not items.is_image,
        pairs=decoded.pairs(),
        starts=len(places),
        pairs_words=decoded.words,
        classes=decoder.condition if model.condition == LABEL else 0,
        has_prior=bool(draws),
        used=[slider for slider in sliders if slider["type"] != PASSIVE],
        passive=[slider for slider in sliders if slider["type"] == PASSIVE],
        words=f"Drag a slider: the decoder runs in this page. {slider_note(tuple(items.shape))}".rstrip(),
        data=json_script("live-data", data),
    )


def slider_words(row: LatentRow, noun: str = "latent") -> dict[str, object]:
    """What a slider says about its latent."""
    return {
        "latent": row.latent,
        "name": latent_name(row.latent, row.meaning, noun),
        "type": row.type,
        "label": type_label(row.type),
        "sign": TYPE_STYLES[row.type].sign,
    }


def slider_ranges(samples: Float[Tensor, "items latents"]) -> tuple[tuple[float, float], ...]:
    """The range of the samples, and at least 3 standard deviations (of 1 at most) on both sides of 0."""
    values = samples.double()
    margin = values.std(0, correction=0).clamp(max=1) * MIN_RANGE
    lows, highs = torch.minimum(values.amin(0), -margin), torch.maximum(values.amax(0), margin)
    return tuple(zip(lows.tolist(), highs.tolist(), strict=True))


def slider_note(shape: Sequence[int]) -> str:
    """What the decoded picture shows of an item, as a sentence; empty if it shows an item as it is."""
    if len(shape) == 2 and shape[0] > 1:
        return f"The {shape[0]} channels of a signal are drawn one after another."
    return drawn_note(shape)


def _start_codes(codes: Tensor, conditions: Tensor | None) -> list[dict[str, list[float]]]:
    """Codes to start from, each with its condition if the decoder is conditional."""
    given = [[]] * len(codes) if conditions is None else conditions.tolist()
    return [
        {"code": [round(value, 6) for value in code], "condition": condition}
        for code, condition in zip(codes.tolist(), given, strict=True)
    ]


@torch.no_grad()
def _prior_draws(model: LatentModule, items: Dataset, is_conditional: bool, seed: int) -> list[dict[str, list[float]]]:
    """Codes drawn from the prior; none for a model without a prior."""
    if model.prior is None:
        return []
    mask = model.latent_mask
    noise = counter.normal(torch.tensor(seed), "prior", torch.tensor(0), torch.arange(PRIOR_DRAWS), len(mask))
    conditions = conditions_of(model, items)
    rows = None if conditions is None else conditions[torch.arange(PRIOR_DRAWS) % len(conditions)].to(mask.dtype)
    return _start_codes(model.prior(mask, rows).sample(noise.to(mask.dtype)), rows if is_conditional else None)
