"""The registry of nets."""

from __future__ import annotations

from vaescope.nets.net import Net
from vaescope.registry import PartRegistry

NETS: PartRegistry[Net] = PartRegistry("net", "vaescope.nets", Net)
