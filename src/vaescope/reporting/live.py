"""Live decoding in the page: the exported decoder, codes to start from, and a slider for each latent."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data import Dataset
from vaescope.data.conditions import LABEL, conditions_of
from vaescope.diagnosis.subject import NOT_A_RUN, Subject
from vaescope.markup import Markup, json_script
from vaescope.models import LatentModule
from vaescope.numerics import counter
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.regime import VariableTypes
from vaescope.reporting.assets import render
from vaescope.reporting.decoder import NotExported, export_decoder
from vaescope.reporting.pictures import picture
from vaescope.reporting.style import type_label

EXAMPLES, PRIOR_DRAWS = 8, 64
MIN_RANGE = 3.0  # standard deviations that a slider covers on both sides of 0, at least
SLIDER_STEPS = 200


def live_section(subject: Subject, types: VariableTypes, seed: int = 0) -> Markup:
    """The pictures, buttons and sliders, which `live.js` connects to the exported decoder.

    Args:
        subject: The model and the items to start from.
        types: The type of each latent.
        seed: The random seed of the codes drawn from the prior.

    Raises:
        NotExported: There is no decoder, or the page cannot run it.
    """
    model, items = subject.model, subject.items
    if subject.run is None or items is None:
        raise NotExported(f"{NOT_A_RUN}, so there is no decoder.")
    decoder = export_decoder(model)
    assert isinstance(model, LatentModule)
    shape = tuple(items.shape)
    places = torch.linspace(0, len(items) - 1, min(EXAMPLES, len(items))).round().long()
    originals = items.batch(places)
    conditions = conditions_of(model, items) if decoder.condition else None
    draws = _prior_draws(model, items, conditions is not None, seed)
    data = {
        "decoder": decoder.plain(),
        "examples": _start_codes(subject.codes.mean[places], None if conditions is None else conditions[places]),
        "draws": draws,
        "items": originals.flatten(1).tolist() if len(shape) == 1 else None,
    }
    ranges = zip(types.types, slider_ranges(subject.codes.sample), strict=True)
    sliders = [
        {
            "latent": latent,
            "type": kind,
            "label": type_label(kind),
            "low": f"{low:.4f}",
            "high": f"{high:.4f}",
            "step": f"{(high - low) / SLIDER_STEPS:.6f}",
        }
        for latent, (kind, (low, high)) in enumerate(ranges)
    ]
    return render(
        "live.html",
        examples=[picture(item, shape, alt=f"example {number}") for number, item in enumerate(originals, 1)],
        is_vector=len(shape) == 1,
        classes=decoder.condition if model.condition == LABEL else 0,
        has_prior=bool(draws),
        used=[slider for slider in sliders if slider["type"] != PASSIVE],
        passive=[slider for slider in sliders if slider["type"] == PASSIVE],
        data=json_script("live-data", data),
    )


def slider_ranges(samples: Float[Tensor, "items latents"]) -> tuple[tuple[float, float], ...]:
    """The range of the samples, and at least 3 standard deviations (of 1 at most) on both sides of 0."""
    values = samples.double()
    margin = values.std(0, correction=0).clamp(max=1) * MIN_RANGE
    lows, highs = torch.minimum(values.amin(0), -margin), torch.maximum(values.amax(0), margin)
    return tuple(zip(lows.tolist(), highs.tolist(), strict=True))


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
