"""The registry of models."""

from __future__ import annotations

from typing import Any

from vaescope.registry import Registry

MODELS: Registry[type[Any]] = Registry("model", "vaescope.models")
