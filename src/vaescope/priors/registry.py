"""The registry of priors."""

from __future__ import annotations

from typing import Any

from vaescope.registry import PartRegistry

PRIORS: PartRegistry[Any] = PartRegistry("prior", "vaescope.priors")
