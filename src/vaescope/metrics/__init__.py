"""Metrics of codes, factors and decoders: disentanglement, information, prediction, sparsity, orthogonality."""

from vaescope.metrics.decoders import DecoderFunction
from vaescope.metrics.dependence import effective_rank, gaussian_wasserstein_correlation, total_correlation
from vaescope.metrics.fixed_factor import beta_vae, factor_vae, irs
from vaescope.metrics.inputs import MetricInputs, metric_inputs
from vaescope.metrics.mutual_information import Meaning, meaning, mig, mig_sup, modularity
from vaescope.metrics.orthogonality import column_orthogonality, distance_to_orthogonality, random_decoder_baseline
from vaescope.metrics.prediction import dci, downstream_accuracy, explicitness, sample_efficiency
from vaescope.metrics.sampling import FactorGrid
from vaescope.metrics.score import METRICS, Measurements, MetricOptions, RawScore, Score, evaluate, measure_all
from vaescope.metrics.single_latent import mcc, neighbours, sap
from vaescope.metrics.sparsity import class_activation, hoyer
from vaescope.metrics.udr import udr

__all__ = [
    "METRICS",
    "DecoderFunction",
    "FactorGrid",
    "Meaning",
    "Measurements",
    "MetricInputs",
    "MetricOptions",
    "RawScore",
    "Score",
    "beta_vae",
    "class_activation",
    "column_orthogonality",
    "dci",
    "distance_to_orthogonality",
    "downstream_accuracy",
    "effective_rank",
    "evaluate",
    "explicitness",
    "factor_vae",
    "gaussian_wasserstein_correlation",
    "hoyer",
    "irs",
    "mcc",
    "meaning",
    "measure_all",
    "metric_inputs",
    "mig",
    "mig_sup",
    "modularity",
    "neighbours",
    "random_decoder_baseline",
    "sample_efficiency",
    "sap",
    "total_correlation",
    "udr",
]
