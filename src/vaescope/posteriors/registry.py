"""The registry of posteriors."""

from __future__ import annotations

from typing import Any

from vaescope.registry import PartRegistry

POSTERIORS: PartRegistry[Any] = PartRegistry("posterior", "vaescope.posteriors")
