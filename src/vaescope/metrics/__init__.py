"""Metrics of codes, factors and decoders: disentanglement, information, prediction, sparsity, orthogonality."""

from vaescope.metrics.beta_vae import beta_vae
from vaescope.metrics.dci import dci
from vaescope.metrics.decoders import DecoderFunction
from vaescope.metrics.factor_vae import factor_vae
from vaescope.metrics.inputs import MetricInputs, metric_inputs
from vaescope.metrics.irs import irs
from vaescope.metrics.mcc import mcc
from vaescope.metrics.meaning import Meaning, meaning
from vaescope.metrics.mig import mig, mig_sup
from vaescope.metrics.modularity import explicitness, modularity
from vaescope.metrics.neighbours import neighbours
from vaescope.metrics.orthogonality import column_orthogonality, distance_to_orthogonality, random_decoder_baseline
from vaescope.metrics.registry import METRICS, Measurements, measure_all
from vaescope.metrics.sampling import FactorGrid
from vaescope.metrics.sap import sap
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate
from vaescope.metrics.sparsity import class_activation, hoyer
from vaescope.metrics.tasks import downstream_accuracy, sample_efficiency
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
    "evaluate",
    "explicitness",
    "factor_vae",
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
    "udr",
]
