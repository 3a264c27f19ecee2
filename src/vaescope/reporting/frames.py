"""Sliders for a decoder that the page cannot run: frames of each latent, decoded when the page is made."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import UNIT_RANGE
from vaescope.diagnosis.subject import Subject
from vaescope.encoding import traverse
from vaescope.markup import Markup, json_script
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.reporting.assets import render
from vaescope.reporting.latent_table import LatentRow, in_display_order
from vaescope.reporting.live import slider_note, slider_ranges, slider_words
from vaescope.reporting.pictures import levels, png_address, reduced, value_range
from vaescope.reporting.reconstructions import NotShown, Reconstructions
from vaescope.reporting.style import plural

FRAMES = 21  # of a latent
MAX_LATENTS, MAX_EXAMPLES = 32, 4
MAX_CHARACTERS = 4_000_000  # of all frames in a page
MAX_DECODED = 100_000_000  # numbers decoded for all examples, unless a single example needs more
MAX_BYTES = 32_000_000  # of pixels before compression
MAX_SIDE = 512  # pixels of a frame
LEAST_SHARE = 1e-4  # smaller shares of clipped pixels are shown as this share
HALF_LEVEL = 0.5 / 255  # smaller deviations round to the same byte
HIGHEST = 65535  # of 16 bits


@dataclass(frozen=True)
class Strip:
    """The frames of one latent: the other latents stay at the mean code of an example.

    Attributes:
        latent: The latent that changes; of a spatial code, the channel.
        values: Its value in each frame; of a channel, the average over the positions.
        own: The frame in which it has the value of the example.
        items: The decoded vectors, or the pixels of the decoded images as bytes.
        outside: The share of pixels that were clipped.
    """

    latent: int
    values: tuple[float, ...]
    own: int
    items: np.ndarray = field(repr=False)
    outside: float = 0.0


@dataclass(frozen=True)
class Packed:
    """Frames as text.

    Attributes:
        texts: The frames of each latent, for each example; there may be fewer examples than there were.
        layout: What the page needs to know to draw them.
        notes: What was omitted to keep the page small, in sentences.
    """

    texts: list[list[str]] = field(repr=False)
    layout: Mapping[str, object]
    notes: list[str]


def frames_section(subject: Subject, rows: Sequence[LatentRow], decoded: Reconstructions, reason: str) -> Markup:
    """The examples, sliders and frames, which `frames.js` connects.

    Args:
        subject: The model and its items.
        rows: What is known about each latent; passive ones have no slider.
        decoded: The examples to start from, and the limits of their pixels.
        reason: Why the decoder does not run in the page, as a sentence.

    Raises:
        NotShown: No latent is in use, or the decoded items cannot be drawn.
    """
    shape = tuple(decoded.items.shape[1:])
    is_vector = len(shape) < 3
    moved = moved_latents(rows)
    if not moved:
        raise NotShown("All latents are passive: moving one of them changes little or nothing.")
    latents = [row.latent for row in moved]
    affordable = MAX_DECODED // (len(latents) * FRAMES * math.prod(shape))
    count = max(1, min(MAX_EXAMPLES, len(decoded.places), affordable))
    examples = [strips_of(subject, decoded, number, latents) for number in range(count)]
    packed = _packed_vectors(examples, decoded) if is_vector else _packed_images(examples)
    strips = [
        {
            str(one.latent): {"values": [round(value, 4) for value in one.values], "own": one.own, "frames": text}
            for one, text in zip(example, texts, strict=True)
        }
        for example, texts in zip(examples, packed.texts, strict=False)
    ]
    words = [*_words(subject, rows, len(moved), reason), *packed.notes, *_range_words(decoded, examples)]
    words += filter(None, [slider_note(shape)])
    noun = "latent" if subject.codes.positions is None else "channel"
    steps = {"low": 0, "high": FRAMES - 1, "step": 1}
    return render(
        "decoding.html",
        id="frames",
        is_vector=is_vector,
        pairs=decoded.pairs(),
        starts=len(strips),
        pairs_words=decoded.words,
        classes=0,
        has_prior=False,
        used=[{**slider_words(row, noun), **steps} for row in moved],
        passive=[],
        words=" ".join(words),
        data=json_script("frames-data", {**packed.layout, "strips": strips}),
    )


def moved_latents(rows: Sequence[LatentRow]) -> list[LatentRow]:
    """The latents that have a slider: those in use, at most `MAX_LATENTS` with the largest rates."""
    return [row for row in in_display_order(rows) if row.type != PASSIVE][:MAX_LATENTS]


def strips_of(subject: Subject, decoded: Reconstructions, number: int, latents: Sequence[int]) -> list[Strip]:
    """Decode the frames of each latent from the mean code of one example, `number` of the reconstructions."""
    assert subject.items is not None
    place = int(decoded.places[number])
    code, conditions = subject.codes.code(place), conditions_of(subject.model, subject.items)
    condition = None if conditions is None else conditions[place]
    ranges, strips = slider_ranges(subject.codes.sample), []
    for latent in latents:
        values, own = _grid(*ranges[latent], float(code[latent].double().mean()))
        items = traverse(subject.model, code, latent, values, condition)
        if not bool(items.isfinite().all()):
            raise NotShown(f"The model decodes some values of latent {latent} to NaN or infinity.")
        if items.ndim < 4:
            strips.append(Strip(latent, values, own, items.flatten(1).float().numpy()))
            continue
        low, high = decoded.limits
        room = HALF_LEVEL * (high - low)
        outside = float(((items < low - room) | (items > high + room)).double().mean())
        pixels = reduced(levels(items.numpy(), decoded.limits), MAX_SIDE)
        strips.append(Strip(latent, values, own, pixels, outside))
    return strips


def _grid(low: float, high: float, own: float) -> tuple[tuple[float, ...], int]:
    """Equal steps, the nearest of which is replaced by the example's own value, and the index of that one."""
    values = torch.linspace(low, high, FRAMES, dtype=torch.float64)
    place = int((values - own).abs().argmin())
    values[place] = own
    return tuple(values.tolist()), place


