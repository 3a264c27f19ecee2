"""The registry of priors."""

from __future__ import annotations

from vaescope.priors.prior import Prior
from vaescope.registry import PartRegistry

PRIORS: PartRegistry[Prior] = PartRegistry("prior", "vaescope.priors", Prior)
