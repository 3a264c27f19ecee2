"""`vaescope.report`: the story of one model, or of several side by side, in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaescope.codes import Representation
from vaescope.diagnosis.compare import ITEMS as COMPARED
from vaescope.diagnosis.compare import compare
from vaescope.diagnosis.diagnose import diagnosis_of
from vaescope.diagnosis.subject import ITEMS, gather
from vaescope.errors import ConfigurationError
from vaescope.numerics.polarised import ALPHA
from vaescope.progress import progress_bar
from vaescope.reporting.comparison_page import several_page
from vaescope.reporting.page import write_page
from vaescope.reporting.run_page import story_page
from vaescope.runs.resolve import run_of

DEFAULT_PATH = "report.html"
STEPS = 3
METRICS = ("mig", "dci")  # of those that need factors, the ones that are quick and most people know


def report(
    subject: Any,
    path: str | Path = DEFAULT_PATH,
    data: Any = None,
    *,
    metrics: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    items: int = ITEMS,
    layers: bool = True,
    seed: int = 0,
    runs: str | Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Write one file that tells what became of a model: verdict, latents, live decoding, plots.

    `subject` is what `diagnose` takes: a `Run` (or its folder or id), codes in any form, or a function that encodes
    `data`; a list of several of them is compared. Without `metrics` named, MIG and DCI are scored where there are
    factors. What cannot be had is left out, and the page says why.
    """
    subjects = list(subject) if isinstance(subject, list) else [subject]
    if not subjects:
        raise ConfigurationError("report needs a run, or codes; got an empty list.")
    with progress_bar("report", STEPS, progress) as said:
        if len(subjects) > 1:
            found_runs = [run_of(one, runs) for one in subjects]
            said(0, "comparing")
            both = layers and None not in found_runs[:2]
            found = compare(subjects, data, items=min(items, COMPARED), layers=both, seed=seed, runs=runs)
            said(1, "drawing")
            return write_page(path, several_page(found, found_runs))
        said(0, "encoding")
        material = gather(subjects[0], data, items=items, seed=seed, runs=runs)
        said(1, "diagnosing")
        wanted = metrics if metrics is not None else METRICS if _has_several_factors(material.codes) else ()
        diagnosis = diagnosis_of(material, alpha=alpha, metrics=wanted, seed=seed)
        said(2, "drawing")
        return write_page(path, story_page(material, diagnosis, layers=layers, seed=seed))


def _has_several_factors(codes: Representation) -> bool:
    """Whether there are factors to be told apart."""
    return codes.factors is not None and int((codes.factors.amax(0) > codes.factors.amin(0)).sum()) > 1