def _packed_images(examples: Sequence[Sequence[Strip]]) -> Packed:
    """PNG files, one for each latent, with its frames side by side; fewer examples, then smaller images, if needed."""
    height, width = examples[0][0].items.shape[1:3]
    side = max(height, width)
    size = sum(one.items.nbytes for one in examples[0])
    # The compression rate is estimated from the first example.
    factor = max(1, math.ceil(math.sqrt(size / MAX_BYTES)))
    while True:
        first = _sheets(examples[0], side, factor)
        characters = sum(map(len, first))
        if characters <= MAX_CHARACTERS or factor >= side:
            break
        factor = max(factor + 1, math.floor(factor * math.sqrt(characters / MAX_CHARACTERS)))
    texts = [first]
    for example in examples[1:]:
        more = _sheets(example, side, factor)
        characters += sum(map(len, more))
        if characters > MAX_CHARACTERS:
            break
        texts.append(more)
    small = reduced(examples[0][0].items[:1], math.ceil(side / factor))
    layout = {"height": small.shape[1], "width": small.shape[2]}
    notes = []
    if factor > 1:
        notes.append(f"Frames are reduced to {small.shape[1]} x {small.shape[2]} pixels to keep the page small.")
    return Packed(texts, layout, notes)


def _sheets(strips: Sequence[Strip], side: int, factor: int) -> list[str]:
    return [png_address(np.concatenate(list(reduced(one.items, math.ceil(side / factor))), axis=1)) for one in strips]


def _packed_vectors(examples: Sequence[Sequence[Strip]], decoded: Reconstructions) -> Packed:
    """Numbers of 16 bits between the least and the largest; every second dimension, or fewer, if there are many."""
    per_example = sum(one.items.size for one in examples[0]) * 8 // 3  # 2 bytes are 8/3 characters
    every = max(1, math.ceil(per_example / MAX_CHARACTERS))
    count = max(1, min(len(examples), MAX_CHARACTERS * every // per_example))
    shown = [[one.items[:, ::every] for one in example] for example in examples[:count]]
    originals = decoded.originals.flatten(1)[:count, ::every]
    low, high = value_range([originals, *(items for example in shown for items in example)])
    texts = [[_as_text(items, low, high) for items in example] for example in shown]
    vectors = {"low": low, "high": high, "size": originals.shape[1]}
    layout = {"vectors": vectors, "items": [[round(value, 4) for value in item] for item in originals.tolist()]}
    notes = [f"One of {every} dimensions is drawn, to keep the page small."] if every > 1 else []
    return Packed(texts, layout, notes)


def _as_text(items: np.ndarray, low: float, high: float) -> str:
    shares = (items.astype(np.float64) - low) / ((high - low) or 1.0)
    return base64.b64encode((shares * HIGHEST).round().astype("<u2").tobytes()).decode("ascii")


def _words(subject: Subject, rows: Sequence[LatentRow], moved: int, reason: str) -> list[str]:
    """How the sliders work, why they show frames, and which latents have none."""
    positions = subject.codes.positions
    words = [f"Drag a slider: it shows one of {FRAMES} frames that were decoded when this page was made. {reason}"]
    if positions is None:
        words.append("One latent moves at a time; the others stay at the mean code of the example.")
    else:
        shape = " x ".join(map(str, positions))
        words.append(
            f"The latents are channels: a slider sets the average of a channel over its {shape} positions by adding "
            "the same number at each of them. One channel moves at a time; the others stay at the mean code of the "
            "example."
        )
    passive = sum(row.type == PASSIVE for row in rows)
    left_out = len(rows) - passive - moved
    if left_out:
        words.append(f"{plural(left_out, 'latent')} in use, those with the smallest rates, have no slider.")
    if passive:
        words.append(f"{plural(passive, 'passive latent')} without a slider: little or no effect.")
    if subject.model is not None and subject.model.condition is not None:
        words.append("The condition is that of the example.")
    return words


def _range_words(decoded: Reconstructions, examples: Sequence[Sequence[Strip]]) -> list[str]:
    """The range of the pixels and how many lie outside, unless it is [0, 1] and none do."""
    outside = max(one.outside for example in examples for one in example)
    if decoded.items.ndim < 4 or (decoded.limits == UNIT_RANGE and not outside):
        return []
    low, high = decoded.limits
    words = f"Pixels are drawn from {low:.3g} (black) to {high:.3g} (white)"
    if outside:
        words += (
            f"; up to {max(outside, LEAST_SHARE):.2%} of the pixels of a latent's frames lie outside and are clipped"
        )
    return [f"{words}."]
