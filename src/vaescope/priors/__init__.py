"""p(z): the distribution of codes before an example is seen."""

from typing import Any

from vaescope.priors.standard import Standard

PRIORS: dict[str, type[Any]] = {"standard": Standard}

__all__ = ["PRIORS", "Standard"]
