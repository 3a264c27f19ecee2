"""q(z|x): the distribution of the code of an example."""

from typing import Any

from vaescope.posteriors.deterministic import Deterministic
from vaescope.posteriors.diagonal import Diagonal
from vaescope.posteriors.full import Full

POSTERIORS: dict[str, type[Any]] = {"deterministic": Deterministic, "diagonal": Diagonal, "full": Full}

__all__ = ["POSTERIORS", "Deterministic", "Diagonal", "Full"]
