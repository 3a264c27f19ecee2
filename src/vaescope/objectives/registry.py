"""The registry of objectives."""

from __future__ import annotations

from vaescope.objectives.objective import Objective
from vaescope.registry import PartRegistry

OBJECTIVES: PartRegistry[Objective] = PartRegistry("objective", "vaescope.objectives", Objective)
