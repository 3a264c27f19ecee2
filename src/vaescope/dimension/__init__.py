"""Intrinsic dimension: how many coordinates the data need locally, from distances to nearest neighbours."""

from vaescope.dimension.mle import MLE, MLESweep, mle, mle_sweep, neighbours
from vaescope.dimension.twonn import TwoNN, twonn

__all__ = ["MLE", "MLESweep", "TwoNN", "mle", "mle_sweep", "neighbours", "twonn"]
