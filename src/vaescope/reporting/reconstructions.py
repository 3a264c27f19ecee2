"""Items next to their reconstructions from mean codes, and the range of values in which both are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import UNIT_RANGE
from vaescope.diagnosis.reconstruction import SHOWN_ITEMS, Reconstruction
from vaescope.diagnosis.subject import Subject
from vaescope.encoding import decode
from vaescope.markup import Markup, element
from vaescope.reporting.pictures import drawn_note, picture, strip, value_range
from vaescope.reporting.style import plural

TOLERANCE = 0.05  # the share of the range by which reconstructions may leave it before a wider one is drawn


class NotShown(Exception):
    """The page cannot show the decoded items; the message is the reason."""


@dataclass(frozen=True)
class Reconstructions:
    """Some items of a subject and their reconstructions.

    Attributes:
        places: The indices of the items.
        originals: The items, with pixels in the scale of the data, as all here.
        items: The reconstructions from their mean codes.
        limits: The values that are drawn black and white; of vectors and signals, the range of all values.
        pixel_range: The values that are drawn black and white of the items.
        measured: The errors of more items; None if they were not measured.
    """

    places: Int[Tensor, "shown"]
    originals: Float[Tensor, "shown ..."] = field(repr=False)
    items: Float[Tensor, "shown ..."] = field(repr=False)
    limits: tuple[float, float]
    pixel_range: tuple[float, float] = UNIT_RANGE
    measured: Reconstruction | None = None

    @property
    def error(self) -> float:
        """The mean squared error of these items per number."""
        return float((self.items.double() - self.originals.double().view_as(self.items)).square().nanmean())

    @property
    def range_words(self) -> str:
        """The range in which decoded pixels are drawn, as a sentence; empty for [0, 1]."""
        low, high = float(self.items.min()), float(self.items.max())
        if self.items.ndim < 4 or (low >= UNIT_RANGE[0] and high <= UNIT_RANGE[1] and self.pixel_range == UNIT_RANGE):
            return ""
        black, white = self.limits
        return (
            f"Pixels of these reconstructions lie between {low:.3g} and {high:.3g}, and all decoded pixels are drawn "
            f"from {black:.3g} (black) to {white:.3g} (white)."
        )

    @property
    def words(self) -> str:
        """What the pictures of all pairs show, and the error."""
        shape = tuple(self.items.shape[1:])
        first, second = ("light", "dark") if len(shape) < 3 else ("top row", "bottom row")
        one = len(self.items) == 1
        words = f"{plural(len(self.items), 'item')} ({first}) and {'its' if one else 'their'} reconstruction"
        words += f"{'' if one else 's'} ({second})"
        if self.measured is None:
            words += f". Mean squared error: {self.error:.3g}."
        else:
            words += "" if one else ", from best to worst"
            words += (
                f". Mean squared error over {plural(len(self.measured.errors), 'item')}: {self.measured.error:.3g} per "
                f"{self.measured.unit}."
            )
        return " ".join(filter(None, (words, self.range_words, drawn_note(shape))))

    def pairs(self) -> list[tuple[Markup, Markup | None]]:
        """Each image and its reconstruction; a vector or signal and its reconstruction are two lines of one picture."""
        shape = tuple(self.items.shape[1:])
        pairs: list[tuple[Markup, Markup | None]] = []
        originals = self.originals.reshape(self.items.shape)
        for place, original, item in zip(self.places.tolist(), originals, self.items, strict=True):
            alts = f"item {place}", f"reconstruction of item {place}"
            if len(shape) < 3:
                alt = f"{alts[0]} (light) and {alts[1]} (dark)"
                pairs.append((strip(torch.stack([original, item]), shape, alt), None))
            else:
                above = picture(original, shape, alts[0], limits=self.pixel_range)
                pairs.append((above, picture(item, shape, alts[1], limits=self.limits)))
        return pairs


def reconstructions_of(
    subject: Subject, measured: Reconstruction | None = None, count: int = SHOWN_ITEMS
) -> Reconstructions:
    """Reconstruct items from the best to the worst that was measured, or else at equal distances in the data.

    Raises:
        NotShown: There is no decoder, or its outputs cannot be drawn or are not finite.
    """
    model, items = subject.model, subject.items
    if subject.no_decoder or model is None or items is None:
        raise NotShown(subject.no_decoder)
    if len(items.shape) > 3:
        raise NotShown(f"The page can draw images, signals and vectors, but not items of shape {tuple(items.shape)}.")
    places = torch.linspace(0, len(items) - 1, min(count, len(items))).round().long()
    if measured is not None:
        places = torch.tensor([row["item"] for row in measured.rows(count)])
    conditions = conditions_of(model, items)
    codes = torch.stack([subject.codes.code(place) for place in places.tolist()])
    decoded = decode(model, codes, None if conditions is None else conditions[places])
    if not bool(decoded.isfinite().all()):
        raise NotShown("The model decodes some of its codes to NaN or infinity.")
    originals, pixel_range = items.in_data_scale(places), items.range_in_data_scale
    both = torch.cat([originals.reshape(decoded.shape), decoded])
    return Reconstructions(places, originals, decoded, _limits(both, pixel_range), pixel_range, measured)


def reconstruction_section(found: Reconstructions) -> Markup:
    """The items and their reconstructions, for a page without sliders."""
    pairs = [element("span", *pair, class_="start") for pair in found.pairs()]
    starts = element("div", *pairs, class_="starts")
    pictures = element("figure", starts, element("figcaption", found.words), class_="pairs")
    is_vector = found.items.ndim < 4
    return element("div", pictures, class_="live vector still" if is_vector else "live still")


def _limits(items: Float[Tensor, "items ..."], pixel_range: tuple[float, float]) -> tuple[float, float]:
    low, high = value_range([items])
    if items.ndim < 4:
        return low, high
    black, white = pixel_range
    room = TOLERANCE * (white - black)
    if low >= black - room and high <= white + room:
        return pixel_range
    return min(low, black), max(high, white)
