"""The subjects of a comparison: models under their names, with the codes of the same items, and what is comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vaescope.data import DataLike, Dataset
from vaescope.diagnosis.names import model_names, numbered
from vaescope.diagnosis.subject import FOREIGN, NOT_A_RUN, Subject, history_of
from vaescope.encoding import adapt, encode, model_of, open_for
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import LatentModel
from vaescope.runs import Run
from vaescope.runs.probes import History
from vaescope.runs.store import data_of, run_of, sample_items

MAX_COMPARED_ITEMS = 5000


def load_compared(
    subjects: Sequence[object] | Mapping[str, object],
    data: DataLike | None = None,
    *,
    items: int = MAX_COMPARED_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> tuple[Subject, ...]:
    """Encode the subjects of `compare`, each under its name; the arguments are those of `compare`."""
    given_names = list(subjects) if isinstance(subjects, Mapping) else None
    subjects = list(subjects.values()) if isinstance(subjects, Mapping) else subjects
    if isinstance(subjects, str) or not isinstance(subjects, Sequence) or len(subjects) < 2:
        raise ConfigurationError(
            "compare needs at least two models. Pass a list of runs, models or files of codes, or a dictionary by name."
        )
    found_runs = [run_of(subject, runs) for subject in subjects]
    models = [model_of(one if run is None else run.model) for one, run in zip(subjects, found_runs, strict=True)]
    names = model_names(subjects, found_runs) if given_names is None else numbered([str(name) for name in given_names])
    datasets = _items_of(models, found_runs, data, items, seed)
    loaded = []
    for name, subject, run, model, dataset in zip(names, subjects, found_runs, models, datasets, strict=True):
        if model is not None and dataset is not None:
            codes = encode(model, dataset, seed=seed)
        else:
            codes = adapt(subject, seed=seed)
        history: History = []
        reason = f"{NOT_A_RUN if model is None else FOREIGN}, so there is no training history."
        if run is not None:
            history, reason = history_of(run)
        missing = {"History": reason} if reason else {}
        loaded.append(Subject(name, codes, model, dataset, run, history, missing))
    _check_items(loaded)
    return tuple(loaded)


def losses_comparable(runs: Sequence[Run | None]) -> bool:
    """Whether losses measure the same: runs with one objective, with its strengths, one likelihood and one data set."""
    return None not in runs and len({_loss_terms(run) for run in runs if run is not None}) == 1


def distortions_comparable(runs: Sequence[Run | None]) -> bool:
    """Whether reconstruction terms measure the same: runs with one likelihood and one data set."""
    return None not in runs and len({_loss_terms(run)[1:] for run in runs if run is not None}) == 1


def items_in_words(one: Subject) -> str:
    if one.items is None:
        return f"{one.codes.item_count} items"
    return f"{one.items.name} (items of shape {' x '.join(map(str, one.items.shape))})"


def trained_elsewhere(loaded: Sequence[Subject]) -> list[str]:
    """The names of runs that were trained on other data than those of the first run."""
    runs = [one for one in loaded if one.run is not None]
    prints = [one.run.configuration.data["fingerprint"] for one in runs if one.run is not None]
    return [one.name for one, found in zip(runs, prints, strict=True) if found != prints[0]]


def encode_same_items(loaded: Sequence[Subject]) -> bool:
    """Whether all of these models encode the same items."""
    return len(groups_of(loaded)) == 1


def groups_of(loaded: Sequence[Subject]) -> list[list[int]]:
    """The places of models that encode the same items; codes without items belong to the first group."""
    first = next((one.items for one in loaded if one.items is not None), None)
    groups: dict[int, list[int]] = {}
    for place, one in enumerate(loaded):
        groups.setdefault(id(first if one.items is None else one.items), []).append(place)
    return list(groups.values())


def _loss_terms(run: Run) -> tuple[str, str, str, str]:
    """What the loss of a run consists of: objective, likelihood, data and their split."""
    configuration = run.configuration
    return (
        repr(configuration.member.objective),
        repr(configuration.architecture.likelihood),
        str(configuration.data["fingerprint"]),
        repr(configuration.split),
    )


def _items_of(
    models: Sequence[LatentModel | None], runs: Sequence[Run | None], data: DataLike | None, items: int, seed: int
) -> list[Dataset | None]:
    """The items that each model encodes; None for codes.

    All models encode those of the first run. Runs on items of another shape encode the data of the first run with that
    shape, unless data were given.
    """
    first = next((run for run in runs if run is not None), None)
    if first is None:
        model = next((model for model in models if model is not None), None)
        shared = None if model is None else sample_items(open_for(model, data), items, seed)
        return [None if model is None else shared for model in models]
    by_shape: dict[tuple[int, ...], Dataset] = {}
    for run in runs:
        if run is not None and (data is not None or _shape(run) not in by_shape):
            by_shape[_shape(run)] = by_shape.get(_shape(run)) or sample_items(data_of(run, data), items, seed)
    shared = by_shape[_shape(first)]
    return [
        None if model is None else shared if run is None else by_shape[_shape(run)]
        for model, run in zip(models, runs, strict=True)
    ]


def _shape(run: Run) -> tuple[int, ...]:
    return tuple(run.configuration.data["shape"])


def _check_items(loaded: Sequence[Subject]) -> None:
    for members in groups_of(loaded):
        first = loaded[members[0]]
        for one in (loaded[place] for place in members):
            if one.codes.item_count != first.codes.item_count:
                raise DataError(
                    f"compared codes must be of the same items, but {first.name} has {first.codes.item_count} items "
                    f"and {one.name} {one.codes.item_count}. Encode the same items with every model."
                )
