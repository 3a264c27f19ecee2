"""Intrinsic dimension: how many coordinates the data need locally, from distances to nearest neighbours."""

from vaescope.dimension.estimate import Estimate, estimate
from vaescope.dimension.mle import MLE, MLESweep, mle, mle_sweep
from vaescope.dimension.neighbour_distances import neighbours
from vaescope.dimension.twonn import TwoNN, twonn

__all__ = ["MLE", "Estimate", "MLESweep", "TwoNN", "estimate", "mle", "mle_sweep", "neighbours", "twonn"]
