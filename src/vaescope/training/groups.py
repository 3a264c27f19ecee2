"""Which members train together as one program."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vaescope.training.layout import Layout
from vaescope.training.plan import Member

MAX_MEMBERS = 64
# On a CPU a small net spends its time between operations, which stacked members share; a large net does not.
MAX_STACKED_PARAMETERS = 100_000


def group(members: Sequence[Member], module: nn.Module, device: torch.device) -> list[list[int]]:
    """Positions of the members, in groups that train as one program."""
    positions = list(range(len(members)))
    stacked = device.type == "cuda" or Layout.of(module).size <= MAX_STACKED_PARAMETERS
    size = MAX_MEMBERS if stacked else 1
    return [positions[start : start + size] for start in range(0, len(positions), size)]
