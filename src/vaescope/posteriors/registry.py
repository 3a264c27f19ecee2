"""The registry of posteriors."""

from __future__ import annotations

from vaescope.posteriors.posterior import Posterior
from vaescope.registry import PartRegistry

POSTERIORS: PartRegistry[Posterior] = PartRegistry("posterior", "vaescope.posteriors", Posterior)
