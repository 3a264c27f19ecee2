"""Every metric by name, and several of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.errors import DataError, VaescopeError, unknown_name
from vaescope.metrics.beta_vae import beta_vae
from vaescope.metrics.dci import dci
from vaescope.metrics.factor_vae import factor_vae
from vaescope.metrics.irs import irs
from vaescope.metrics.mcc import mcc
from vaescope.metrics.mig import mig, mig_sup
from vaescope.metrics.modularity import explicitness, modularity
from vaescope.metrics.neighbours import neighbours
from vaescope.metrics.orthogonality import column_orthogonality, distance_to_orthogonality
from vaescope.metrics.sap import sap
from vaescope.metrics.score import Score
from vaescope.metrics.sparsity import hoyer
from vaescope.metrics.tasks import downstream_accuracy, sample_efficiency
from vaescope.progress import progress_bar

ALL = "all"

# Of codes and factors, of codes alone, and of a decoder at codes.
OF_FACTORS: dict[str, Callable[..., Score]] = {
    "beta_vae": beta_vae,
    "dci": dci,
    "downstream_accuracy": downstream_accuracy,
    "explicitness": explicitness,
    "factor_vae": factor_vae,
    "irs": irs,
    "mcc": mcc,
    "mig": mig,
    "mig_sup": mig_sup,
    "modularity": modularity,
    "neighbours": neighbours,
    "sample_efficiency": sample_efficiency,
    "sap": sap,
}
OF_CODES: dict[str, Callable[..., Score]] = {"hoyer": hoyer}
OF_DECODERS: dict[str, Callable[..., Score]] = {
    "column_orthogonality": column_orthogonality,
    "distance_to_orthogonality": distance_to_orthogonality,
}
METRICS: dict[str, Callable[..., Score]] = {**OF_FACTORS, **OF_CODES, **OF_DECODERS}
# Those that tell one factor from others.
OF_SEVERAL = ("beta_vae", "dci", "factor_vae", "modularity")


@dataclass(frozen=True)
class Measurements:
    """The scores, and by name why others of all could not be had."""

    scores: tuple[Score, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def measure_all(
    wanted: str | Sequence[str],
    codes: Representation,
    *,
    names: Sequence[str] | None = None,
    model: Any = None,
    exclude: str | None = None,
    types: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Measurements:
    """The metrics that are named, or "all" of them: then those that these codes or this model cannot have say why.

    Scores of codes and factors come with those of noise and of the factors themselves, and leave out the latents of
    the type `exclude`. The `model` is for the metrics of decoders. A bar is shown on a terminal, or as `progress` says.
    """
    chosen = sorted(METRICS) if wanted == ALL else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in METRICS:
            raise unknown_name("metric", name, (*sorted(METRICS), ALL))
    scores, left_out = [], {}
    common = {"names": names, "exclude": exclude, "types": types}
    with progress_bar("measuring", len(chosen), progress) as report:
        for done, name in enumerate(chosen, 1):
            try:
                scores.append(_score(name, codes, model, {**common, "seed": seed}))
            except VaescopeError as error:
                if wanted != ALL:
                    raise
                left_out[name] = str(error)
            report(done, words=name)
    return Measurements(tuple(scores), left_out)


def check_metrics(wanted: Sequence[str], data: Dataset) -> None:
    """Before anything is trained: the data must have the factors that the metrics compare codes with."""
    factors = next((table for table in (data.factors, data.labels) if table is not None), None)
    found = 0 if factors is None else int((factors.reshape(len(data), -1) != factors[0]).any(0).sum())
    for name in wanted:
        needed = 2 if name in OF_SEVERAL else 1 if name in OF_FACTORS else 0
        if found < needed:
            what = "a factor or a label that varies" if needed == 1 else "at least 2 factors that vary"
            raise DataError(
                f"{data.name} must have {what} for the metric {name}, it has {found or 'none'}. Leave {name} out, or "
                "use data that have."
            )


def _score(name: str, codes: Representation, model: Any, common: dict[str, Any]) -> Score:
    if name in OF_CODES:
        return OF_CODES[name](codes)
    if name in OF_FACTORS:
        return OF_FACTORS[name](codes, scale=True, **common)
    if not isinstance(model, nn.Module):
        raise VaescopeError(f"{name} is about a decoder, and there is none. Name a run, or pass a model.")
    return OF_DECODERS[name](model, codes)
