"""Runs: configuration, folder, fit and resume, and questions over many of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaescope.runs.configuration import Configuration, Split
    from vaescope.runs.fitting import fit, fit_many
    from vaescope.runs.listing import table
    from vaescope.runs.run import Run
    from vaescope.runs.settings import Settings
    from vaescope.runs.store import Store, summary

# Public name -> module that holds it; loaded when first used, so that listing thousands of runs need not load torch.
_HOMES = {
    "Configuration": "configuration",
    "Run": "run",
    "Settings": "settings",
    "Split": "configuration",
    "Store": "store",
    "fit": "fitting",
    "fit_many": "fitting",
    "summary": "store",
    "table": "listing",
}

__all__ = ["Configuration", "Run", "Settings", "Split", "Store", "fit", "fit_many", "summary", "table"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vaescope.runs' has no attribute {name!r}; it has {', '.join(__all__)}.")
    value = getattr(importlib.import_module(f"vaescope.runs.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
