"""Representations of one width side by side, for products of many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.similarity.procrustes import narrowed
from vaescope.similarity.tables import Centred


@dataclass(frozen=True)
class Group:
    """Members of one width. `kept` holds all of them, centred; else rows are centred each time they are asked for."""

    places: tuple[int, ...]
    members: tuple[Centred, ...]
    kept: Float[Tensor, "members items width"] | None
    rounded: bool

    @property
    def width(self) -> int:
        """The number of features of each member."""
        return self.members[0].table.shape[1]

    def __len__(self) -> int:
        return len(self.members)

    def rows(self, part: slice = slice(None), chosen: slice = slice(None)) -> Float[Tensor, "chosen part width"]:
        """Some items of some members."""
        if self.kept is not None:
            return self.kept[chosen, part]
        return _stacked(self.members[chosen], part, self.rounded)


def grouped(members: Sequence[Centred], *, keep: bool, rounded: bool) -> list[Group]:
    """Members by width; `places` are where they stood. `rounded` to what TF32 keeps."""
    widths: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        widths.setdefault(member.table.shape[1], []).append(place)
    found = []
    for _, places in sorted(widths.items()):
        chosen = tuple(members[place] for place in places)
        found.append(Group(tuple(places), chosen, _stacked(chosen, slice(None), rounded) if keep else None, rounded))
    return found


def blocks(group: Group, columns: int) -> Iterator[slice]:
    """Members of a group in runs of about so many columns, at least one member each."""
    size = max(1, columns // group.width)
    return (slice(start, min(start + size, len(group))) for start in range(0, len(group), size))


def narrowed_members(members: Sequence[Centred]) -> list[Centred]:
    """The same, those with more features than items replaced by factors of their kernels."""
    found = []
    for member in members:
        if member.table.shape[1] > len(member.table):
            factor = narrowed(member.rows())
            member = Centred(member.name, factor, factor.mean(0) - factor[0], 1.0)
        found.append(member)
    return found


def round_to_tf32(values: Tensor) -> Tensor:
    """float32 in place to the 10 bits of mantissa that TF32 keeps, to the nearest.

    Tensor cores may just drop the other bits, which would make every product smaller and not only less certain.
    """
    bits = values.view(torch.int32)
    bits.add_(0x1000).bitwise_and_(-0x2000)
    return values


def _stacked(members: Sequence[Centred], part: slice, rounded: bool) -> Tensor:
    like = members[0].offset
    count = len(range(*part.indices(len(members[0].table))))
    whole = torch.empty(len(members), count, len(like), dtype=like.dtype, device=like.device)
    for place, member in enumerate(members):
        whole[place] = member.rows(part)
    return round_to_tf32(whole) if rounded else whole
