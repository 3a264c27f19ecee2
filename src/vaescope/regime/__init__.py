"""The polarised regime: variable types, collapse, means vs. samples, downstream prediction, and the linear case."""

from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES
from vaescope.regime.collapse import (
    Collapse,
    DeltaKL,
    RateDistortion,
    TotalCollapse,
    collapse,
    delta_kl,
    point_of_total_collapse,
    rate_distortion,
    settled_after,
    share_below,
)
from vaescope.regime.downstream import Downstream, downstream
from vaescope.regime.information import MutualInformation, mutual_information_bound
from vaescope.regime.mean_and_sampled import FULL, MEAN, REPRESENTATIONS, SAMPLED, MeanAndSampled, mean_and_sampled
from vaescope.regime.positions import rate_by_position
from vaescope.regime.statistics import LatentStatistics
from vaescope.regime.theory import LinearRegime, critical_betas, linear_regime, optimal_regime
from vaescope.regime.variable_types import VariableTypes, variable_types

__all__ = [
    "ACTIVE",
    "FULL",
    "MEAN",
    "MIXED",
    "PASSIVE",
    "REPRESENTATIONS",
    "SAMPLED",
    "VARIABLE_TYPES",
    "Collapse",
    "DeltaKL",
    "Downstream",
    "LatentStatistics",
    "LinearRegime",
    "MeanAndSampled",
    "MutualInformation",
    "RateDistortion",
    "TotalCollapse",
    "VariableTypes",
    "collapse",
    "critical_betas",
    "delta_kl",
    "downstream",
    "linear_regime",
    "mean_and_sampled",
    "mutual_information_bound",
    "optimal_regime",
    "point_of_total_collapse",
    "rate_by_position",
    "rate_distortion",
    "settled_after",
    "share_below",
    "variable_types",
]
