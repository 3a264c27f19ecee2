"""Representations of the same width, stacked for products of many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.similarity.procrustes import narrow
from vaescope.similarity.tables import CentredTable


@dataclass(frozen=True)
class WidthGroup:
    """Representations of the same width.

    Attributes:
        places: The position of each member in the input.
        members: The representations.
        kept: All of them, centred; None if rows are centred each time they are needed.
        rounded: Whether numbers are rounded to the precision of TF32.
    """

    places: tuple[int, ...]
    members: tuple[CentredTable, ...]
    kept: Float[Tensor, "members items width"] | None
    rounded: bool

    @property
    def width(self) -> int:
        """The number of features of each member."""
        return self.members[0].table.shape[1]

    def __len__(self) -> int:
        return len(self.members)

    def rows(self, part: slice = slice(None), chosen: slice = slice(None)) -> Float[Tensor, "chosen part width"]:
        """Some items of some members. Default: all."""
        if self.kept is not None:
            return self.kept[chosen, part]
        return _stacked(self.members[chosen], part, self.rounded)


def group_by_width(members: Sequence[CentredTable], *, keep: bool, rounded: bool) -> list[WidthGroup]:
    """Group members by width; `keep` centred copies, `rounded` to the precision of TF32."""
    widths: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        widths.setdefault(member.table.shape[1], []).append(place)
    found = []
    for _, places in sorted(widths.items()):
        chosen = tuple(members[place] for place in places)
        found.append(
            WidthGroup(tuple(places), chosen, _stacked(chosen, slice(None), rounded) if keep else None, rounded)
        )
    return found


def blocks(group: WidthGroup, columns: int) -> Iterator[slice]:
    """Slices of a group with about `columns` columns each, and at least one member."""
    size = max(1, columns // group.width)
    return (slice(start, min(start + size, len(group))) for start in range(0, len(group), size))


def narrow_members(members: Sequence[CentredTable]) -> list[CentredTable]:
    """Replace members with more features than items by square factors of their kernels."""
    found = []
    for member in members:
        if member.table.shape[1] > len(member.table):
            factor = narrow(member.rows())
            member = CentredTable(member.name, factor, factor.mean(0) - factor[0], 1.0)
        found.append(member)
    return found


def round_to_tf32(values: Tensor) -> Tensor:
    """Round float32 numbers in place to the 10 mantissa bits of TF32, to the nearest.

    Tensor cores may truncate the other bits, which would bias every product towards 0.
    """
    bits = values.view(torch.int32)
    bits.add_(0x1000).bitwise_and_(-0x2000)
    return values


def _stacked(members: Sequence[CentredTable], part: slice, rounded: bool) -> Tensor:
    like = members[0].offset
    count = len(range(*part.indices(len(members[0].table))))
    whole = torch.empty(len(members), count, len(like), dtype=like.dtype, device=like.device)
    for place, member in enumerate(members):
        whole[place] = member.rows(part)
    return round_to_tf32(whole) if rounded else whole
