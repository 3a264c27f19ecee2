"""The registry of models."""

from __future__ import annotations

from vaescope.models.module import LatentModule
from vaescope.registry import Registry

MODELS: Registry[type[LatentModule]] = Registry("model", "vaescope.models", LatentModule)
