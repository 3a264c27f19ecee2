"""The subject of a diagnosis or a report: codes, with their model, items, run and history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vaescope.codes import Representation
from vaescope.data import DataLike, Dataset
from vaescope.encoding import WrappedModel, adapt, encode, encode_groups, model_of, open_for, recognise
from vaescope.errors import DataError, RunError
from vaescope.models import LatentModel
from vaescope.models.outputs import is_one_posterior
from vaescope.runs import Run
from vaescope.runs.probes import History
from vaescope.runs.store import MAX_ITEMS, data_of, run_of, sample_items, subject_name

NOT_A_RUN, FOREIGN = "these are codes, not a run", "the model was not trained by vaescope"


@dataclass(frozen=True)
class Subject:
    """Codes, with everything known about their model.

    Attributes:
        name: The run's id, the file name, or the name of the model.
        codes: The representation of the encoded items.
        model: The model, wrapped if it is one of another library; None if only codes were given.
        items: The items that were encoded; None if only codes were given.
        run: The run; None for codes and functions.
        history: The rows of the run's history; empty if there is none.
        missing: Name of a missing part -> why it is missing.
    """

    name: str
    codes: Representation = field(repr=False)
    model: LatentModel | None = None
    items: Dataset | None = None
    run: Run | None = None
    history: History = field(default=(), repr=False)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def factor_names(self) -> tuple[str, ...] | None:
        """The names of the factors that come with the codes; None if there are none."""
        table = None if self.items is None else self.items.factor_table
        return None if table is None or self.codes.factors is None else table.names

    @property
    def no_decoder(self) -> str:
        """Why there is no decoder, in one sentence; empty if the model decodes the codes of the items."""
        if self.model is None or self.items is None:
            return f"{NOT_A_RUN}, so there is no decoder."
        if isinstance(self.model, WrappedModel) and self.model.no_decoder:
            remedy = "encode= one group and decode= its codes" if self.model.groups else "decode="
            return f"{self.model.name} cannot decode: {self.model.no_decoder}. Pass {remedy} to vs.wrap."
        return ""


def load_subject(
    subject: object,
    data: DataLike | None = None,
    *,
    items: int = MAX_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Subject:
    """Encode the subject of `diagnose`, which must have one group of latents; the arguments are those of `diagnose`."""
    found = load_subjects(subject, data, items=items, seed=seed, runs=runs)
    if len(found) > 1:
        raise DataError(f"This needs codes of one group of latents, got {len(found)}: {', '.join(found)}. Pass one.")
    (one,) = found.values()
    return one


def load_subjects(
    subject: object,
    data: DataLike | None = None,
    *,
    items: int = MAX_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> dict[str, Subject]:
    """Encode the subject of `diagnose`: one subject for each group of latents, by name.

    A single group, the usual case, has the name ''. The arguments are those of `diagnose`.
    """
    run = run_of(subject, runs)
    if run is not None:
        encoded = sample_items(data_of(run, data), items, seed)
        codes = encode(run.model, encoded, seed=seed)
        history, reason = history_of(run)
        missing = {"History": reason} if reason else {}
        return {"": Subject(run.id, codes, run.model, encoded, run, history, missing)}
    model, name = model_of(subject), subject_name(subject)
    if model is None:
        if isinstance(subject, Mapping) and not ("mean" in subject or is_one_posterior(subject)):
            groups = {str(group): adapt(codes, seed=seed) for group, codes in subject.items()}
        else:
            groups = {"": adapt(subject, data, seed=seed)}
        missing = {"History": f"{NOT_A_RUN}, so there is no training history."}
        return {group: Subject(group or name, codes, missing=missing) for group, codes in groups.items()}
    opened = open_for(model, data)
    recognise(model, opened)
    encoded = sample_items(opened, items, seed, model)
    missing = {"History": f"{FOREIGN}, so there is no training history."}
    return {
        group: Subject(group or name, codes, model, encoded, missing=missing)
        for group, codes in encode_groups(model, encoded, seed=seed).items()
    }


def history_of(run: Run) -> tuple[History, str]:
    """The rows of a run's history and an empty reason, or no rows and the reason why.

    A model can be diagnosed without its history, so a damaged history is not an error here.
    """
    try:
        rows = run.history
    except RunError as error:
        return [], str(error)
    return rows, "" if rows else f"run {run.id} has no training history."
