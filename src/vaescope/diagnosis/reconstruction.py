"""How well a model reconstructs its items, compared with the best constant: the mean item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vaescope.data.conditions import conditions_of
from vaescope.diagnosis.subject import Subject
from vaescope.encoding import decode
from vaescope.errors import VaescopeError

MAX_RECONSTRUCTED_ITEMS, MIN_RECONSTRUCTED_ITEMS = 512, 8
MAX_NUMBERS = 1 << 22  # of all reconstructed items, unless there are few
SHOWN_ITEMS = 8
NO_BETTER = 0.02  # share of the variance below which reconstructions are no better than the mean item


class NotReconstructed(Exception):
    """The items cannot be compared with reconstructions; the message is the reason."""


@dataclass(frozen=True)
class Reconstruction:
    """Mean squared errors of reconstructions from mean codes.

    Attributes:
        places: The indices of the items that were reconstructed, among those that were encoded.
        errors: The mean squared error of each, per number, in the scale of the data; of counts, of log(1 + count).
        constant_errors: The error of the mean item, likewise.
        unit: What an item consists of: 'pixel', 'count' or 'value'.
    """

    places: tuple[int, ...]
    errors: tuple[float, ...]
    constant_errors: tuple[float, ...]
    unit: str = "value"

    @property
    def error(self) -> float:
        """The mean squared error per number."""
        return math.fsum(self.errors) / len(self.errors)

    @property
    def constant_error(self) -> float:
        """The mean squared error per number of the mean item, the best constant."""
        return math.fsum(self.constant_errors) / len(self.constant_errors)

    @property
    def explained(self) -> float:
        """The share of the variance in the data that reconstructions explain: 1 for perfect, 0 for the mean item."""
        return 1 - self.error / self.constant_error

    def rows(self, count: int = SHOWN_ITEMS) -> list[dict[str, object]]:
        """Items from the best to the worst reconstruction, at equal distances in that order."""
        order = sorted(range(len(self.places)), key=lambda place: self.errors[place])
        chosen = torch.linspace(0, len(order) - 1, min(count, len(order))).round().long().tolist()
        return [
            {"item": self.places[place], "error": self.errors[place], "mean_item_error": self.constant_errors[place]}
            for place in (order[position] for position in chosen)
        ]


def explained_in_words(found: Reconstruction, what: str = "reconstructions") -> str:
    """How much of the items reconstructions explain, as a clause."""
    if found.explained < NO_BETTER:
        return f"{what} are no better than the mean item"
    return f"{what} explain {found.explained:.0%} of the variance in the data"


def reconstruction_of(subject: Subject) -> Reconstruction:
    """Reconstruct items at equal distances in the data from their mean codes.

    Raises:
        NotReconstructed: There is no decoder, its outputs cannot be compared with the items, or all items are equal.
    """
    model, items = subject.model, subject.items
    if subject.no_decoder or model is None or items is None:
        raise NotReconstructed(subject.no_decoder)
    most = max(MIN_RECONSTRUCTED_ITEMS, min(MAX_RECONSTRUCTED_ITEMS, MAX_NUMBERS // items.dimensions))
    places = torch.linspace(0, len(items) - 1, min(most, len(items))).round().long()
    try:
        conditions = conditions_of(model, items)
        codes = torch.stack([subject.codes.code(place) for place in places.tolist()])
        decoded = decode(model, codes, None if conditions is None else conditions[places])
    except VaescopeError as error:
        raise NotReconstructed(f"The codes cannot be decoded: {error}") from error
    originals = items.in_data_scale(places).double().flatten(1)
    found = decoded.double().flatten(1)
    if found.shape != originals.shape:
        raise NotReconstructed(f"The model decodes to {tuple(decoded.shape[1:])}, but items are {tuple(items.shape)}.")
    if not bool(found.isfinite().all()):
        raise NotReconstructed("The model decodes some of its codes to NaN or infinity.")
    if items.holds_counts:
        originals, found = originals.log1p(), found.clamp(min=0).log1p()
    errors, constants = _errors(originals, found), _errors(originals, originals.nanmean(0, keepdim=True))
    if not sum(constants) > 0:
        raise NotReconstructed("The items do not vary, so there is nothing to reconstruct.")
    unit = "pixel" if items.is_image else "count" if items.holds_counts else "value"
    return Reconstruction(tuple(places.tolist()), tuple(errors), tuple(constants), unit)


def _errors(originals: Tensor, found: Tensor) -> Sequence[float]:
    """The mean squared error of each item over its known numbers; 0 for an item without any."""
    errors: list[float] = (found - originals).square().nanmean(1).nan_to_num(0.0).tolist()
    return errors
