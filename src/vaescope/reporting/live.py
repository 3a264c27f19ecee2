"""Live decoding: the decoder, the codes to begin from, and a slider for each latent that is in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data.conditions import LABEL, conditions_of
from vaescope.diagnosis.subject import Material
from vaescope.markup import Markup, element, join, json_script
from vaescope.numerics import counter
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.regime import VariableTypes
from vaescope.reporting.decoder import Embedded, NotEmbedded, embedded
from vaescope.reporting.pictures import picture
from vaescope.reporting.style import type_label

EXAMPLES, DRAWS = 8, 64
REACH = 3.0  # a slider goes at least so many standard deviations of the prior to both sides
STEPS = 200


@dataclass(frozen=True)
class Start:
    """A code to begin from, of an example or drawn from the prior, and what a conditional decoder is told with it."""

    code: tuple[float, ...]
    condition: tuple[float, ...]

    def plain(self) -> dict[str, Any]:
        """For the page."""
        return {"code": [round(value, 6) for value in self.code], "condition": list(self.condition)}


@dataclass(frozen=True)
class Live:
    """All that the page needs to decode by itself."""

    decoder: Embedded
    examples: tuple[Start, ...]
    draws: tuple[Start, ...]
    ranges: tuple[tuple[float, float], ...]
    types: tuple[str, ...]
    labels: int
    places: Tensor

    def plain(self) -> dict[str, Any]:
        """For the page."""
        return {
            "decoder": self.decoder.plain(),
            "examples": [start.plain() for start in self.examples],
            "draws": [start.plain() for start in self.draws],
        }


def live(material: Material, types: VariableTypes, seed: int = 0) -> Live | str:
    """What live decoding needs, or the reason why there is none."""
    model, items = material.model, material.items
    if material.run is None or items is None:
        return "these are codes, not a run: there is no decoder."
    decoder = embedded(model)
    if isinstance(decoder, NotEmbedded):
        return decoder.reason
    width = decoder.program["condition"]
    places = spread_places(len(items), EXAMPLES)
    told = conditions_of(model, items) if width else None
    means = material.codes.mean
    examples = [
        Start(tuple(means[place].tolist()), () if told is None else tuple(told[place].tolist())) for place in places
    ]
    on_label = width > 0 and model.condition == LABEL
    return Live(
        decoder,
        tuple(examples),
        _draws(model, items, width, seed),
        ranges(material.codes.sample),
        types.types,
        width if on_label else 0,
        places,
    )


def spread_places(items: int, count: int) -> Tensor:
    """Places of at most so many items, spread evenly over all."""
    return torch.linspace(0, items - 1, min(count, items)).round().long().unique()


def ranges(samples: Float[Tensor, "items latents"]) -> tuple[tuple[float, float], ...]:
    """How far each latent's slider goes: where samples are, and at least 3 standard deviations to both sides of 0."""
    lows, highs = samples.double().amin(0), samples.double().amax(0)
    reach = torch.minimum(samples.double().std(0, correction=0), torch.ones_like(lows)) * REACH
    return tuple(
        (float(torch.minimum(low, -far)), float(torch.maximum(high, far)))
        for low, high, far in zip(lows, highs, reach, strict=True)
    )


@torch.no_grad()
def _draws(model: Any, items: Any, width: int, seed: int) -> tuple[Start, ...]:
    """Codes from the prior, each with the condition it was drawn under; none for a model without a prior."""
    prior = getattr(model, "prior", None)
    if prior is None:
        return ()
    latents = len(model.latent_mask)
    noise = counter.normal(torch.tensor(seed), "prior", torch.tensor(0), torch.arange(DRAWS), latents)
    told = conditions_of(model, items)
    rows = None if told is None else told[torch.arange(DRAWS) % len(told)].to(model.latent_mask.dtype)
    found = prior(model.latent_mask, rows)
    codes = found.sample(noise.to(model.latent_mask.dtype))
    beside = [() if rows is None or not width else tuple(row.tolist()) for row in (rows if rows is not None else codes)]
    return tuple(Start(tuple(code.tolist()), told) for code, told in zip(codes, beside, strict=True))


def live_section(found: Live, items: Any) -> Markup:
    """The pictures, the buttons and the sliders; `live.js` brings them to life."""
    shape = tuple(items.shape)
    originals = items.batch(found.places)
    starts = [
        element(
            "button",
            picture(item, shape, alt=f"example {number}"),
            type="button",
            class_="start",
            data_start=number - 1,
            aria_pressed="true" if number == 1 else "false",
        )
        for number, item in enumerate(originals, 1)
    ]
    used = [latent for latent, kind in enumerate(found.types) if kind != PASSIVE]
    passive = [latent for latent, kind in enumerate(found.types) if kind == PASSIVE]
    return element(
        "div",
        element("div", *starts, class_="starts", role="group", aria_label="Begin from an example"),
        element(
            "div",
            element("figure", element("div", class_="original"), element("figcaption", "the example")),
            element(
                "figure",
                element("canvas", class_="decoded", role="img", aria_label="the decoded item"),
                element("figcaption", "decoded from the code"),
            ),
            class_="pictures",
        ),
        element(
            "div",
            _buttons(found),
            element("div", *[_slider(found, latent) for latent in used], class_="sliders"),
            None
            if not passive
            else element(
                "details",
                element("summary", f"{len(passive)} passive latents: they change nothing, or next to it"),
                element("div", *[_slider(found, latent) for latent in passive], class_="sliders"),
            ),
            class_="controls",
        ),
        json_script(
            "live-data", {**found.plain(), "items": originals.flatten(1).tolist() if len(shape) == 1 else None}
        ),
        class_="live" if len(shape) == 3 else "live vector",
        id="live",
    )


def _buttons(found: Live) -> Markup:
    label = None
    if found.labels:
        options = [element("option", str(number), value=number) for number in range(found.labels)]
        label = element("label", "label ", element("select", *options, class_="label"))
    return element(
        "p",
        label,
        element("button", "Draw from the prior", type="button", class_="draw") if found.draws else None,
        element("button", "Reset", type="button", class_="reset"),
        element("button", "Copy the code", type="button", class_="copy"),
        element("span", role="status", class_="said"),
        class_="buttons",
    )


def _slider(found: Live, latent: int) -> Markup:
    (low, high), kind = found.ranges[latent], found.types[latent]
    identity = f"latent-{latent}"
    return join(
        element(
            "label",
            f"latent {latent} ",
            element("span", type_label(kind), class_=f"type {kind}"),
            for_=identity,
        ),
        element(
            "input",
            type="range",
            id=identity,
            data_latent=latent,
            min=f"{low:.4f}",
            max=f"{high:.4f}",
            step=f"{(high - low) / STEPS:.6f}",
            value=0,
        ),
        element("output", "0", for_=identity),
    )
