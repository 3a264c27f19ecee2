"""Which members train together: the plan decides, the user does not."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vaescope.training.layout import Layout
from vaescope.training.plan import Member

MOST_TOGETHER = 64
# On a CPU a small net spends its time between operations, and stacking shares that; a large one does not.
SMALL_NET = 100_000


def group(members: Sequence[Member], module: nn.Module, device: torch.device) -> list[list[int]]:
    """Positions of the members, in groups that train as one program."""
    positions = list(range(len(members)))
    together = MOST_TOGETHER if device.type == "cuda" or Layout.of(module).size <= SMALL_NET else 1
    return [positions[start : start + together] for start in range(0, len(positions), together)]
