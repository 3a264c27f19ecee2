"""The registry of likelihoods."""

from __future__ import annotations

from typing import Any

from vaescope.registry import PartRegistry

LIKELIHOODS: PartRegistry[Any] = PartRegistry("likelihood", "vaescope.likelihoods")
