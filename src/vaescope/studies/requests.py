"""What a study asks for: values measured from runs, from groups of runs, or by work of its own.

Asking trains nothing. A value is looked up when it is read, and `MissingResults` is raised where it is not there yet; a
study therefore asks for everything first and reads afterwards, so that one attempt tells all that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from vaescope.data import Dataset
from vaescope.errors import RunError
from vaescope.runs import Run, hash_of
from vaescope.studies.results import Json, JsonTable, Result, ResultKey, ResultStore
from vaescope.sweeps import Job
from vaescope.training import Member


class MissingResults(Exception):
    """A value was read that is not measured yet; `StudyContext` knows what was asked for."""


@dataclass(frozen=True)
class StudyRun:
    """A run that a study needs, trained or not: its id and the job that would train it."""

    id: str
    job: Job = field(repr=False, compare=False)
    member: Member = field(repr=False, compare=False)


@dataclass(frozen=True)
class Measurement:
    """A value measured from one run by `function(run, data, device, **options)`; small enough for a JSON file.

    `data` is the data set that the run was trained on. Raise `version` when the function's values change.
    """

    name: str
    function: Callable[..., Any]
    options: JsonTable = field(default_factory=dict)
    version: int = 1

    def key(self, run: StudyRun) -> ResultKey:
        """Where the value of a run is kept."""
        return ResultKey.of(run.id, self.name, self.options, self.version)

    def of(self, run: Run, data: Dataset, device: str) -> Json:
        """Measure."""
        value: Json = self.function(run, data, device, **self.options)
        return value


@dataclass(frozen=True)
class Comparison:
    """A value measured from groups of runs by `function(groups, data, device, **options)`.

    The runs of all groups must be trained on the same machine. Without `steps` it takes about as long as measuring
    does; a comparison that trains something itself says how many steps that takes.
    """

    name: str
    function: Callable[..., Any]
    options: JsonTable = field(default_factory=dict)
    version: int = 1
    steps: int = 0

    def key(self, groups: Sequence[Sequence[StudyRun]]) -> ResultKey:
        """Where the value of the groups is kept."""
        subject = hash_of([[run.id for run in group] for group in groups])
        return ResultKey.of(subject, self.name, self.options, self.version)


@dataclass(frozen=True)
class MeasureRequest:
    """One measurement of one run."""

    run: StudyRun
    measurement: Measurement
    key: ResultKey


@dataclass(frozen=True)
class CompareRequest:
    """One comparison of groups of runs."""

    groups: tuple[tuple[StudyRun, ...], ...]
    comparison: Comparison
    key: ResultKey

    @property
    def runs(self) -> tuple[StudyRun, ...]:
        """All runs, each once."""
        return tuple({run.id: run for group in self.groups for run in group}.values())


@dataclass(frozen=True)
class Task:
    """Work other than runs of a sweep, in parts that can be done apart, usually seeds.

    Attributes:
        title: What a plan calls it.
        data: The name of the data set.
        net: The kind of net and the precision, which step times are known by.
        parts: For each part the keys of its results.
        models: Models trained for one part, about.
        steps: Steps of each of these models, about.
        perform: Does the given parts and yields each result as soon as it is known.
    """

    title: str
    data: str
    net: tuple[str, str]
    parts: Mapping[int, tuple[ResultKey, ...]]
    models: float
    steps: int
    perform: Callable[[Sequence[int]], Iterable[tuple[ResultKey, Result]]] = field(repr=False, compare=False)


Request = MeasureRequest | CompareRequest | Task


class Values(Sequence[Any]):
    """Values by the order of the runs, read from the store when they are looked at."""

    def __init__(self, store: ResultStore, keys: Sequence[ResultKey]) -> None:
        self._store, self.keys = store, tuple(keys)

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return Values(self._store, self.keys[place])
        result = self._result(self.keys[place])
        if result.failure is not None:
            raise RunError(
                f"a study needs all of its runs; {self.keys[place].subject} diverged ({result.failure}). Ask for fewer "
                "seeds or another device, or move the run and its result away to try again."
            )
        return result.value

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    @property
    def finished(self) -> list[Any]:
        """The values of the runs that did not diverge."""
        results = [self._result(key) for key in self.keys]
        return [result.value for result in results if result.failure is None]

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return len(self) - len(self.finished)

    @property
    def made(self) -> list[JsonTable]:
        """How each value was made."""
        return [dict(self._result(key).made) for key in self.keys]

    def _result(self, key: ResultKey) -> Result:
        result = self._store.find(key)
        if result is None:
            raise MissingResults(f"{key.measurement} of {key.subject} is not measured yet")
        return result
