"""How many latents a model needs: FONDUE, a search over the gap between mean and sampled representations."""

from vaescope.sizing.axes import Latents, Strength
from vaescope.sizing.downstream import predict
from vaescope.sizing.elbow import Elbow, ElbowPoint, default_sizes, elbow
from vaescope.sizing.estimate import fondue, search_many
from vaescope.sizing.folder import search_folder
from vaescope.sizing.gaps import GAPS, Evidence, Gap, GapTerms, Information, IntrinsicDimension, Trace
from vaescope.sizing.interpolation import InterpolatedSearch
from vaescope.sizing.result import Answer, Fondue, Probe
from vaescope.sizing.search import (
    BisectionSearch,
    RoundSearch,
    Search,
    SearchResult,
    binary_search,
    fondue_search,
    search_in_rounds,
)
from vaescope.sizing.setup import Question, SearchOptions, Setup
from vaescope.sizing.store import load_checks, load_results

__all__ = [
    "GAPS",
    "Answer",
    "BisectionSearch",
    "Elbow",
    "ElbowPoint",
    "Evidence",
    "Fondue",
    "Gap",
    "GapTerms",
    "Information",
    "InterpolatedSearch",
    "IntrinsicDimension",
    "Latents",
    "Probe",
    "Question",
    "RoundSearch",
    "Search",
    "SearchOptions",
    "SearchResult",
    "Setup",
    "Strength",
    "Trace",
    "binary_search",
    "default_sizes",
    "elbow",
    "fondue",
    "fondue_search",
    "load_checks",
    "load_results",
    "predict",
    "search_folder",
    "search_in_rounds",
    "search_many",
]
