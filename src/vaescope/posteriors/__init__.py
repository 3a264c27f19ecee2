"""q(z|x): the distribution of the code of an example."""

from typing import Any

from vaescope.posteriors.deterministic import Deterministic
from vaescope.posteriors.diagonal import Diagonal

POSTERIORS: dict[str, type[Any]] = {"deterministic": Deterministic, "diagonal": Diagonal}

__all__ = ["POSTERIORS", "Deterministic", "Diagonal"]
