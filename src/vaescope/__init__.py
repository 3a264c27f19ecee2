"""See which of a VAE's latents are alive, how many it needs, and what they mean."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vaescope import (
        dimension,
        likelihoods,
        metrics,
        models,
        nets,
        objectives,
        posteriors,
        priors,
        regime,
        runs,
        similarity,
    )
    from vaescope.data import Dataset, open_dataset
    from vaescope.errors import VaescopeError
    from vaescope.fondue import fondue
    from vaescope.regime import variable_types
    from vaescope.report import compare, diagnose, report
    from vaescope.representation import Representation, activations, encode
    from vaescope.runs import Run, Store, fit, fit_many
    from vaescope.runs.exporting import export
    from vaescope.runs.pruning import prune
    from vaescope.training import Member

# Public name -> module that holds it; loaded when first used, so that `import vaescope` costs nothing.
_HOMES = {
    "Dataset": "vaescope.data",
    "Member": "vaescope.training",
    "Representation": "vaescope.representation",
    "Run": "vaescope.runs",
    "Store": "vaescope.runs",
    "VaescopeError": "vaescope.errors",
    "activations": "vaescope.representation",
    "compare": "vaescope.report",
    "diagnose": "vaescope.report",
    "encode": "vaescope.representation",
    "export": "vaescope.runs.exporting",
    "fit": "vaescope.runs",
    "fit_many": "vaescope.runs",
    "open_dataset": "vaescope.data",
    "prune": "vaescope.runs.pruning",
    "variable_types": "vaescope.regime",
}
_PACKAGES = (
    "dimension",
    "fondue",
    "likelihoods",
    "metrics",
    "models",
    "nets",
    "objectives",
    "posteriors",
    "priors",
    "regime",
    "report",
    "runs",
    "similarity",
)

__all__ = [
    "Dataset",
    "Member",
    "Representation",
    "Run",
    "Store",
    "VaescopeError",
    "__version__",
    "activations",
    "compare",
    "diagnose",
    "dimension",
    "encode",
    "export",
    "fit",
    "fit_many",
    "fondue",
    "likelihoods",
    "metrics",
    "models",
    "nets",
    "objectives",
    "open_dataset",
    "posteriors",
    "priors",
    "prune",
    "regime",
    "report",
    "runs",
    "similarity",
    "variable_types",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _PACKAGES:
        value = importlib.import_module(f"vaescope.{name}")
    else:
        raise AttributeError(f"module 'vaescope' has no attribute {name!r}; it has {', '.join(__all__)}.")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
