"""The registry of nets."""

from __future__ import annotations

from typing import Any

from vaescope.registry import PartRegistry

NETS: PartRegistry[Any] = PartRegistry("net", "vaescope.nets")
