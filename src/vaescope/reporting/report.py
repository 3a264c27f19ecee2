"""`vaescope.report`: everything about one model, or several models compared, in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vaescope.data import DataLike
from vaescope.diagnosis.compare import MAX_COMPARED_ITEMS, compare
from vaescope.diagnosis.diagnose import diagnose_subject
from vaescope.diagnosis.subject import MAX_ITEMS, load_subject
from vaescope.errors import ConfigurationError
from vaescope.metrics.inputs import count_varying
from vaescope.numerics.polarised import ALPHA
from vaescope.progress import progress_bar
from vaescope.reporting.comparison_page import comparison_page
from vaescope.reporting.page import write_page
from vaescope.reporting.run_page import run_page
from vaescope.runs.resolve import run_of

DEFAULT_PATH = "report.html"
STAGES = 3
DEFAULT_METRICS = ("mig", "dci")  # quick and well known


def report(
    subject: object,
    path: str | Path = DEFAULT_PATH,
    data: DataLike | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    layers: bool = True,
    seed: int = 0,
    runs: str | Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a self-contained HTML report: verdict, findings, latents, live decoding and plots.

    The page says which parts are missing, and why.

    Args:
        subject: A model in any form that `diagnose` accepts; a list of several models is compared.
        path: The file to write.
        data: The items to encode; default: the data that the run was trained on.
        metrics: Names from `vaescope.metrics.METRICS`, or 'all'; default: MIG and DCI if the data have factors.
        alpha: The threshold of the variable types.
        items: The maximum number of items to encode.
        layers: Whether to compare the layers of the network.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.
        progress: Whether to show a progress bar; default: on a terminal.

    Returns:
        The path of the file.
    """
    subjects = list(subject) if isinstance(subject, list) else [subject]
    if not subjects:
        raise ConfigurationError("report needs a run or codes, got an empty list. Pass at least one.")
    with progress_bar("report", STAGES, progress) as advance:
        if len(subjects) > 1:
            found_runs = [run_of(one, runs) for one in subjects]
            advance(0, "comparing")
            both = layers and None not in found_runs[:2]
            found = compare(subjects, data, items=min(items, MAX_COMPARED_ITEMS), layers=both, seed=seed, runs=runs)
            advance(1, "drawing")
            return write_page(path, comparison_page(found, found_runs))
        advance(0, "encoding")
        loaded = load_subject(subjects[0], data, items=items, seed=seed, runs=runs)
        advance(1, "diagnosing")
        default = DEFAULT_METRICS if count_varying(loaded.codes.factors, None) > 1 else ()
        diagnosis = diagnose_subject(loaded, alpha=alpha, metrics=default if metrics is None else metrics, seed=seed)
        advance(2, "drawing")
        return write_page(path, run_page(loaded, diagnosis, layers=layers, seed=seed))
