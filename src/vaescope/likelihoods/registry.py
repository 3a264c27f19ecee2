"""The registry of likelihoods."""

from __future__ import annotations

from vaescope.likelihoods.likelihood import Likelihood
from vaescope.registry import PartRegistry

LIKELIHOODS: PartRegistry[Likelihood] = PartRegistry("likelihood", "vaescope.likelihoods", Likelihood)
