"""Live decoding in the page: the exported decoder, codes to start from, and a slider for each latent."""

from __future__ import annotations

from dataclasses import dataclass

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
from vaescope.reporting.decoder import ExportedDecoder, NotExported, export_decoder
from vaescope.reporting.pictures import picture
from vaescope.reporting.style import type_label

EXAMPLES, PRIOR_DRAWS = 8, 64
MIN_RANGE = 3.0  # standard deviations that a slider covers on both sides of 0, at least
SLIDER_STEPS = 200


@dataclass(frozen=True)
class StartCode:
    """A code to start from, with its condition for a conditional decoder."""

    code: tuple[float, ...]
    condition: tuple[float, ...] = ()

    def plain(self) -> dict[str, object]:
        """The JSON-compatible dictionary that the page takes."""
        return {"code": [round(value, 6) for value in self.code], "condition": list(self.condition)}


@dataclass(frozen=True)
class LiveDecoder:
    """Everything that the page needs for live decoding.

    Attributes:
        decoder: The exported decoder.
        places: Indices of the example items.
        examples: The codes of the example items.
        draws: Codes drawn from the prior; empty for a model without a prior.
        ranges: The range of each latent's slider.
        types: The type of each latent.
        classes: The number of labels to choose from; 0 unless the decoder is conditioned on the label.
    """

    decoder: ExportedDecoder
    places: Tensor
    examples: tuple[StartCode, ...]
    draws: tuple[StartCode, ...]
    ranges: tuple[tuple[float, float], ...]
    types: tuple[str, ...]
    classes: int


def live_decoder(subject: Subject, types: VariableTypes, seed: int = 0) -> LiveDecoder | NotExported:
    """Prepare live decoding, or say why it is not possible."""
    model, items = subject.model, subject.items
    if subject.run is None or items is None:
        return NotExported(f"{NOT_A_RUN}, so there is no decoder.")
    decoder = export_decoder(model)
    if isinstance(decoder, NotExported):
        return decoder
    assert isinstance(model, LatentModule)
    conditions = conditions_of(model, items) if decoder.program["condition"] else None
    places = torch.linspace(0, len(items) - 1, min(EXAMPLES, len(items))).round().long()
    on_label = conditions is not None and model.condition == LABEL
    return LiveDecoder(
        decoder,
        places,
        _start_codes(subject.codes.mean[places], None if conditions is None else conditions[places]),
        _prior_draws(model, items, conditions is not None, seed),
        slider_ranges(subject.codes.sample),
        types.types,
        decoder.program["condition"] if on_label else 0,
    )


def slider_ranges(samples: Float[Tensor, "items latents"]) -> tuple[tuple[float, float], ...]:
    """The range of the samples, and at least 3 standard deviations (of 1 at most) on both sides of 0."""
    values = samples.double()
    margin = values.std(0, correction=0).clamp(max=1) * MIN_RANGE
    lows, highs = torch.minimum(values.amin(0), -margin), torch.maximum(values.amax(0), margin)
    return tuple(zip(lows.tolist(), highs.tolist(), strict=True))


def live_section(live: LiveDecoder, items: Dataset) -> Markup:
    """The pictures, buttons and sliders, which `live.js` connects to the decoder."""
    shape = tuple(items.shape)
    originals = items.batch(live.places)
    data = {
        "decoder": live.decoder.plain(),
        "examples": [start.plain() for start in live.examples],
        "draws": [start.plain() for start in live.draws],
        "items": originals.flatten(1).tolist() if len(shape) == 1 else None,
    }
    sliders = [_slider(live, latent) for latent in range(len(live.types))]
    return render(
        "live.html",
        examples=[picture(item, shape, alt=f"example {number}") for number, item in enumerate(originals, 1)],
        is_vector=len(shape) == 1,
        classes=live.classes,
        has_prior=bool(live.draws),
        used=[slider for slider in sliders if slider["type"] != PASSIVE],
        passive=[slider for slider in sliders if slider["type"] == PASSIVE],
        data=json_script("live-data", data),
    )


def _slider(live: LiveDecoder, latent: int) -> dict[str, object]:
    (low, high), kind = live.ranges[latent], live.types[latent]
    return {
        "latent": latent,
        "type": kind,
        "label": type_label(kind),
        "low": f"{low:.4f}",
        "high": f"{high:.4f}",
        "step": f"{(high - low) / SLIDER_STEPS:.6f}",
    }


def _start_codes(codes: Tensor, conditions: Tensor | None) -> tuple[StartCode, ...]:
    if conditions is None:
        return tuple(StartCode(tuple(code)) for code in codes.tolist())
    pairs = zip(codes.tolist(), conditions.tolist(), strict=True)
    return tuple(StartCode(tuple(code), tuple(condition)) for code, condition in pairs)


@torch.no_grad()
def _prior_draws(model: LatentModule, items: Dataset, conditional: bool, seed: int) -> tuple[StartCode, ...]:
    """Codes drawn from the prior, each with its condition if the decoder is conditional."""
    if model.prior is None:
        return ()
    mask = model.latent_mask
    noise = counter.normal(torch.tensor(seed), "prior", torch.tensor(0), torch.arange(PRIOR_DRAWS), len(mask))
    conditions = conditions_of(model, items)
    rows = None if conditions is None else conditions[torch.arange(PRIOR_DRAWS) % len(conditions)].to(mask.dtype)
    return _start_codes(model.prior(mask, rows).sample(noise.to(mask.dtype)), rows if conditional else None)
