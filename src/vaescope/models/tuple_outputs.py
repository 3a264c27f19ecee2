"""Tuples of tensors, read as posteriors: which of them are the mean and what says how wide the posterior is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from vaescope.models.moments import (
    LOG_STD,
    LOG_VARIANCE,
    SPREAD_WORDS,
    STD,
    VARIANCE,
    Parameters,
    Spread,
    number_tensor,
)
from vaescope.models.readers import Call, NotRecognised, Reader


def tuple_reader(output: Sequence[object], call: Call) -> Reader:
    """The reader of a tuple of tensors: the mean is followed by what says how wide the posterior is."""
    tensors = {place: part for place, part in enumerate(output) if isinstance(part, Tensor | np.ndarray)}
    shapes = [tuple(part.shape) for part in tensors.values()]
    described = f"a {type(output).__name__} of {len(output)} with tensors of shapes {', '.join(map(str, shapes))}"
    kept = {
        place: part
        for place, part in tensors.items()
        if part.ndim > 1 and call.items in (None, len(part)) and _numbers(part) != call.item_numbers
    }
    same = {tuple(part.shape): [p for p, one in kept.items() if one.shape == part.shape] for part in kept.values()}
    several = [places for places in same.values() if len(places) > 1]
    if len(several) != 1:
        question = "Pass encode=function that returns {'mean': ..., 'variance': ...}." if kept else ""
        raise NotRecognised(described, question if several else "")
    (places,) = several
    if len(places) > 2:
        places = _without_samples(output, places, call)
    if len(places) != 2:
        raise NotRecognised(
            f"{described}, {len(places)} of which could be a mean and a variance",
            "Pass encode=function that returns {'mean': ..., 'log_variance': ...}.",
        )
    first, second = places
    kind = call.spread or _recognised_spread(output, second, described, call)
    words = f"elements {first + 1} and {second + 1} of {len(output)}" if len(output) > 2 else "a pair"
    reader = Reader(
        f"{words}, read as mean and {SPREAD_WORDS[kind]}",
        lambda one: Parameters(element_at(first)(one), element_at(second)(one), kind),
    )
    reader.posterior(output)
    return reader


def _without_samples(output: Sequence[object], places: Sequence[int], call: Call) -> list[int]:
    """The places without samples of the code: these change with the random numbers, or equal the mean."""
    again = None if call.repeat is None else call.repeat()
    fixed = [
        place
        for place in places
        if not isinstance(again, tuple | list) or torch.equal(number_tensor(output[place]), number_tensor(again[place]))
    ]
    for one, other in combinations(fixed, 2):
        if torch.equal(number_tensor(output[one]), number_tensor(output[other])):
            return [place for place in fixed if place != one]
    return fixed


def _recognised_spread(output: Sequence[object], place: int, described: str, call: Call) -> Spread:
    negative = bool((number_tensor(output[place]) < 0).any())
    if negative and call.log_std:
        raise NotRecognised(
            f"{described}, whose element {place + 1} may be the log of a standard deviation, as the model has a layer "
            f"{call.log_std!r}",
            f"Pass spread={LOG_STD!r} or {LOG_VARIANCE!r} to vs.wrap, or to the callback.",
        )
    if negative:
        return LOG_VARIANCE
    raise NotRecognised(
        f"{described}, whose element {place + 1} has no negative number, so it may be a variance or a standard "
        "deviation",
        f"Pass spread={VARIANCE!r}, {LOG_VARIANCE!r} or {STD!r} to vs.wrap, or to the callback.",
    )


def _numbers(part: Tensor | np.ndarray) -> int:
    return int(np.prod(part.shape[1:]))


def element_at(place: int) -> Callable[[object], object]:
    def element(output: object) -> object:
        if not isinstance(output, tuple | list):
            raise TypeError(f"must be a tuple or a list, got {type(output).__name__}")
        return output[place]

    return element
